package upstream

import (
	"slices"
	"time"

	"sluice.dev/sluice/proxy/balance"
	"sluice.dev/sluice/proxy/message"
)

// choose picks the endpoint of the next attempt: one that was not tried and is not ejected, else one that was not tried. One
// that was tried is chosen again only where again says so. It is nil when none is left.
func (f *flight) choose(s *set, now time.Time) *member {
	at := f.pool.settings.clock(now)
	hash := f.hash(s)
	if len(f.tried) == 0 && at >= f.pool.ejected.Load() {
		return s.at(s.picker.Pick(hash, nil))
	}
	if m := f.keep(s); m != nil {
		return m
	}
	tried := func(i int) bool { return slices.Contains(f.tried, s.members[i].endpoint) }
	if !s.panicking(at) {
		m := s.at(s.picker.Pick(hash, func(i int) bool { return s.members[i].ejectedAt(at) || tried(i) }))
		if m != nil {
			return m
		}
	}
	if m := s.at(s.picker.Pick(hash, tried)); m != nil {
		return m
	}
	if f.anew != nil {
		return s.find(f.anew)
	}
	return nil
}

// keep returns the endpoint whose connection was stale where the policy binds a client to its endpoint.
func (f *flight) keep(s *set) *member {
	if f.anew == nil || s.policy != balance.IPHash && s.policy != balance.HeaderHash {
		return nil
	}
	return s.find(f.anew)
}

// othersFor reports whether after m another endpoint could be tried: then a connection to m need not be waited for as long.
func (f *flight) othersFor(m *member, s *set, now time.Time) bool {
	at := f.pool.settings.clock(now)
	if f.x.Forward.Attempts >= f.pool.settings.Attempts {
		return false
	}
	for _, other := range s.members {
		if other != m && !other.ejectedAt(at) && !slices.Contains(f.tried, other.endpoint) {
			return true
		}
	}
	return false
}

func (f *flight) hash(s *set) uint64 {
	switch s.policy {
	case balance.IPHash:
		return balance.Hash(f.x.ClientIP)
	case balance.HeaderHash:
		return balance.Hash(f.x.Request.Header.Get(s.headerKey))
	}
	return 0
}

func (s *set) at(i int) *member {
	if i < 0 {
		return nil
	}
	return s.members[i]
}

func (s *set) find(e *endpoint) *member {
	for _, m := range s.members {
		if m.endpoint == e {
			return m
		}
	}
	return nil
}

// hostFor is the Host to send to m.
func (f *flight) hostFor(m *member) string {
	client := f.x.Request.Authority
	switch {
	case client != "" && (m.keepHost || f.options.KeepHost && !m.named):
		return client
	case f.options.Host != "" && !f.options.KeepHost && !m.keepHost:
		return f.options.Host
	}
	return m.host
}

// budgeted reports whether a retry may go to m: to an endpoint that answered last time always, to another, and with a request that may
// be what breaks endpoints, within the budget.
func (f *flight) budgeted(m *member, now time.Time) bool {
	return !f.lethal && m.broken.Load() == 0 || f.pool.budget.spend(now)
}

// nobody is the fault of a set without members.
func (s *set) nobody() *fault {
	reason := s.reason
	if reason == message.OK {
		reason = message.NoEndpoints
	}
	return &fault{reason: reason, err: errNobody, local: true}
}
