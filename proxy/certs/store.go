package certs

import (
	"crypto/ecdsa"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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
	policies map[string]*policy       // by client CAs

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
	s := &Store{settings: settings, slots: map[string]*slot{}, bad: map[string]model.Problem{}, policies: map[string]*policy{}}
	s.selfSigned = sync.OnceValues(func() (*tls.Certificate, error) { return selfSign(settings.Now()) })
	return s
}

// sync brings the slots in step with the certificates of a config, and reports whether any changed.
func (s *Store) sync(certificates persist.Map[*model.Certificate]) (changed bool) {
	for name, pair := range persist.Diff(s.seen, certificates) {
		changed = true
		delete(s.bad, name)
		if pair[1] == nil {
			if slot := s.slots[name]; slot != nil {
				slot.current.Store(nil)
			}
			s.settings.Metrics.DropCertificate(name)
			continue
		}
		s.load(pair[1])
	}
	s.seen = certificates
	return changed
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
		}
		return
	}
	s.slot(spec.Name).current.Store(loaded)
	s.settings.Metrics.Certificate(spec.Name, loaded.Leaf.NotAfter)
}

// expiry is the problem of a certificate that is served outside its time; ok when there is one.
func (s *Store) expiry(slot *slot) (model.Problem, bool) {
	current := slot.current.Load()
	if current == nil {
		return model.Problem{}, false
	}
	spec, _ := s.seen.Get(slot.name)
	if spec == nil {
		return model.Problem{}, false
	}
	p := model.Problem{Origin: spec.Origin, Severity: model.Warning}
	switch now := s.settings.Now(); {
	case now.After(current.Leaf.NotAfter):
		p.Reason, p.Message = "CertificateExpired", fmt.Sprintf("certificate %s ended on %s", slot.name, current.Leaf.NotAfter.UTC().Format(time.RFC3339))
		p.Mend = "renew it; it is served meanwhile, and clients will refuse it"
	case now.Before(current.Leaf.NotBefore):
		p.Reason, p.Message = "CertificateNotYetValid", fmt.Sprintf("certificate %s begins on %s", slot.name, current.Leaf.NotBefore.UTC().Format(time.RFC3339))
		p.Mend = "check its dates and this machine's clock; it is served meanwhile"
	default:
		return p, false
	}
	return p, true
}

func (s *Store) slot(name string) *slot {
	if s.slots[name] == nil {
		s.slots[name] = &slot{name: name}
	}
	return s.slots[name]
}

// parse makes what crypto/tls needs of a certificate, or says why it cannot.
func parse(spec *model.Certificate) (*tls.Certificate, string) {
	if spec.Broken != "" {
		return nil, spec.Broken
	}
	loaded, err := tls.X509KeyPair(spec.Chain, spec.Key)
	if err != nil {
		return nil, err.Error()
	}
	return &loaded, ""
}

// prefers reports whether a is to be offered before b: ECDSA signs much faster than RSA.
func prefers(a, b *tls.Certificate) bool {
	_, aFast := a.Leaf.PublicKey.(*ecdsa.PublicKey)
	_, bFast := b.Leaf.PublicKey.(*ecdsa.PublicKey)
	return aFast && !bFast
}
