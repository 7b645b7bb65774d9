package engine

import (
	"errors"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
)

var errTooLarge = errors.New("the request body is over its limit")

// intake is a request body of unknown length, counted and held to a limit. It is not used again for another exchange: a
// goroutine that sends it may still read when the exchange is over.
type intake struct {
	message.Body
	limit  int64 // 0 and less: none
	passed atomic.Int64
	over   bool
}

// Read asks for one byte more than is left, which tells a body that is over from one that just ends.
func (b *intake) Read(p []byte) (int, error) {
	if b.over {
		return 0, &message.BodyError{Reason: message.BodyTooLarge, Err: errTooLarge}
	}
	left := b.limit - b.passed.Load()
	if b.limit > 0 && int64(len(p)) > left+1 {
		p = p[:left+1]
	}
	n, err := b.Body.Read(p)
	if b.limit > 0 && int64(n) > left {
		b.over = true
		n, err = int(left), &message.BodyError{Reason: message.BodyTooLarge, Err: errTooLarge}
	}
	b.passed.Add(int64(n))
	return n, err
}

// Probe is message.Prober, if the body is.
func (b *intake) Probe(wait time.Duration) error {
	if p, ok := b.Body.(message.Prober); ok {
		return p.Probe(wait)
	}
	return nil
}

// Ready is message.Ready, if the body is. What may be over the limit is never ready.
func (b *intake) Ready() (n int, end bool) {
	r, ok := b.Body.(message.Ready)
	if !ok || b.over {
		return 0, false
	}
	n, end = r.Ready()
	if b.limit > 0 && int64(n) > b.limit-b.passed.Load() {
		return 0, false
	}
	return n, end
}

// take holds the body of the request to the limit. It reports false when the declared length is over it.
func (x *exchange) take(limit int64) bool {
	r := x.Request
	switch {
	case r.Body == nil:
	case r.Length != message.Unknown:
		x.counted, _ = r.Body.(message.Counted)
		return limit <= 0 || r.Length <= limit // the framing holds the body to its length
	default:
		b := &intake{Body: r.Body, limit: limit}
		x.counted, r.Body = b, b
	}
	return true
}

// Passed is message.Counted.
func (b *intake) Passed() int64 { return b.passed.Load() }

// received is how much of the request body was read: what a client declares may never come.
func (x *exchange) received() int64 {
	if x.counted == nil {
		return 0
	}
	return x.counted.Passed()
}
