package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/telemetry"
)

// Settings of a Store.
type Settings struct {
	Log     *slog.Logger
	Now     func() time.Time   // nil: time.Now
	Metrics *telemetry.Metrics // nil: none
}

// Store holds the certificates by name, each with the last good one, and what is shared by the Sets that it compiles.
type Store struct {
	settings Settings

	mu       sync.Mutex
	seen     persist.Map[*model.Certificate]
	slots    map[string]*slot
	bad      map[string]model.Problem // by name: why the certificate of the config is not the one served
	untimely map[string]model.Problem // by name: served outside its time
	due      time.Time                // when a certificate begins or ends next; zero: never
	version  uint64                   // grows when any of these changes
	policies map[[32]byte]weak.Pointer[policy]

	selfSigned func() (*tls.Certificate, error)
}

// slot holds what is served under one name. Entries refer to slots, so that a rotation reaches them without a new Set.
type slot struct {
	name    string
	current atomic.Pointer[tls.Certificate] // nil: none yet, or removed
}

// New makes an empty Store.
func New(settings Settings) *Store {
	if settings.Now == nil {
		settings.Now = time.Now
	}
	s := &Store{
		settings: settings, slots: map[string]*slot{}, policies: map[[32]byte]weak.Pointer[policy]{},
		bad: map[string]model.Problem{}, untimely: map[string]model.Problem{},
	}
	s.selfSigned = sync.OnceValues(func() (*tls.Certificate, error) { return selfSign(settings.Now()) })
	return s
}

// sync brings the slots in step with the certificates of a config and with the clock.
func (s *Store) sync(certificates persist.Map[*model.Certificate]) {
	now := s.settings.Now()
	seen := s.seen
	s.seen = certificates
	for name, pair := range persist.Diff(seen, certificates) {
		s.version++
		delete(s.bad, name)
		if pair[1] != nil {
			s.load(pair[1])
		} else if slot := s.slots[name]; slot != nil {
			slot.current.Store(nil)
			s.settings.Metrics.DropCertificate(name)
		}
		s.judge(name, now)
	}
	if s.due.IsZero() || now.Before(s.due) {
		return
	}
	s.version++
	s.due = time.Time{}
	for name := range s.slots {
		s.judge(name, now)
	}
}

func (s *Store) load(spec *model.Certificate) {
	loaded, reason := parse(spec)
	if reason != "" {
		what := "the default certificate is served"
		if s.slot(spec.Name).current.Load() != nil {
			what = "the last good one is served"
		}
		s.bad[spec.Name] = model.Problem{
			Origin: spec.Origin, Reason: "CertificateInvalid", Severity: model.Error,
			Message: fmt.Sprintf("certificate %s cannot be used: %s; until it can, %s", spec.Name, reason, what),
			Mend:    "give a PEM chain, leaf first, and the key that belongs to the leaf",
		}
		return
	}
	s.slot(spec.Name).current.Store(loaded)
	s.settings.Metrics.Certificate(spec.Name, loaded.Leaf.NotAfter)
}

// judge notes whether a certificate is served outside its time, and when that changes.
func (s *Store) judge(name string, now time.Time) {
	delete(s.untimely, name)
	spec, _ := s.seen.Get(name)
	slot := s.slots[name]
	if spec == nil || slot == nil || slot.current.Load() == nil {
		return
	}
	leaf := slot.current.Load().Leaf
	p := model.Problem{Origin: spec.Origin, Severity: model.Warning}
	switch {
	case now.Before(leaf.NotBefore):
		p.Reason, p.Message = "CertificateNotYetValid", fmt.Sprintf("certificate %s begins on %s", name, leaf.NotBefore.UTC().Format(time.RFC3339))
		p.Mend = "check its dates and this machine's clock; it is served meanwhile"
		s.untimely[name] = p
		s.expect(leaf.NotBefore)
	case now.After(leaf.NotAfter):
		p.Reason, p.Message = "CertificateExpired", fmt.Sprintf("certificate %s ended on %s", name, leaf.NotAfter.UTC().Format(time.RFC3339))
		p.Mend = "renew it; it is served meanwhile, and clients will refuse it"
		s.untimely[name] = p
	default:
		s.expect(leaf.NotAfter.Add(time.Nanosecond))
	}
}

func (s *Store) expect(at time.Time) {
	if s.due.IsZero() || at.Before(s.due) {
		s.due = at
	}
}

func (s *Store) slot(name string) *slot {
	if s.slots[name] == nil {
		s.slots[name] = &slot{name: name}
	}
	return s.slots[name]
}

// maxChain is what clients take of a certificate chain; OpenSSL is the strictest of the usual ones. A longer one would be sent in vain with
// every handshake.
const maxChain = 100 << 10

// parse makes what crypto/tls needs of a certificate, or says why it cannot.
func parse(spec *model.Certificate) (*tls.Certificate, string) {
	if spec.Broken != "" {
		return nil, spec.Broken
	}
	loaded, err := tls.X509KeyPair(spec.Chain, spec.Key)
	if err != nil {
		return nil, strings.TrimPrefix(err.Error(), "tls: ")
	}
	size := 0
	for _, der := range loaded.Certificate {
		size += len(der)
	}
	if size > maxChain {
		return nil, fmt.Sprintf("its %d certificates have %d KiB, and clients refuse chains of more than %d KiB", len(loaded.Certificate), size>>10, maxChain>>10)
	}
	return &loaded, ""
}

// prefers reports whether a is to be offered before b: ECDSA signs much faster than RSA.
func prefers(a, b *tls.Certificate) bool {
	_, aFast := a.Leaf.PublicKey.(*ecdsa.PublicKey)
	_, bFast := b.Leaf.PublicKey.(*ecdsa.PublicKey)
	return aFast && !bFast
}
