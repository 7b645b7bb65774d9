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
	store        *Store
	spec         *model.TLSSet
	certificates persist.Map[*model.Certificate] // that it was compiled with
	version      uint64                          // of the store, then
	entries      persist.Map[*entry]             // by host pattern
	fallback     *entry                          // for no or an unknown name

	uses     persist.Map[*use]          // by certificate name
	faults   persist.Map[model.Problem] // by host pattern: what is wrong with the entry
	problems []model.Problem
}

// entry is the TLS side of one host.
type entry struct {
	spec   *model.TLSEntry // nil for the fallback
	id     string          // the same in every generation, and another one for other client CAs
	slots  []*slot
	policy *policy
}

// use is who presents a certificate.
type use struct{ hosts []string } // patterns; "" is the fallback

// Compile makes the Set of a TLSSet. Entries of prev whose *model.TLSEntry is the same are kept, certificates whose *model.Certificate is
// the same are not parsed again. The problems are those of the entries and certificates that the set uses now.
func (s *Store) Compile(spec *model.TLSSet, certificates persist.Map[*model.Certificate], prev *Set) (*Set, []model.Problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sync(certificates)
	if prev == nil || prev.store != s {
		prev = &Set{spec: &model.TLSSet{}}
	}
	if prev.spec == spec && prev.version == s.version {
		return prev, prev.problems
	}
	b := newBuilder(s, spec, prev)
	for host, pair := range persist.Diff(b.before, spec.Entries) {
		if pair[0] != nil {
			b.remove(host)
		}
		if pair[1] != nil {
			b.add(pair[1])
		}
	}
	for name := range persist.Diff(prev.certificates, certificates) {
		if u, used := b.uses.Get(name); used {
			for _, host := range u.hosts {
				b.check(host)
			}
		}
	}
	set := &Set{
		store: s, spec: spec, certificates: certificates, version: s.version,
		entries: b.entries.Map(), fallback: b.fallback, uses: b.uses.Map(), faults: b.faults.Map(),
	}
	set.problems = s.problems(set)
	return set, set.problems
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
// selected the entry of another host, or this host's when it demanded other client certificates; ClientCertificate when the host
// demands a client certificate that the handshake did not ask for.
func (s *Set) Authorize(t *message.TLS, host string) message.Reason {
	if t == nil {
		return message.OK
	}
	e, named := s.find(host)
	if e.id == t.EntryID {
		return message.OK
	}
	if t.Named && named {
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
