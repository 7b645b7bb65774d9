package ingress

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// tlsState is one host that Ingresses want TLS for.
type tlsState struct {
	members []*member // oldest first; the first has it
	lost    map[*member][]model.Problem
}

func secretKey(path string) model.Key {
	namespace, name, _ := strings.Cut(path, "/")
	return model.Key{Kind: store.KindSecret, Namespace: namespace, Name: name}
}

// entry makes the TLS entry of a host: the Secrets that its oldest Ingress names for it, one for each type of key.
func (c *controller) entry(host string, t *tlsState) *model.TLSEntry {
	c.forget(t.lost)
	t.lost = nil
	winner := t.members[0]
	items := c.itemsOf(winner, host)
	e := &model.TLSEntry{Host: host, Origin: model.Origin{Key: winner.object.Key, Field: items[0].field}}
	for _, item := range items {
		if item.secret == "" || slices.Contains(e.Certificates, item.secret) {
			continue
		}
		if twin := c.sameKeyType(e.Certificates, item.secret); twin != "" {
			t.note(winner, item, fmt.Sprintf("the certificate of Secret %s serves host %q and has the same type of key", twin, clip(host)))
			continue
		}
		e.Certificates = append(e.Certificates, item.secret)
	}
	for _, m := range t.members[1:] {
		for _, item := range c.itemsOf(m, host) {
			if item.secret != "" && !slices.Contains(e.Certificates, item.secret) {
				t.note(m, item, fmt.Sprintf("the certificate of host %q is that of %s", clip(host), agePhrase(winner, m)))
			}
		}
	}
	c.forget(t.lost)
	old, found := c.tlsSet.Entries.Get(host)
	if !found {
		old, _ = c.lastEntries.Get(host)
	}
	return keep(old, e)
}

// itemsOf are the entries of spec.tls by which an Ingress claims a host.
func (c *controller) itemsOf(m *member, host string) []*tlsItem {
	var items []*tlsItem
	r := c.state.read(m)
	i, _ := slices.BinarySearchFunc(m.claims, host, func(claim tlsClaim, host string) int { return strings.Compare(claim.host, host) })
	for ; i < len(m.claims) && m.claims[i].host == host; i++ {
		items = append(items, &r.tls[m.claims[i].item])
	}
	return items
}

// sameKeyType is the one of the Secrets whose key is of the type that another has; "" for none.
func (c *controller) sameKeyType(secrets []string, other string) string {
	algorithm := c.state.secret(other).algorithm
	for _, path := range secrets {
		if algorithm != 0 && c.state.secret(path).algorithm == algorithm {
			return path
		}
	}
	return ""
}

func (t *tlsState) note(m *member, item *tlsItem, message string) {
	if t.lost == nil {
		t.lost = map[*member][]model.Problem{}
	}
	t.lost[m] = append(t.lost[m], model.Problem{
		Origin: model.Origin{Key: m.object.Key, Field: item.field + ".secretName"}, Reason: "CertificateTaken", Severity: model.Error,
		Message: message, Mend: "use one Secret for the host",
	})
}
