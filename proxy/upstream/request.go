package upstream

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"sluice.dev/sluice/proxy/message"
)

// replayLimit is the most of a request body that is kept so that it can be sent again.
const replayLimit = 64 << 10

// requestBody passes a request body on for one attempt and keeps what it passed while that is little, so that the next attempt
// can begin anew. The connection may read it from a goroutine of its own that outlives the attempt: mu makes the end of that
// one's reading certain.
type requestBody struct {
	source message.Body

	mu       sync.Mutex
	kept     []byte // what was read of source, as long as whole
	at       int    // of kept: where this attempt is
	whole    bool   // kept is all that was read
	touched  bool   // something was read of source
	complete bool   // source has ended
	dead     bool   // another attempt has taken over
	fault    error  // of source
}

var errTakenOver = errors.New("another attempt sends the request body")

// bodyFor returns the body of r for its first attempt. What may have to be sent again is kept: the small body of an idempotent
// request, and one that is ready and so is read before anything is written.
func bodyFor(r *message.Request) *requestBody {
	whole := idempotent(r.Method) && r.Length <= replayLimit
	if ready, ok := r.Body.(message.Ready); ok && !whole {
		n, end := ready.Ready()
		whole = end && n <= replayLimit
	}
	return &requestBody{source: r.Body, whole: whole}
}

// Read reads what an earlier attempt left, then the source.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.dead:
		return 0, errTakenOver
	case b.at < len(b.kept):
		n := copy(p, b.kept[b.at:])
		b.at += n
		if b.at == len(b.kept) && b.complete {
			return n, io.EOF
		}
		return n, nil
	case b.complete:
		return 0, io.EOF
	}
	n, err := b.source.Read(p)
	b.touched = true
	b.record(p[:n])
	switch {
	case errors.Is(err, io.EOF):
		b.complete = true
	case err != nil:
		b.fault = err
	}
	return n, err
}

func (b *requestBody) record(p []byte) {
	if b.whole && len(b.kept)+len(p) > replayLimit {
		b.whole, b.kept, b.at = false, nil, 0
	}
	if b.whole {
		b.kept = append(b.kept, p...)
		b.at = len(b.kept)
	}
}

// again returns the body for another attempt, and ends this one's reading. It is nil when what was read is not all kept, when
// the source has failed, or when this attempt is about to read more.
func (b *requestBody) again() *requestBody {
	if !b.mu.TryLock() {
		return nil
	}
	defer b.mu.Unlock()
	if b.fault != nil || b.touched && !b.whole {
		return nil
	}
	b.dead = true
	return &requestBody{source: b.source, kept: b.kept, whole: b.whole, touched: b.touched, complete: b.complete}
}

// Trailer returns the trailer of the source.
func (b *requestBody) Trailer() *message.Header { return b.source.Trailer() }

// Close leaves the source alone: it is the server's that read the request.
func (b *requestBody) Close() error { return nil }

// Ready is message.Ready.
func (b *requestBody) Ready() (n int, end bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	left := len(b.kept) - b.at
	if b.complete {
		return left, true
	}
	if ready, ok := b.source.(message.Ready); ok {
		n, end = ready.Ready()
	}
	return left + n, end
}

// idempotent reports whether sending the request twice is the same as once (RFC 9110 §9.2.2).
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete, http.MethodTrace:
		return true
	}
	return false
}
