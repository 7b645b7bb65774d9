package kube

import (
	"testing"

	"sluice.dev/sluice/control/store"
)

// TestNameAlike: Ingresses are looked through for Secrets only when one of them names others, or for others.
func TestNameAlike(t *testing.T) {
	of := func(class string, secrets ...string) *store.Object {
		in := &store.Ingress{Class: class, HasClass: class != "", Rules: []store.Rule{{Host: class}}}
		for _, name := range secrets {
			in.TLS = append(in.TLS, store.TLS{Secret: name})
		}
		return store.NewObject(store.KindIngress, "shop", "web", in)
	}
	annotated := of("a", "x")
	annotated.Value.(*store.Ingress).Annotations = map[string]string{store.ClassAnnotation: "b"}
	for _, c := range []struct {
		what        string
		before, now *store.Object
		want        bool
	}{
		{"new without TLS", nil, of("a"), true},
		{"new with TLS", nil, of("a", "x"), false},
		{"gone without TLS", of("a"), nil, true},
		{"gone with TLS", of("a", "x"), nil, false},
		{"another class without TLS", of("a"), of("b"), true},
		{"the same", of("a", "x"), of("a", "x"), true},
		{"another Secret", of("a", "x"), of("a", "y"), false},
		{"one more", of("a", "x"), of("a", "x", "y"), false},
		{"no more", of("a", "x"), of("a"), false},
		{"another class", of("a", "x"), of("b", "x"), false},
		{"another class by annotation", of("a", "x"), annotated, false},
	} {
		if got := nameAlike(c.before, c.now); got != c.want {
			t.Errorf("%s: alike %t", c.what, got)
		}
	}
}
