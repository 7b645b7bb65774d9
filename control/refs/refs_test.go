package refs

import (
	"testing"

	"sluice.dev/sluice/model"
)

func TestAllowed(t *testing.T) {
	ingress := model.Key{Kind: "Ingress", Namespace: "a", Name: "i"}
	secret := func(namespace string) model.Key { return model.Key{Kind: "Secret", Namespace: namespace, Name: "s"} }
	grant := Grant{Namespace: "b", FromNamespace: "a", FromKind: "Ingress", ToKind: "Secret"}
	other := grant
	other.ToName = "t"
	for _, c := range []struct {
		name     string
		from, to model.Key
		grants   []Grant
		want     bool
	}{
		{"own namespace", ingress, secret("a"), nil, true},
		{"other namespace", ingress, secret("b"), nil, false},
		{"granted", ingress, secret("b"), []Grant{grant}, true},
		{"granted for another name", ingress, secret("b"), []Grant{other}, false},
		{"granted by a third namespace", ingress, secret("c"), []Grant{grant}, false},
		{"granted for another kind", ingress, model.Key{Kind: "Service", Namespace: "b", Name: "s"}, []Grant{grant}, false},
		{"object of an operator", model.Key{Kind: "IngressController", Name: "c"}, secret("b"), nil, true},
	} {
		if got := Allowed(c.from, c.to, c.grants); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
