package h1

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Server serves HTTP/1 connections. Its exported members are set before the first Serve and not changed after.
type Server struct {
	Handler message.Handler
	// Settings returns the settings in force; it is called once per request. Nil, or a nil result, means DefaultSettings.
	Settings func() *Settings
	// Refuse is asked for the answer to a request that does not reach Handler or that Handler did not answer. Nil, or a nil
	// result, means an answer without a body.
	Refuse func(*message.Conn, *Refusal) *message.Response
	// Panic is told what Handler panicked with and the stack. Nil means that only Refuse hears of it.
	Panic func(value any, stack []byte)

	defaults Settings
	once     sync.Once
	draining atomic.Bool
	date     atomic.Pointer[dateLine]
	poison   bool // overwrite what an exchange leaves behind

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
	empty  chan struct{} // closed when the last connection ends; nil when nobody waits
}

// Refusal says why a request is answered without Handler, or why Handler's exchange is answered for it (NoResponse and Panicked). With
// ClientGone nothing is sent: the connection ended inside a head.
type Refusal struct {
	Reason  message.Reason
	Request *message.Request // as far as it was parsed
	Detail  string           // what is wrong with it, for logs
	Start   time.Time        // when its first byte was there
}

// Serve serves the requests of one connection and returns when it is over: closed, or handed to a tunnel that has ended.
func (s *Server) Serve(nc net.Conn, info *message.Conn) {
	c := newConn(s, nc, info)
	if !s.add(c) {
		nc.Close()
		return
	}
	defer s.remove(c)
	c.serve()
}

// Drain makes every response from now on the last of its connection. Connections that wait for a request get a last call, since a
// request may be on its way, and are closed.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.wake()
	}
}

// Close cuts all connections, and those that come later.
func (s *Server) Close() {
	s.draining.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		go c.link.cut() // a connection whose handler runs is closed when that returns
	}
}

// Active is the number of connections.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Wait waits until there is no connection; the error is that of ctx.
func (s *Server) Wait(ctx context.Context) error {
	s.mu.Lock()
	if len(s.conns) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.conns == nil {
		s.conns = map[*conn]struct{}{}
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

func (s *Server) settings() *Settings {
	if s.Settings != nil {
		if set := s.Settings(); set != nil {
			return set
		}
	}
	s.once.Do(func() { s.defaults = *DefaultSettings() })
	return &s.defaults
}

// dateLine is the value of the Date field for one second.
type dateLine struct {
	second int64
	text   string
}

// dateAt returns the value of a Date field (RFC 9110 §5.6.7).
func (s *Server) dateAt(now time.Time) string {
	second := now.Unix()
	if d := s.date.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &dateLine{second, now.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")}
	s.date.Store(d)
	return d.text
}
