package certs

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// builder makes the next Set from the one before, entry by entry.
type builder struct {
	store    *Store
	spec     *model.TLSSet
	before   persist.Map[*model.TLSEntry] // the entries that were kept to start from
	fallback *entry
	entries  *persist.Editor[*entry]
	uses     *persist.Editor[*use]
	faults   *persist.Editor[model.Problem]
}

// newBuilder starts from what prev has. Entries without client CAs of their own have those of the set, so that all are new when these
// differ.
func newBuilder(s *Store, spec *model.TLSSet, prev *Set) *builder {
	b := &builder{store: s, spec: spec}
	b.fallback = &entry{policy: s.policy(spec.ClientCAs)}
	b.fallback.id = spec.Name + b.fallback.policy.mark
	if prev.spec.Name == spec.Name && bytes.Equal(prev.spec.ClientCAs, spec.ClientCAs) {
		b.before, b.entries, b.uses, b.faults = prev.spec.Entries, prev.entries.Edit(), prev.uses.Edit(), prev.faults.Edit()
		b.disuse("", prev.fallback)
	} else {
		b.entries, b.uses, b.faults = persist.Map[*entry]{}.Edit(), persist.Map[*use]{}.Edit(), persist.Map[model.Problem]{}.Edit()
	}
	b.fill("", b.fallback, spec.Default)
	return b
}

func (b *builder) add(spec *model.TLSEntry) {
	cas := spec.ClientCAs
	if len(cas) == 0 {
		cas = b.spec.ClientCAs
	}
	e := &entry{spec: spec, policy: b.store.policy(cas)}
	e.id = b.spec.Name + " " + spec.Host + e.policy.mark
	b.entries.Set(spec.Host, e)
	b.fill(spec.Host, e, spec.Certificates)
}

func (b *builder) remove(host string) {
	e, _ := b.entries.Get(host)
	b.disuse(host, e)
	b.entries.Delete(host)
	b.faults.Delete(host)
}

// fill gives the entry its certificates.
func (b *builder) fill(host string, e *entry, names []string) {
	for _, name := range names {
		e.slots = append(e.slots, b.store.slot(name))
		u, used := b.uses.Get(name)
		switch {
		case !used:
			b.uses.Set(name, &use{hosts: []string{host}})
		case !slices.Contains(u.hosts, host):
			b.uses.Set(name, &use{hosts: append(u.hosts[:len(u.hosts):len(u.hosts)], host)})
		}
	}
	b.check(host)
}

func (b *builder) disuse(host string, e *entry) {
	for _, slot := range e.slots {
		u, used := b.uses.Get(slot.name)
		if !used {
			continue
		}
		if rest := slices.DeleteFunc(slices.Clone(u.hosts), func(h string) bool { return h == host }); len(rest) > 0 {
			b.uses.Set(slot.name, &use{hosts: rest})
		} else {
			b.uses.Delete(slot.name)
		}
	}
}

// check notes what is wrong with the entry of a host: client CAs that verify nothing, a certificate that is not for the host.
func (b *builder) check(host string) {
	e, origin := b.fallback, b.spec.Origin
	if host != "" {
		e, _ = b.entries.Get(host)
		origin = e.spec.Origin
	}
	b.faults.Delete(host)
	if e.policy.broken != "" {
		b.faults.Set(host, model.Problem{
			Origin: origin, Reason: "ClientCAInvalid", Severity: model.Error,
			Message: e.policy.broken + "; handshakes are refused", Mend: "give one or more CA certificates in PEM",
		})
		return
	}
	if host == "" {
		return
	}
	for _, slot := range e.slots {
		if c := slot.current.Load(); c != nil && c.Leaf.VerifyHostname(host) != nil {
			b.faults.Set(host, model.Problem{
				Origin: origin, Reason: "CertificateNameMismatch", Severity: model.Warning,
				Message: fmt.Sprintf("certificate %s is for %s, not for %s, and clients will refuse it", slot.name, namesOf(c), host),
				Mend:    "name a certificate that is for the host",
			})
			return
		}
	}
}

// problems lists what is wrong with the set: its entries' faults, then what is wrong with the certificates that it uses.
func (s *Store) problems(set *Set) (all []model.Problem) {
	for _, fault := range set.faults.All() {
		all = append(all, fault)
	}
	first := len(all)
	for _, told := range []map[string]model.Problem{s.bad, s.untimely} {
		for name, p := range told {
			if _, used := set.uses.Get(name); used {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all[first:], func(a, b model.Problem) int { return strings.Compare(a.Message, b.Message) })
	return all
}
