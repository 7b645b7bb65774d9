package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
	"sluice.dev/sluice/proxy/wire/h2"
)

// conns are the connections of one socket, all plain or all TLS. They outlive snapshots; what serves a request is looked up
// by slot for each.
type conns struct {
	engine *Engine
	slot   int
	https  bool
	h1     *h1.Server
	open   atomic.Int64
	final  atomic.Pointer[Snapshot] // the last one that had them, once there is none any more

	mu       sync.Mutex
	h2       []h2Server      // the last one takes what comes
	draining context.Context // since drain
	closed   bool
}

// h2Server serves HTTP/2 connections under settings that cannot change under it.
type h2Server struct {
	*h2.Server
	wire *h1.Settings
}

func newConns(e *Engine, slot int, https bool) *conns {
	c := &conns{engine: e, slot: slot, https: https}
	c.h1 = &h1.Server{Handler: c.serveRequest, Settings: c.wire, Refuse: c.refuse}
	return c
}

// http2 returns the server for a new HTTP/2 connection: another one when the settings have changed. Those that have served
// their connections are let go. A handshake that was under way when the drain began is still served. It is nil when no connection
// is to begin any more.
func (c *conns) http2() *h2.Server {
	wire := c.wire()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if n := len(c.h2); n > 0 && (c.h2[n-1].wire == wire || c.draining != nil) {
		return c.h2[n-1].Server
	}
	c.h2 = slices.DeleteFunc(c.h2, func(s h2Server) bool {
		idle := s.Active() == 0
		if idle {
			s.Close()
		}
		return idle
	})
	s := h2.New(h2.Settings{Handler: c.serveRequest, Refuse: c.refuse, Limits: wire})
	c.h2 = append(c.h2, h2Server{s, wire})
	if c.draining != nil {
		c.drainHTTP2(s)
	}
	return s
}

// wire returns the settings that hold for these connections now.
func (c *conns) wire() *h1.Settings {
	_, s := c.current()
	return s.wire
}

// wireSettings are the limits of the wire that an HTTPServer sets; the others have the wire's defaults.
func wireSettings(spec *model.HTTPServer) *h1.Settings {
	s := h1.DefaultSettings()
	s.KeepAlive = spec.KeepAlive == nil || *spec.KeepAlive
	if spec.KeepAliveTimeout > 0 {
		s.IdleTimeout = time.Duration(spec.KeepAliveTimeout)
	}
	return s
}

// current returns the snapshot and the server that answer on these connections now.
func (c *conns) current() (*Snapshot, *server) {
	snap := c.engine.snapshot.Load()
	if c.slot < len(snap.slots) {
		if s := snap.slots[c.slot]; s != nil && s.conns == c {
			return snap, s
		}
	}
	snap = c.final.Load()
	return snap, snap.slots[c.slot]
}

// accept takes connections until the listener closes. Without descriptors it waits rather than spins, and goes on when there
// are some again.
func (e *Engine) accept(s *socket) {
	var wait time.Duration
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			wait = 0
			e.admit(s, conn)
			continue
		case errors.Is(err, net.ErrClosed), s.stopping.Load():
			return
		case wait == 0:
			e.pools.MakeRoom()
			e.settings.Log.Error("cannot accept connections, waiting", "address", s.listener.Addr().String(), "error", err)
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(wait):
		case <-e.stop.Done():
			return
		}
	}
}

// admit gives a connection its goroutine, if there is room for it.
func (e *Engine) admit(s *socket, conn net.Conn) {
	snap := e.snapshot.Load()
	var server *server
	if s.slot < len(snap.slots) {
		server = snap.slots[s.slot]
	}
	if server == nil || e.stop.Err() != nil {
		conn.Close()
		return
	}
	c := server.conns
	if !e.limit.take() {
		e.turnAway(server, conn)
		return
	}
	if c.open.Add(1) > server.max {
		c.open.Add(-1)
		e.limit.give()
		e.turnAway(server, conn)
		return
	}
	metrics := server.metrics // and not the server: the connection may outlive it
	metrics.Connections(1)
	e.running.Go(func() {
		c.serve(conn)
		metrics.Connections(-1)
		c.open.Add(-1)
		e.limit.give()
	})
}

