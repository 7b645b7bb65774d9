package certs

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/message"
)

// Set is what the servers of one model.TLSSet present. It is immutable but for the certificates in its slots.
type Set struct {
	store    *Store
	spec     *model.TLSSet
	entries  persist.Map[*entry] // by host pattern
	fallback *entry              // for no or an unknown name
	problems []model.Problem
}

// entry is the TLS side of one host.
type entry struct {
	spec   *model.TLSEntry
	id     string // the same in every generation
	slots  []*slot
	policy *policy
}

// Compile makes the Set of a TLSSet. Entries of prev whose *model.TLSEntry is the same are kept, certificates whose *model.Certificate is
// the same are not parsed again. The problems are those of the entries and certificates that the set uses now.
func (s *Store) Compile(spec *model.TLSSet, certificates persist.Map[*model.Certificate], prev *Set) (*Set, []model.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if prev != nil && prev.spec == spec && !s.sync(certificates) {
		return prev, prev.problems
	}
	s.sync(certificates)
	set := &Set{store: s, spec: spec}
	set.fallback = &entry{id: spec.Name, policy: s.policy(spec.ClientCAs)}
	for _, name := range spec.Default {
		set.fallback.slots = append(set.fallback.slots, s.slot(name))
	}
	var before persist.Map[*model.TLSEntry]
	var edit *persist.Editor[*entry]
	if prev != nil && string(prev.spec.ClientCAs) == string(spec.ClientCAs) {
		before, edit = prev.spec.Entries, prev.entries.Edit()
	} else {
		edit = persist.Map[*entry]{}.Edit()
	}
	for host, pair := range persist.Diff(before, spec.Entries) {
		if pair[1] == nil {
			edit.Delete(host)
			continue
		}
		edit.Set(host, s.entry(spec, pair[1]))
	}
	set.entries = edit.Map()
	set.problems = s.problems(set)
	return set, set.problems
}

func (s *Store) entry(set *model.TLSSet, spec *model.TLSEntry) *entry {
	e := &entry{spec: spec, id: set.Name + " " + spec.Host}
	cas := spec.ClientCAs
	if len(cas) == 0 {
		cas = set.ClientCAs
	}
	e.policy = s.policy(cas)
	for _, name := range spec.Certificates {
		e.slots = append(e.slots, s.slot(name))
	}
	return e
}

// problems gathers what is wrong with the set. It walks the entries, and only when one of them or a certificate changed.
func (s *Store) problems(set *Set) (all []model.Problem) {
	told := map[*slot]bool{}
	look := func(e *entry, origin model.Origin) {
		if e.policy.broken != "" {
			all = append(all, model.Problem{
				Origin: origin, Reason: "ClientCAInvalid", Severity: model.Error,
				Message: e.policy.broken + "; handshakes are refused", Mend: "give one or more CA certificates in PEM",
			})
		}
		for _, slot := range e.slots {
			if told[slot] {
				continue
			}
			told[slot] = true
			if p, isBad := s.bad[slot.name]; isBad {
				all = append(all, p)
			}
			if p, isBad := s.expiry(slot); isBad {
				all = append(all, p)
			}
		}
	}
	look(set.fallback, model.Origin{Key: model.Key{Kind: "TLSSet", Name: set.spec.Name}})
	for _, e := range set.entries.All() {
		look(e, e.spec.Origin)
	}
	return all
}

// find returns the entry for a canonical server name, and whether the name selected it.
func (s *Set) find(name string) (*entry, bool) {
	if name == "" {
		return s.fallback, false
	}
	if e, found := s.entries.Get(name); found {
		return e, true
	}
	if _, parent, found := strings.Cut(name, "."); found {
		if e, found := s.wildcard(parent); found {
			return e, true
		}
	}
	return s.fallback, false
}

// wildcard looks up *.parent without making that string on the heap.
func (s *Set) wildcard(parent string) (*entry, bool) {
	var buffer [256]byte
	if len(parent) > len(buffer)-2 {
		return nil, false
	}
	pattern := append(append(buffer[:0], "*."...), parent...)
	return s.entries.Get(string(pattern)) // the compiler does not copy for a call that is inlined; see TestAllocsOfAuthorize
}

var errNoCertificate = errors.New("no certificate")

// pick returns the certificate of the entry for a client: the preferred one that the client can verify, else any.
func (s *Set) pick(e *entry, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	var supported, some *tls.Certificate
	able := *hello
	able.ServerName = "" // a certificate is chosen by what the client can verify with; the entry has chosen the name
	for _, slot := range e.slots {
		c := slot.current.Load()
		if c == nil {
			continue
		}
		if some == nil {
			some = c
		}
		if able.SupportsCertificate(c) == nil && (supported == nil || prefers(c, supported)) {
			supported = c
		}
	}
	switch {
	case supported != nil:
		return supported, nil
	case some != nil:
		return some, nil
	case e != s.fallback:
		return s.pick(s.fallback, hello)
	}
	c, err := s.store.selfSigned()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCertificate, err)
	}
	return c, nil
}

// Authorize says whether a connection with that handshake may ask for a host (canonical): OK; Misdirected when its server name
// selected the entry of another host; ClientCertificate when the host demands a client certificate that the handshake did not ask for.
func (s *Set) Authorize(t *message.TLS, host string) message.Reason {
	if t == nil || s.entries.Len() == 0 {
		return message.OK
	}
	e, _ := s.find(host)
	if e.id == t.EntryID {
		return message.OK
	}
	if t.Named && e != s.fallback {
		return message.Misdirected
	}
	if e.policy.cas != nil && !s.verified(t, e) {
		return message.ClientCertificate
	}
	return message.OK
}

// verified reports whether the handshake was made under the same client CAs as the entry has.
func (s *Set) verified(t *message.TLS, e *entry) bool {
	made, _ := s.find(t.ServerName)
	return made.id == t.EntryID && made.policy == e.policy
}
