package upstream

import (
	"errors"
	"time"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// probeWait bounds how long the start of a chunked body is waited for before an endpoint is taken.
const probeWait = time.Second

var errNobody = errors.New("there is no endpoint to send to")

// flight is the state of a forward step. It stays in the Exchange and is used again by the next one. While it has a member it
// counts as in flight there.
type flight struct {
	pool    *Pool
	x       *filter.Exchange
	options filter.ForwardOptions
	start   time.Time

	member  *member
	conn    *conn
	reused  bool
	flying  bool         // the attempt is under way: nobody else holds its connection
	private bool         // the connection is not for others afterwards
	request *requestBody // nil: the request has no body
	body    responseBody

	tried   []*endpoint
	awaited bool      // names were waited for
	anew    *endpoint // whose connection was stale: it is tried once more, on a new one
	lethal  bool      // an endpoint broke a new connection off after the request: it may be the request that does it
}

// Forward is filter.Upstream. The error is that of the last attempt.
func (p *Pool) Forward(x *filter.Exchange, options filter.ForwardOptions) error {
	f := flightOf(x)
	f.pool, f.x, f.options, f.start = p, x, options, p.settings.Now()
	f.tried, f.anew, f.lethal, f.awaited = f.tried[:0], nil, false, false
	x.Forward = filter.Forward{Upstream: p.name}
	x.Reason = message.OK
	defer f.guard()
	p.budget.earn()
	if fail := f.attempts(); fail != nil {
		f.refuse(fail)
		return fail
	}
	return nil
}

func flightOf(x *filter.Exchange) *flight {
	f, _ := x.Memory.(*flight)
	if f == nil || f.member != nil { // an earlier response of this exchange is still being read
		f = &flight{}
		x.Memory = f
	}
	return f
}

// guard gives the connection up when a panic ends the step.
func (f *flight) guard() {
	if f.flying {
		f.land(message.Panicked)
	}
}

// attempts tries one endpoint after another, as far as that is safe.
func (f *flight) attempts() *fault {
	x := f.x
	source := x.Request.Body
	f.request = nil
	if source != nil {
		if fail := probe(source); fail != nil {
			return fail
		}
		f.request = bodyFor(x.Request)
		x.Request.Body = f.request
		defer func() { x.Request.Body = source }()
	}
	now := f.start
	var last *fault
	for x.Forward.Attempts < f.pool.settings.Attempts {
		s := f.pool.current.Load()
		if len(s.members) == 0 {
			if last == nil && f.await(s) {
				continue
			}
			if last != nil {
				return last
			}
			return s.nobody()
		}
		m := f.choose(s, now)
		if m == nil || last != nil && !f.budgeted(m, now) {
			return last
		}
		if last != nil {
			f.pool.metrics.Retry()
		}
		fail := f.attempt(s, m, now)
		if fail == nil {
			return nil
		}
		if fail.err == errRetired { //nolint:errorlint // our own and bare
			continue // the set has changed
		}
		now = f.pool.settings.Now()
		f.note(fail, m, now)
		last = fail
		if !f.mayRetry(fail, m) {
			return last
		}
	}
	return last
}

// probe refuses a request whose body is malformed at its start before any endpoint hears of it.
func probe(body message.Body) *fault {
	p, ok := body.(message.Prober)
	if !ok {
		return nil
	}
	err := p.Probe(probeWait)
	var broken *message.BodyError
	if errors.As(err, &broken) {
		return &fault{reason: broken.Reason, err: err, client: true}
	}
	return nil
}

// attempt sends the request to m and reads the head of its answer.
func (f *flight) attempt(s *set, m *member, now time.Time) *fault {
	fail := f.board(s, m, now)
	if fail != nil {
		return fail
	}
	x := f.x
	err := f.conn.Send(x.Request, f.hostFor(m))
	if err == nil {
		timeout := f.options.Timeout
		if timeout <= 0 {
			timeout = f.pool.settings.HeadTimeout
		}
		err = f.conn.Receive(x.Answer(), x.Stream, timeout)
	}
	if err != nil {
		x.Discard()
		fail = f.conn.explain(err, f.reused)
		f.conn.Close()
		f.leave()
		return fail
	}
	f.arrived()
	return nil
}

// board counts f as in flight at m and gets it a connection.
func (f *flight) board(s *set, m *member, now time.Time) *fault {
	pool := f.pool
	for {
		c, open := m.idle.pop(f.anew == nil)
		if !open {
			closeOne(c)
			return &fault{err: errRetired, local: true}
		}
		if c == nil {
			break
		}
		if now.Sub(c.idleSince) <= pool.settings.IdleTimeout {
			f.enter(m, c, true)
			return nil
		}
		c.Close()
	}
	f.enter(m, nil, false)
	timeout := pool.settings.ConnectTimeout
	if f.othersFor(m, s, now) {
		timeout = min(timeout, pool.settings.ShortConnectTimeout)
	}
	c, fail := pool.connect(m.endpoint, timeout)
	if fail != nil {
		f.leave()
		return fail
	}
	f.conn = c
	return nil
}

func (f *flight) enter(m *member, c *conn, reused bool) {
	m.inFlight.Add(1)
	f.member, f.conn, f.reused, f.private, f.flying = m, c, reused, false, true
	f.x.Forward.Attempts++
	f.x.Forward.Endpoint = m.address
}

func (f *flight) leave() {
	f.member.inFlight.Add(-1)
	f.member, f.conn, f.flying = nil, nil, false
}

// note remembers what a failed attempt says about m.
func (f *flight) note(fail *fault, m *member, now time.Time) {
	switch {
	case fail.client || fail.local:
	case fail.stale: // those that have idled longer are no better
		closeAll(m.idle.olderThan(now))
	case fail.reason == message.UpstreamMalformed || fail.reason == message.UpstreamFraming:
		f.pool.answered(m.endpoint, true, now)
		f.pool.warn(m.endpoint, fail, now)
	default:
		f.pool.brokenOff(m.endpoint, now)
	}
}

// mayRetry decides whether the request can be sent once more, and readies its body for that. A request of which nothing was
// sent can; one that may have been sent only when it is idempotent and the connection ended without an answer. Where it had been used
// before, it more likely died of age than of the request; a new one died with its endpoint or of the request, which is why another
// endpoint is tried then, but only one.
func (f *flight) mayRetry(fail *fault, m *member) bool {
	if fail.client || fail.local || fail.head {
		return false
	}
	if fail.sent && !fail.stale {
		if f.lethal || fail.reason != message.UpstreamReset {
			return false
		}
		f.lethal = true
	}
	if fail.sent && !idempotent(f.x.Request.Method) {
		return false
	}
	if f.x.Stream.Gone() {
		fail.reason, fail.client = message.ClientGone, true
		return false
	}
	if f.request != nil {
		if f.request = f.request.again(); f.request == nil {
			return false
		}
		f.x.Request.Body = f.request
	}
	if f.anew == m.endpoint {
		f.anew = nil
	} else if fail.stale {
		f.anew = m.endpoint
	}
	f.tried = append(f.tried, m.endpoint)
	return true
}

// refuse replies with the reason of a fault.
func (f *flight) refuse(fail *fault) {
	f.x.Reply(fail.reason)
	f.pool.metrics.Done(fail.reason.Status(), fail.reason.String(), f.pool.settings.Now().Sub(f.start))
	f.forget()
}

// forget drops what f need not keep for the next exchange.
func (f *flight) forget() {
	clear(f.tried)
	f.pool, f.x, f.request, f.anew, f.options = nil, nil, nil, nil, filter.ForwardOptions{}
}
