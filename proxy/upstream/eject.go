package upstream

import "time"

// answered notes that e gave a response; failure says that its status is a failure code.
func (p *Pool) answered(e *endpoint, failure bool, now time.Time) {
	if e.broken.Load() != 0 {
		e.broken.Store(0)
	}
	if !failure {
		if e.failed.Load() != 0 {
			e.failed.Store(0)
		}
		return
	}
	if n := e.failed.Add(1); int(n) >= p.settings.Ejection.Failed {
		p.eject(e, now)
	}
}

// brokenOff notes that an exchange with e ended without a response, and not by the client's fault.
func (p *Pool) brokenOff(e *endpoint, now time.Time) {
	if n := e.broken.Add(1); int(n) >= p.settings.Ejection.Broken {
		p.eject(e, now)
	}
}

// eject takes e out for a while, unless it is out already or no other would be left. The next failure after its return
// ejects it again, for twice as long.
func (p *Pool) eject(e *endpoint, now time.Time) {
	rules := &p.settings.Ejection
	if rules.Off {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	at, last := p.settings.clock(now), e.until.Load()
	if at < last || !p.othersLeft(e, at) {
		return
	}
	if at-last > int64(rules.Longest) {
		e.ejections = 0
	}
	length := rules.Longest
	if e.ejections < 16 { // more doublings might overflow
		length = min(rules.Duration<<e.ejections, rules.Longest)
	}
	e.ejections++
	end := at + int64(length)
	e.until.Store(end)
	p.ejected.Store(max(end, p.ejected.Load()))
	p.metrics.Eject()
	p.settings.Log.Info("endpoint ejected", "upstream", p.name, "endpoint", e.address,
		"broken", e.broken.Load(), "failed", e.failed.Load(), "for", length)
}

// othersLeft reports whether a member other than e is in. The caller holds p.mu.
func (p *Pool) othersLeft(e *endpoint, at int64) bool {
	for _, m := range p.current.Load().members {
		if m.endpoint != e && !m.ejectedAt(at) {
			return true
		}
	}
	return false
}

func (e *endpoint) ejectedAt(at int64) bool { return e.until.Load() > at }

// panicking reports whether so many members are ejected that ejection is more likely the fault than the cure: more than half.
func (s *set) panicking(at int64) bool {
	out := 0
	for _, m := range s.members {
		if m.ejectedAt(at) {
			out++
		}
	}
	return out*2 > len(s.members)
}

// warnEvery bounds how often a pool says that an origin answered what cannot be passed on.
const warnEvery = 10 * time.Second

// warn says what was wrong with an answer of e, for the access log has room for the reason only.
func (p *Pool) warn(e *endpoint, fail *fault, now time.Time) {
	at, last := p.settings.clock(now)+1, p.warned.Load()
	if last != 0 && at-last < int64(warnEvery) || !p.warned.CompareAndSwap(last, at) {
		return
	}
	p.settings.Log.Warn("malformed answer of an endpoint", "upstream", p.name, "endpoint", e.address,
		"reason", fail.reason.String(), "error", fail.err)
}
