package filters

import (
	"errors"
	"time"

	"sluice.dev/sluice/proxy/message"
)

var errTooLarge = errors.New("the request body is over its limit")

// LimitBody holds the body of r to limit bytes. It reports false when the declared length is over it: answer BodyTooLarge
// (413) without reading. A body of unknown length is cut off as it is read, with a BodyError of that reason. A limit of zero
// or less is none.
func LimitBody(r *message.Request, limit int64) bool {
	if limit <= 0 || r.Body == nil {
		return true
	}
	if r.Length != message.Unknown {
		return r.Length <= limit // the framing holds the body to its length
	}
	r.Body = &limitedBody{Body: r.Body, left: limit}
	return true
}

type limitedBody struct {
	message.Body
	left int64
	over bool
}

// Read asks for one byte more than is left, which tells a body that is over from one that just ends.
func (b *limitedBody) Read(p []byte) (int, error) {
	if b.over {
		return 0, &message.BodyError{Reason: message.BodyTooLarge, Err: errTooLarge}
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.Body.Read(p)
	if int64(n) > b.left {
		b.over = true
		n = int(b.left)
		b.left = 0
		return n, &message.BodyError{Reason: message.BodyTooLarge, Err: errTooLarge}
	}
	b.left -= int64(n)
	return n, err
}

// Probe is message.Prober.
func (b *limitedBody) Probe(wait time.Duration) error {
	if p, ok := b.Body.(message.Prober); ok {
		return p.Probe(wait)
	}
	return nil
}

// Ready is message.Ready: what is over the limit is not ready.
func (b *limitedBody) Ready() (n int, end bool) {
	ready, ok := b.Body.(message.Ready)
	if !ok || b.over {
		return 0, false
	}
	n, end = ready.Ready()
	if int64(n) > b.left {
		return int(b.left), false
	}
	return n, end
}
