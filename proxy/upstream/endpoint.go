package upstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// endpoint is what is known of one address. It lives as long as its upstream names the address.
type endpoint struct {
	pool     *Pool
	address  string
	key      uint64 // for the policies that hash
	inFlight atomic.Int64
	idle     idleStack

	broken atomic.Int32 // exchanges in a row without a response
	failed atomic.Int32 // responses with a failure code in a row
	until  atomic.Int64 // ejected until then, on the clock of Settings.clock

	// Guarded by pool.mu.
	ejections int // in short order
}

// serve says whether the endpoint may be used. When it may not, its idle connections are returned, to be closed.
func (e *endpoint) serve(may bool) []*conn {
	e.idle.mu.Lock()
	defer e.idle.mu.Unlock()
	e.idle.open = may
	if may {
		return nil
	}
	conns := e.idle.conns
	e.idle.conns = nil
	return conns
}

// idleStack holds the connections between exchanges, the one used last on top. Its lock is held for a few instructions.
type idleStack struct {
	mu    sync.Mutex
	conns []*conn
	open  bool // false: the endpoint may not be used
}

// pop takes the connection used last, if any is wanted; nil when there is none. It reports false when the endpoint may not be
// used.
func (s *idleStack) pop(wanted bool) (c *conn, open bool) {
	s.mu.Lock()
	if top := len(s.conns) - 1; wanted && top >= 0 {
		c = s.conns[top]
		s.conns[top] = nil
		s.conns = s.conns[:top]
	}
	open = s.open
	s.mu.Unlock()
	return c, open
}

// push keeps c for later unless there are most already or the endpoint may not be used.
func (s *idleStack) push(c *conn, most int) bool {
	s.mu.Lock()
	kept := s.open && len(s.conns) < most
	if kept {
		s.conns = append(s.conns, c)
	}
	s.mu.Unlock()
	return kept
}

// olderThan takes the connections that have idled since before t.
func (s *idleStack) olderThan(t time.Time) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for n < len(s.conns) && s.conns[n].idleSince.Before(t) {
		n++
	}
	return s.first(n)
}

// older takes the half that has idled longest, the odd one too.
func (s *idleStack) older() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first((len(s.conns) + 1) / 2)
}

// first takes n connections from the bottom. The caller holds s.mu.
func (s *idleStack) first(n int) []*conn {
	if n == 0 {
		return nil
	}
	old := append([]*conn(nil), s.conns[:n]...)
	kept := copy(s.conns, s.conns[n:])
	clear(s.conns[kept:])
	s.conns = s.conns[:kept]
	return old
}

func (s *idleStack) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