// serve serves one connection until it is over.
func (c *conns) serve(conn net.Conn) {
	info := describe(conn, c.engine.settings.TrustedProxies)
	if !c.https {
		c.h1.Serve(conn, info)
		return
	}
	secure := c.handshake(conn, info)
	if secure == nil {
		conn.Close()
		return
	}
	if info.TLS.ALPN != "h2" {
		c.h1.Serve(secure, info)
	} else if h2 := c.http2(); h2 != nil {
		h2.Serve(secure, info)
	} else {
		conn.Close()
	}
}

// handshake makes TLS of a connection; nil when that failed.
func (c *conns) handshake(conn net.Conn, info *message.Conn) *tls.Conn {
	_, s := c.current()
	if s.tls == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.engine.stop, c.engine.settings.HandshakeTimeout)
	defer cancel()
	secure, described, err := s.tls.Handshake(ctx, conn)
	s.metrics.Handshake(handshakeResult(err))
	if err != nil {
		return nil
	}
	info.TLS = described
	return secure
}

func handshakeResult(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "failed"
}

func describe(conn net.Conn, trusted []netip.Prefix) *message.Conn {
	remote, local := addrPort(conn.RemoteAddr()), addrPort(conn.LocalAddr())
	return &message.Conn{
		Remote: remote, Local: local,
		Peer: remote.Addr().String(), Port: strconv.Itoa(int(local.Port())),
		Traits: &peer{addr: remote.Addr(), trusted: contains(trusted, remote.Addr())},
	}
}

func addrPort(addr net.Addr) netip.AddrPort {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// drain asks for the end of every connection: idle ones close, the others after what they are at.
func (c *conns) drain(ctx context.Context) {
	c.h1.Drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.draining = ctx
	for _, s := range c.h2 {
		c.drainHTTP2(s.Server)
	}
}

// drainHTTP2 drains one server. The caller holds c.mu.
func (c *conns) drainHTTP2(s *h2.Server) {
	ctx := c.draining
	c.engine.running.Go(func() { _ = s.Drain(ctx) }) // what is left is cut by close
}

// close cuts every connection.
func (c *conns) close() {
	c.h1.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.h2 {
		s.Close()
	}
}

// retire drains, and cuts what is left after the timeout or when the engine closes.
func (c *conns) retire(timeout time.Duration) {
	ctx, cancel := context.WithTimeout(c.engine.stop, timeout)
	defer cancel()
	c.drain(ctx)
	until(ctx, func() bool { return c.open.Load() == 0 })
	c.close()
}

// until waits for done to report true, or for the context.
func until(ctx context.Context, done func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// defaultMaxConnections is the connection limit of a server that says none.
const defaultMaxConnections = 10240

// limit counts the connections of all servers.
type limit struct {
	max       int64
	upstreams int64 // descriptors that are left for connections to endpoints; 0: as many as are wanted
	open      atomic.Int64
}

// newLimit is the wanted number, or without one what descriptors allow: a connection takes two, its own and its upstream's,
// and some are kept for files, listeners and health checks.
func newLimit(wanted int) *limit {
	l := &limit{max: math.MaxInt64}
	all := int64(0)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err == nil {
		all = max(int64(min(files.Cur, 1<<40))-reserved, 16)
		l.max = all / 2
	}
	if wanted > 0 {
		l.max = min(l.max, int64(wanted))
	}
	l.upstreams = max(all-l.max, 0)
	return l
}

const reserved = 64

func (l *limit) take() bool {
	if l.open.Add(1) > l.max {
		l.open.Add(-1)
		return false
	}
	return true
}

func (l *limit) give() { l.open.Add(-1) }
