package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/proxy/message"
)

// recorder is an origin that notes the bytes of each connection, which has one request, and answers ok.
type recorder struct {
	t    *testing.T
	addr string

	mu       sync.Mutex
	messages []recorded
}

type recorded struct {
	bytes string
	whole bool // net/http took it for a complete request
}

func record(t *testing.T) *recorder {
	o := &recorder{t: t}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.addr = l.Addr().String()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go o.take(nc)
		}
	}()
	return o
}

func (o *recorder) take(nc net.Conn) {
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	var seen bytes.Buffer
	r, err := http.ReadRequest(bufio.NewReader(io.TeeReader(nc, &seen)))
	if err == nil {
		if r.Header.Get("Expect") != "" {
			_, _ = io.WriteString(nc, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		_, err = io.Copy(io.Discard, r.Body)
	}
	o.mu.Lock()
	o.messages = append(o.messages, recorded{seen.String(), err == nil})
	o.mu.Unlock()
	if err == nil {
		_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[:40-2*flag(r.Method == "HEAD")])
	}
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// got waits until n connections have sent what they had to.
func (o *recorder) got(n int) []recorded {
	o.t.Helper()
	var all []recorded
	eventually(o.t, "the origin's connections", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		all = append([]recorded(nil), o.messages...)
		return len(all) >= n
	})
	return all
}

// eventually polls until ok reports true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	testkit.Eventually(t, 5*time.Second, what, ok)
}

// forwarder relays each exchange over a connection of its own, as the forward step does.
type forwarder struct {
	dial func() (net.Conn, error)

	mu      sync.Mutex
	reasons []string // of exchanges that failed
}

func forwardTo(addr string) *forwarder {
	return &forwarder{dial: func() (net.Conn, error) { return net.Dial("tcp", addr) }}
}

func (f *forwarder) serve(s message.Stream) {
	if err := f.exchange(s); err != nil {
		reason := message.UpstreamReset
		var client *message.BodyError
		var origin *Error
		switch {
		case errors.As(err, &client):
			reason = client.Reason
		case errors.As(err, &origin):
			reason = origin.Reason
		}
		f.mu.Lock()
		f.reasons = append(f.reasons, reason.String())
		f.mu.Unlock()
		_, _ = s.Respond(&message.Response{Status: reason.Status()})
	}
}

func (f *forwarder) exchange(s message.Stream) error {
	r := s.Request()
	if p, ok := r.Body.(message.Prober); ok {
		if err := p.Probe(time.Second); err != nil {
			return err
		}
	}
	nc, err := f.dial()
	if err != nil {
		return err
	}
	c := NewClient(nc, nil)
	defer c.Close()
	if err := c.Send(r, r.Authority); err != nil {
		return err
	}
	var response message.Response
	if err := c.Receive(&response, s, 5*time.Second); err != nil {
		return err
	}
	if response.Tunnel != nil {
		return errors.New("a tunnel")
	}
	_, err = s.Respond(&response)
	if errors.Is(err, message.ErrClientGone) {
		return nil
	}
	return err
}

// failed are the reasons so far.
func (f *forwarder) failed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.reasons...)
}
