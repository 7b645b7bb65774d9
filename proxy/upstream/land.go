package upstream

import (
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// arrived is what happens when the head of the answer is there.
func (f *flight) arrived() {
	now := f.pool.settings.Now()
	x, r := f.x, f.x.Response
	x.Forward.Status, x.Forward.Wait = r.Status, now.Sub(f.start)
	f.pool.answered(f.member.endpoint, f.options.Failure(r.Status), now)
	f.private = authenticates(x.Request, r)
	f.flying = false
	switch {
	case r.Tunnel != nil:
		r.Tunnel = &tunnel{Tunnel: r.Tunnel, pool: f.pool, endpoint: f.member.endpoint, conn: f.conn, start: f.start}
		f.member, f.conn = nil, nil
		f.forget()
	case r.Body == nil:
		f.land(message.OK)
	default:
		f.body = responseBody{flight: f, inner: r.Body}
		r.Body = &f.body
	}
}

// land ends the exchange with the endpoint. The connection is kept for others when it can be.
func (f *flight) land(reason message.Reason) {
	now := f.pool.settings.Now()
	m, c := f.member, f.conn
	status := reason.Status()
	if reason == message.OK {
		status = f.x.Forward.Status
	}
	f.leave()
	if c != nil {
		c.release(m.endpoint, reason == message.OK && !f.private, now)
	}
	f.pool.metrics.Done(status, reason.String(), now.Sub(f.start))
	f.forget()
}

// release gives c back to e, or closes it. It is not the caller's any more.
func (c *conn) release(e *endpoint, shared bool, now time.Time) {
	if shared && c.Reusable() {
		c.idleSince = now
		if e.idle.push(c, e.pool.settings.MaxIdle) {
			return
		}
	}
	c.Close()
}

// authenticates reports whether a connection may from now on stand for one user: NTLM and Negotiate authenticate connections,
// not requests (RFC 4559 §6).
func authenticates(q *message.Request, r *message.Response) bool {
	if value, ok := q.Header.Value(message.Authorization); ok && bindsConnection(value) {
		return true
	}
	if r.Status != 401 {
		return false
	}
	for i := range r.Header.Len() {
		if f := r.Header.At(i); f.ID == message.WWWAuthenticate && offersBinding(f.Value) {
			return true
		}
	}
	return false
}

func bindsConnection(credentials string) bool {
	scheme, _, _ := strings.Cut(credentials, " ")
	return message.EqualFold(scheme, "NTLM") || message.EqualFold(scheme, "Negotiate")
}

// offersBinding looks at each challenge of a list; it rather takes a parameter for a scheme than misses one.
func offersBinding(challenges string) bool {
	for challenge := range strings.SplitSeq(challenges, ",") {
		if bindsConnection(strings.TrimLeft(challenge, " \t")) {
			return true
		}
	}
	return false
}

// responseBody passes a response body on and lands the flight at its end.
type responseBody struct {
	flight  *flight
	inner   message.Body // nil after the end
	err     error        // what Read answers then
	trailer *message.Header
}

// Read reads like message.Body. Errors are *message.BodyError.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.inner == nil {
		return 0, b.err
	}
	n, err := b.inner.Read(p)
	if err != nil {
		b.end(err)
	}
	return n, err
}

func (b *responseBody) end(err error) {
	inner, reason := b.inner, message.UpstreamTruncated
	b.inner, b.err = nil, err
	var broken *message.BodyError
	switch {
	case errors.Is(err, io.EOF):
		reason = message.OK
		if t := inner.Trailer(); t != nil { // it is the connection's, which goes to somebody else now
			own := t.Clone()
			b.trailer = &own
		}
	case errors.As(err, &broken):
		reason = broken.Reason
	}
	b.flight.land(reason)
}

// Trailer is that of message.Body.
func (b *responseBody) Trailer() *message.Header { return b.trailer }

// Ready is message.Ready.
func (b *responseBody) Ready() (int, bool) {
	if b.inner == nil {
		return 0, b.err == io.EOF //nolint:errorlint // bodies answer the bare io.EOF
	}
	if ready, ok := b.inner.(message.Ready); ok {
		return ready.Ready()
	}
	return 0, false
}

// Close gives up what was not read, and with it the connection.
func (b *responseBody) Close() error {
	if b.inner != nil {
		inner := b.inner
		b.inner, b.err = nil, &message.BodyError{Reason: message.ClientGone, Err: io.ErrClosedPipe}
		_ = inner.Close() // the connection closes below
		b.flight.land(message.ClientGone)
	}
	return nil
}

// tunnel is the origin's side of a 101. It counts as in flight at its endpoint until it closes.
type tunnel struct {
	message.Tunnel
	pool     *Pool
	endpoint *endpoint
	conn     *conn
	start    time.Time
	once     sync.Once
}

// Close closes the connection.
func (t *tunnel) Close() error {
	err := t.Tunnel.Close()
	t.once.Do(func() {
		t.conn.Close()
		t.endpoint.inFlight.Add(-1)
		t.pool.metrics.Done(101, message.OK.String(), t.pool.settings.Now().Sub(t.start))
	})
	return err
}
