package h1

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// requestBody is the body of one request. It may be read by another goroutine than the connection's; the connection
// takes it back with finish, after which it is dead.
type requestBody struct {
	mu       sync.Mutex
	c        *conn
	set      *Settings
	content  content
	expected bool      // the client waits for 100 Continue
	until    time.Time // when set, the end of all reading
	since    time.Time // when moved was 0
	moved    int       // bytes
	passed   atomic.Int64
	over     bool
	fault    error // what Read answers from now on
}

func newRequestBody(c *conn) *requestBody {
	b := &requestBody{c: c, set: c.set, expected: c.request.Expect}
	b.content = content{link: &c.link, from: b, left: c.request.Length, fields: c.set.Fields, announced: c.request.Trailer}
	if c.request.Length == message.Unknown {
		b.content.kind, b.content.left = byChunks, 0
	}
	return b
}

var errOver = &message.BodyError{Reason: message.ClientGone, Err: errors.New("the exchange is over")}

// Read reads content; the first call asks a waiting client for it. Errors are *message.BodyError.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, errOver
	}
	if b.fault != nil {
		return 0, b.fault
	}
	if b.expected {
		b.expected = false
		b.c.sayContinue()
	}
	n, err := b.content.Read(p)
	b.moved += n
	b.passed.Add(int64(n))
	if err != nil {
		b.fault = b.explain(err)
	}
	return n, b.fault
}

// explain says what an error means: it is the client's fault in one way or another.
func (b *requestBody) explain(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case isMalformed(err):
		return &message.BodyError{Reason: message.BadChunk, Err: err}
	case isTimeout(err):
		return &message.BodyError{Reason: message.BodyTimeout, Err: errors.New("the request body did not arrive in time")}
	}
	return &message.BodyError{Reason: message.ClientGone, Err: errors.Join(message.ErrClientGone, err)}
}

// Passed is message.Counted.
func (b *requestBody) Passed() int64 { return b.passed.Load() }

// Trailer returns the trailer fields that may be passed on.
func (b *requestBody) Trailer() *message.Header {
	if b.content.trailer.Len() == 0 {
		return nil
	}
	return &b.content.trailer
}

// Close does nothing: what is left of the body concerns the connection.
func (b *requestBody) Close() error { return nil }

// Ready is message.Ready. A client that waits for 100 Continue has nothing ready.
func (b *requestBody) Ready() (int, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.expected || b.fault != nil {
		return 0, b.fault == io.EOF //nolint:errorlint // explain answers the bare io.EOF
	}
	return b.content.ready()
}

// Probe is message.Prober: it checks the first chunk-size line.
func (b *requestBody) Probe(wait time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || b.expected || b.fault != nil {
		return b.failed()
	}
	by := time.Now().Add(wait)
	for {
		known, err := b.content.probe()
		if err != nil {
			b.content.err, b.fault = err, b.explain(err)
		}
		if known || err != nil {
			return b.failed()
		}
		l := &b.c.link
		l.readUntil(by)
		if err = l.fill(); err == nil {
			continue
		}
		if !isTimeout(err) {
			b.content.err = unexpected(err)
			b.fault = b.explain(b.content.err)
		}
		return b.failed()
	}
}

func (b *requestBody) failed() error {
	if b.fault == io.EOF { //nolint:errorlint // explain answers the bare io.EOF
		return nil
	}
	return b.fault
}

func (b *requestBody) fill() error {
	if !b.limit() {
		return os.ErrDeadlineExceeded
	}
	return b.c.link.fill()
}

func (b *requestBody) read(p []byte) (int, error) {
	if !b.limit() {
		return 0, os.ErrDeadlineExceeded
	}
	return b.c.link.read(p)
}

// leastMoved is what of a body must come in each timeout. Somebody who sends a byte now and then only holds us up.
const leastMoved = 512

// limit sets the deadline of the next read; false when the body has been too slow.
func (b *requestBody) limit() bool {
	if !b.until.IsZero() {
		b.c.link.readUntil(b.until)
		return true
	}
	now, most := time.Now(), b.set.BodyTimeout
	switch {
	case b.since.IsZero() || b.moved >= leastMoved:
		b.since, b.moved = now, 0
	case most > 0 && now.Sub(b.since) > most+most/4:
		return false
	}
	b.c.link.limitRead(now, most)
	return true
}

// drainable reports whether the connection may outlive the exchange: the body was read, or so little of it is left that reading it is
// cheaper than a new connection. A client that still waits for 100 Continue may send the body or not (RFC 9110 §10.1.1), so that
// what it sends next has no certain meaning.
func (b *requestBody) drainable(most int64) bool {
	if !b.mu.TryLock() {
		return true // it is being read; finish will see
	}
	defer b.mu.Unlock()
	switch {
	case b.expected || b.failed() != nil:
		return false
	case b.fault != nil:
		return true
	}
	return b.content.left <= most
}

// finish takes the body back and reads what is left of it, up to most bytes; false when the connection must end.
func (b *requestBody) finish(most int64) bool {
	l := &b.c.link
	free := b.mu.TryLock()
	if !free {
		l.stop.Store(true)
		_ = l.nc.SetReadDeadline(past()) // a connection that cannot have one is closed
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	defer func() { b.over = true }()
	if !free || b.expected || b.failed() != nil {
		return false
	}
	if b.fault != nil {
		return true
	}
	return b.drain(most)
}

func (b *requestBody) drain(most int64) bool {
	b.until = time.Now().Add(b.set.PartTimeout)
	var scratch [small]byte
	for most > 0 {
		n, err := b.content.Read(scratch[:])
		most -= int64(n)
		if err != nil {
			return b.content.err == io.EOF //nolint:errorlint // content answers the bare io.EOF
		}
	}
	return false
}
