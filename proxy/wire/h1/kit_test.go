package h1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// memory is a body of text that is all there.
type memory struct {
	text    string
	trailer *message.Header
	fail    error // instead of io.EOF
	closed  bool
}

func (m *memory) Read(p []byte) (int, error) {
	n := copy(p, m.text)
	if m.text = m.text[n:]; m.text != "" {
		return n, nil
	}
	if m.fail != nil {
		return n, m.fail
	}
	return n, io.EOF
}

func (m *memory) Trailer() *message.Header { return m.trailer }
func (m *memory) Close() error             { m.closed = true; return nil }
func (m *memory) Ready() (int, bool)       { return len(m.text), m.fail == nil }

func textResponse(status int, text string) *message.Response {
	return &message.Response{Status: status, Length: int64(len(text)), Body: &memory{text: text}}
}

// world is a Server on a loopback listener.
type world struct {
	t        *testing.T
	server   *Server
	listener net.Listener
	trickle  atomic.Bool // the server reads byte by byte

	mu       sync.Mutex
	refusals []Refusal
	served   []string // method and path of each request that reached the handler
}

// quick are settings with which a test does not wait long.
func quick() *Settings {
	s := DefaultSettings()
	s.HeadTimeout, s.PartTimeout, s.LastCall = 2*time.Second, 200*time.Millisecond, 50*time.Millisecond
	return s
}

func serve(t *testing.T, set *Settings, handler message.Handler) *world {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, listener: l}
	w.server = &Server{Settings: func() *Settings { return set }, Refuse: w.refuse, poison: true}
	w.server.Handler = func(s message.Stream) {
		w.mu.Lock()
		w.served = append(w.served, s.Request().Method+" "+s.Request().Path)
		w.mu.Unlock()
		handler(s)
	}
	go w.accept()
	t.Cleanup(func() {
		l.Close()
		w.server.Close()
		if err := w.server.Wait(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) accept() {
	for {
		nc, err := w.listener.Accept()
		if err != nil {
			return
		}
		if w.trickle.Load() {
			nc = &trickle{nc.(*net.TCPConn)}
		}
		remote := nc.RemoteAddr().(*net.TCPAddr).AddrPort()
		go w.server.Serve(nc, &message.Conn{
			Remote: remote, Peer: remote.Addr().String(), Port: "80",
			Local: netip.MustParseAddrPort(nc.LocalAddr().String()),
		})
	}
}

// trickle is a connection of which one byte is read at a time.
type trickle struct{ *net.TCPConn }

func (c *trickle) Read(p []byte) (int, error) { return c.TCPConn.Read(p[:min(1, len(p))]) }

func (w *world) refuse(_ *message.Conn, r *Refusal) *message.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refusals = append(w.refusals, *r)
	return nil
}

// reasons are those of the refusals so far.
func (w *world) reasons() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.refusals {
		all = append(all, r.Reason.String())
	}
	return all
}

// requests are the method and path of each request that reached the handler.
func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.served...)
}

// dialed is a raw client connection.
type dialed struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func (w *world) dial() *dialed {
	w.t.Helper()
	return dial(w.t, w.listener.Addr().String())
}

func dial(t *testing.T, addr string) *dialed {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &dialed{t, nc, bufio.NewReader(nc)}
}

func (d *dialed) send(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d, text); err != nil {
		d.t.Fatalf("send: %v", err)
	}
}

// answer reads one response to a request of that method.
func (d *dialed) answer(method string) (*http.Response, string) {
	d.t.Helper()
	r, err := http.ReadResponse(d.r, &http.Request{Method: method})
	if err != nil {
		d.t.Fatalf("read response: %v", err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Fatalf("read response body: %v", err)
	}
	return r, string(body)
}

// rest reads to the end of the connection.
func (d *dialed) rest() string {
	d.t.Helper()
	b, err := io.ReadAll(d.r)
	if err != nil {
		d.t.Logf("the connection ended with %v", err)
	}
	return string(b)
}

// ended fails the test unless the other side closes without sending anything more.
func (d *dialed) ended() {
	d.t.Helper()
	if b, err := io.ReadAll(d.r); len(b) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		d.t.Errorf("after the end came %q, %v", b, err)
	}
}

// describe is what a handler saw, in one line.
func describe(r *message.Request) string {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.Host + " " + r.Path)
	if r.HasQuery {
		b.WriteString("?" + r.RawQuery)
	}
	for name, value := range r.Header.All() {
		b.WriteString(" [" + name + ": " + value + "]")
	}
	return b.String()
}

// echo answers with what it saw and the body.
func echo(s message.Stream) {
	text := describe(s.Request())
	if body := s.Request().Body; body != nil {
		b, err := io.ReadAll(body)
		text += " body=" + string(b)
		if err != nil {
			text += " error=" + err.Error()
		}
	}
	_, _ = s.Respond(textResponse(200, text))
}
