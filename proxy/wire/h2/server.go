package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// Refusal says why a request is answered without the Handler; the two wires say it alike.
type Refusal = h1.Refusal

// Settings of a Server.
type Settings struct {
	Handler message.Handler
	// Refuse is asked for the answer to a request that does not reach Handler or that Handler did not answer. Nil, or a nil
	// result, means an answer without a body.
	Refuse func(*message.Conn, *Refusal) *message.Response
	// Panic is told what Handler panicked with and the stack; nil: nobody is.
	Panic func(value any, stack []byte)
	// Limits are those of HTTP/1 as far as they mean something here; nil: h1.DefaultSettings.
	Limits *h1.Settings
}

const (
	maxStreams = 100 // of a connection at once
	pingAfter  = 30 * time.Second
)

// Server serves HTTP/2 connections whose handshake is done. One net/http server does the work; connections reach it through
// a listener that Serve feeds.
type Server struct {
	settings Settings
	http     *http.Server
	feed     chan net.Conn
	ready    chan struct{} // closed when net/http begins to accept
	ended    chan struct{} // closed by Close and at the end of Drain's last call: no more connections

	mu    sync.Mutex
	conns map[net.Conn]*served
	once  sync.Once
}

type served struct {
	info *message.Conn
	done chan struct{}
}

// New makes a Server.
func New(settings Settings) *Server {
	if settings.Limits == nil {
		settings.Limits = h1.DefaultSettings()
	}
	s := &Server{settings: settings, feed: make(chan net.Conn), ready: make(chan struct{}), ended: make(chan struct{}), conns: map[net.Conn]*served{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	s.http = &http.Server{
		Handler:                      http.HandlerFunc(s.serve),
		DisableGeneralOptionsHandler: true, // OPTIONS * is the Handler's
		Protocols:                    protocols,
		TLSConfig:                    &tls.Config{NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}, // the handshakes are done already
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingAfter / 2, WriteByteTimeout: settings.Limits.WriteTimeout,
			MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 256 << 10,
		},
		ReadHeaderTimeout: settings.Limits.HeadTimeout, IdleTimeout: settings.Limits.IdleTimeout,
		MaxHeaderBytes: 2 * settings.Limits.HeadBytes, // what is over this it refuses itself, and nobody hears of it
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, s.infoOf(c))
		},
		ConnState: s.state,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what goes wrong with a request is in the access log
	}
	go func() { _ = s.http.Serve(&listener{s: s}) }() // it ends with Close or Drain, for no other reason
	return s
}

type connKey struct{}

// Serve serves one connection and returns when it is over.
func (s *Server) Serve(conn *tls.Conn, info *message.Conn) {
	c := &served{info: info, done: make(chan struct{})}
	s.mu.Lock()
	s.conns[conn] = c
	s.mu.Unlock()
	select {
	case s.feed <- conn:
		<-c.done
	case <-s.ended:
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
		_ = conn.Close() // it never began
	}
}

// Drain sends GOAWAY to every connection and waits until the last exchange is over, or for ctx. As long as a last call lasts, connections
// whose handshake took until now are served too.
func (s *Server) Drain(ctx context.Context) error {
	// Shutdown sends GOAWAY first. Idle connections, also those that have just begun, it cuts when the listener has ended.
	call := time.AfterFunc(s.settings.Limits.LastCall, s.end)
	defer call.Stop()
	defer context.AfterFunc(ctx, s.end)()
	select {
	case <-s.ready: // a Serve that comes after Shutdown accepts nothing
	case <-s.ended:
	}
	return s.http.Shutdown(ctx)
}

func (s *Server) end() { s.once.Do(func() { close(s.ended) }) }

// Close cuts all connections.
func (s *Server) Close() {
	s.end()
	_ = s.http.Close() // its error is that of the listener, which has none
}

// Active is the number of connections.
func (s *Server) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

func (s *Server) infoOf(c net.Conn) *message.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if served := s.conns[c]; served != nil {
		return served.info
	}
	return &message.Conn{}
}

func (s *Server) state(c net.Conn, state http.ConnState) {
	if state != http.StateClosed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if served := s.conns[c]; served != nil {
		delete(s.conns, c)
		close(served.done)
	}
}

// listener hands out the connections that Serve was given.
type listener struct {
	s    *Server
	once sync.Once
}

var errEnded = errors.New("the server takes no more connections")

func (l *listener) Accept() (net.Conn, error) {
	l.once.Do(func() { close(l.s.ready) })
	select {
	case conn := <-l.s.feed:
		return conn, nil
	case <-l.s.ended:
		return nil, errEnded
	}
}

func (l *listener) Close() error { return nil }

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// serve turns one request of net/http into a stream, and sees that it is answered.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	info, _ := r.Context().Value(connKey{}).(*message.Conn)
	start := time.Now()
	x := &stream{server: s, w: w, r: r, info: info, control: http.NewResponseController(w)}
	defer x.end()
	if reason, detail := x.parse(); reason != message.OK {
		x.refuse(&Refusal{Reason: reason, Request: &x.request, Detail: detail, Start: start})
		return
	}
	s.handle(x, start)
	if !x.answered {
		x.refuse(&Refusal{Reason: message.NoResponse, Request: &x.request, Start: start})
	}
	if x.broken {
		panic(http.ErrAbortHandler) // resets the stream, so that the client cannot take what it has for the whole
	}
}

func (s *Server) handle(x *stream, start time.Time) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if s.settings.Panic != nil {
			s.settings.Panic(value, debug.Stack())
		}
		if x.answered {
			x.broken = true
			return
		}
		x.refuse(&Refusal{Reason: message.Panicked, Request: &x.request, Start: start})
	}()
	s.settings.Handler(x)
}
