package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// stream is a client that is there, or gone, and takes no answer.
type stream struct {
	request  message.Request
	gone     atomic.Bool
	interims []int
}

func (s *stream) Request() *message.Request { return &s.request }
func (s *stream) Conn() *message.Conn       { return &message.Conn{Peer: "192.0.2.1"} }
func (s *stream) Inform(status int, _ *message.Header) error {
	s.interims = append(s.interims, status)
	return nil
}

func (s *stream) Respond(*message.Response) (int64, error) { return 0, errors.New("not in this test") }

func (s *stream) Upgrade(*message.Response) (message.Tunnel, error) {
	return nil, errors.New("not in this test")
}
func (s *stream) Gone() bool  { return s.gone.Load() }
func (s *stream) CloseAfter() {}

// memory is a request body that is there. broken, when set, comes after its bytes.
type memory struct {
	rest   []byte
	broken error
}

func (m *memory) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		if m.broken != nil {
			return 0, m.broken
		}
		return 0, io.EOF
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}
func (m *memory) Trailer() *message.Header { return nil }
func (m *memory) Close() error             { return nil }
func (m *memory) Ready() (int, bool)       { return len(m.rest), m.broken == nil }

// later is a body of which nothing is known to be there.
type later struct{ io.Reader }

func (later) Trailer() *message.Header { return nil }
func (later) Close() error             { return nil }

func request(method string, body string) *filter.Exchange {
	s := &stream{request: message.Request{
		Method: method, Scheme: "http", Authority: "app.test", Host: "app.test", Path: "/", Version: message.HTTP11,
	}}
	if body != "" {
		s.request.Body, s.request.Length = &memory{rest: []byte(body)}, int64(len(body))
	}
	x := &filter.Exchange{}
	x.Reset(s)
	x.ClientIP = "192.0.2.1"
	return x
}

// send forwards and reads the answer to its end: status, body, and the reason when something is not in order.
func send(p *Pool, x *filter.Exchange) (int, string, error) {
	return sendWith(p, x, filter.ForwardOptions{KeepHost: true})
}

func sendWith(p *Pool, x *filter.Exchange, o filter.ForwardOptions) (int, string, error) {
	if err := p.Forward(x, o); err != nil {
		return x.Response.Status, "", err
	}
	if x.Response.Body == nil {
		return x.Response.Status, "", nil
	}
	defer x.Response.Body.Close()
	body, err := io.ReadAll(x.Response.Body)
	return x.Response.Status, string(body), err
}

// pool makes a pool of addresses.
func pool(t testing.TB, s Settings, addresses ...string) *Pool {
	t.Helper()
	pools := New(s)
	t.Cleanup(pools.Close)
	if err := pools.Set(upstream(addresses...)); err != nil {
		t.Fatal(err)
	}
	return pools.Get("u")
}

func upstream(addresses ...string) *model.Upstream {
	u := &model.Upstream{Name: "u"}
	for _, a := range addresses {
		u.Endpoints = append(u.Endpoints, model.Endpoint{Address: a})
	}
	return u
}

// peer is one accepted connection of an origin.
type peer struct {
	net.Conn
	r      *bufio.Reader
	origin *origin
}

// next reads a request; nil when there is none.
func (p *peer) next() *http.Request {
	q, err := http.ReadRequest(p.r)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return nil
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	p.origin.requests.Add(1)
	return q
}

func (p *peer) say(text string) { _, _ = io.WriteString(p, text) }

func (p *peer) answer(body string) {
	p.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
}

// reset closes with RST instead of FIN.
func (p *peer) reset() {
	_ = p.Conn.(*net.TCPConn).SetLinger(0)
	p.Close()
}

// origin runs a script on each connection and closes it then.
type origin struct {
	addr     string
	accepted atomic.Int64
	requests atomic.Int64

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
}

func serve(t testing.TB, script func(p *peer)) *origin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin{addr: l.Addr().String(), listener: l, conns: map[net.Conn]bool{}}
	var scripts sync.WaitGroup
	scripts.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			o.accepted.Add(1)
			o.mu.Lock()
			o.conns[c] = true
			o.mu.Unlock()
			scripts.Go(func() {
				defer c.Close()
				script(&peer{c, bufio.NewReader(c), o})
			})
		}
	})
	t.Cleanup(func() {
		o.kill()
		scripts.Wait()
	})
	return o
}

// kill ends the listener and resets all connections.
func (o *origin) kill() {
	o.listener.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := range o.conns {
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

// echo answers every request with the address of the origin.
func echo(t testing.TB) *origin {
	return serve(t, func(p *peer) {
		for p.next() != nil {
			p.answer(p.origin.addr)
		}
	})
}

// refused is an address at which nobody listens.
func refused(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(5 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func (p *Pool) endpoint(address string) *endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoints[address]
}

func reasonOf(err error) string {
	var f *fault
	var b *message.BodyError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &f):
		return f.reason.String()
	case errors.As(err, &b):
		return b.Reason.String()
	}
	return err.Error()
}

func words(n int) string { return strings.Repeat("0123456789abcdef", n/16) }

func optionsOf(keepHost bool) filter.ForwardOptions { return filter.ForwardOptions{KeepHost: keepHost} }
