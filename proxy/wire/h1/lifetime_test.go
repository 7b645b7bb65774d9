package h1

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

func TestCase_B04_ResponseThatBreaksOffIsCut(t *testing.T) {
	content := strings.Repeat("x", 300<<10)
	results := make(chan error, 1)
	w := serve(t, quick(), func(s message.Stream) {
		r := &message.Response{Status: 200, Length: message.Unknown}
		if s.Request().Path == "/length" {
			r.Length = 1 << 20
		}
		r.Body = &memory{text: content, fail: &message.BodyError{Reason: message.UpstreamTruncated, Err: errors.New("cut")}}
		sent, err := s.Respond(r)
		if sent != int64(len(content)) {
			t.Errorf("sent %d", sent)
		}
		results <- err
	})
	for name, request := range map[string]string{
		"chunked":  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"length":   "GET /length HTTP/1.1\r\nHost: a\r\n\r\n",
		"HTTP/1.0": "GET / HTTP/1.0\r\n\r\n",
	} {
		d := w.dial()
		d.send(request)
		b, err := io.ReadAll(d.r)
		if got := strings.Count(string(b), "x"); got < len(content) {
			t.Errorf("%s: only %d bytes came", name, got)
		}
		if strings.HasSuffix(string(b), "0\r\n\r\n") {
			t.Errorf("%s: the body has an end", name)
		}
		if name == "HTTP/1.0" && err == nil {
			t.Errorf("%s: the end looks regular", name)
		}
		var broken *message.BodyError
		if err := <-results; !errors.As(err, &broken) || broken.Reason != message.UpstreamTruncated {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBodyShorterThanDeclaredIsCut(t *testing.T) {
	results := make(chan error, 1)
	w := serve(t, quick(), func(s message.Stream) {
		_, err := s.Respond(&message.Response{Status: 200, Length: 10, Body: &memory{text: "short"}})
		results <- err
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := d.rest(); !strings.HasSuffix(got, "\r\n\r\nshort") {
		t.Errorf("%q", got)
	}
	var broken *message.BodyError
	if err := <-results; !errors.As(err, &broken) {
		t.Error(err)
	}
}

func TestGone(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"closed":      func(c *net.TCPConn) { c.Close() },
		"half closed": func(c *net.TCPConn) { _ = c.CloseWrite() },
		"reset":       func(c *net.TCPConn) { _ = c.SetLinger(0); c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			leaves, left := make(chan struct{}), make(chan bool, 1)
			w := serve(t, quick(), func(s message.Stream) {
				if s.Gone() {
					t.Error("gone before it left")
				}
				close(leaves)
				tick := time.NewTicker(time.Millisecond)
				defer tick.Stop()
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !s.Gone(); {
					<-tick.C
				}
				left <- s.Gone()
				_, _ = s.Respond(textResponse(200, "ok"))
			})
			d := w.dial()
			d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			<-leaves
			leave(d.Conn.(*net.TCPConn))
			if !<-left {
				t.Error("not found gone")
			}
		})
	}
}

func TestClientThatLeavesDuringTheResponse(t *testing.T) {
	results := make(chan error, 1)
	w := serve(t, quick(), func(s message.Stream) {
		_, err := s.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: &endless{left: 1 << 40}})
		results <- err
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if _, err := d.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if err := <-results; !errors.Is(err, message.ErrClientGone) {
		t.Error(err)
	}
}

func TestH6_PanicOfTheHandler(t *testing.T) {
	var panics []any
	w := serve(t, quick(), func(s message.Stream) {
		if s.Request().Path == "/late" {
			_, _ = s.Respond(&message.Response{Status: 200, Length: 2, Body: panicker{}})
		}
		panic("at once")
	})
	w.server.Panic = func(value any, stack []byte) {
		if !strings.Contains(string(stack), "lifetime_test.go") {
			t.Errorf("stack %s", stack)
		}
		panics = append(panics, value)
	}
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := d.answer("GET"); r.StatusCode != 500 || !r.Close {
		t.Errorf("%d %v", r.StatusCode, r.Close)
	}
	d.ended()
	d = w.dial()
	d.send("GET /late HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := d.rest(); strings.Contains(got, "500") {
		t.Errorf("%q", got)
	}
	eventually(t, "both connections to end", func() bool { return w.server.Active() == 0 })
	if len(panics) != 2 || panics[0] != "at once" || panics[1] != "in a body" {
		t.Errorf("%v", panics)
	}
	if got := w.reasons(); len(got) != 1 || got[0] != "panic" {
		t.Errorf("%v", got)
	}
}

type panicker struct{}

func (panicker) Read([]byte) (int, error) { panic("in a body") }
func (panicker) Trailer() *message.Header { return nil }
func (panicker) Close() error             { return nil }

func TestHandlerWithoutAnAnswer(t *testing.T) {
	w := serve(t, quick(), func(message.Stream) {})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := d.answer("GET"); r.StatusCode != 500 || !r.Close {
		t.Errorf("%d %v", r.StatusCode, r.Close)
	}
	if got := w.reasons(); len(got) != 1 || got[0] != "no_response" {
		t.Errorf("%v", got)
	}
}

func TestSecondAnswerIsRefused(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) {
		_, _ = s.Respond(textResponse(200, "one"))
		body := &memory{text: "two"}
		if _, err := s.Respond(&message.Response{Status: 200, Length: 3, Body: body}); err == nil || !body.closed {
			t.Errorf("%v, closed %v", err, body.closed)
		}
		if err := s.Inform(103, nil); err != nil {
			t.Error(err)
		}
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if got := d.rest(); !strings.HasSuffix(got, "\r\n\r\none") {
		t.Errorf("%q", got)
	}
}

func TestCloseAfter(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) {
		s.CloseAfter()
		_, _ = s.Respond(textResponse(200, "ok"))
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := d.answer("GET"); !r.Close {
		t.Error("the end was not announced")
	}
	d.ended()
}

// TestDrainOfABusyConnection: the last call begins after the last request, however long the connection has been there.
func TestDrainOfABusyConnection(t *testing.T) {
	set := quick()
	set.LastCall = time.Second
	w := serve(t, set, func(s message.Stream) { _, _ = s.Respond(&message.Response{Status: 204}) })
	d := w.dial()
	for start := time.Now(); time.Since(start) < set.LastCall+100*time.Millisecond; {
		d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if r, _ := d.answer("GET"); r.StatusCode != 204 || r.Close {
			t.Fatal(r)
		}
	}
	w.server.Drain()
	_ = d.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // a TCP connection has deadlines
	if _, err := d.r.Peek(1); !isTimeout(err) {
		t.Fatalf("the drain ended the connection: %v", err)
	}
	_ = d.SetReadDeadline(time.Now().Add(10 * time.Second))
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := d.answer("GET"); r.StatusCode != 204 || !r.Close {
		t.Error(r)
	}
}

func TestDrain(t *testing.T) {
	inside, goOn := make(chan struct{}), make(chan struct{})
	w := serve(t, quick(), func(s message.Stream) {
		if s.Request().Path == "/slow" {
			close(inside)
			<-goOn
		}
		_, _ = s.Respond(textResponse(200, "ok"))
	})
	idle, fresh, busy := w.dial(), w.dial(), w.dial()
	idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, _ := idle.answer("GET"); r.Close {
		t.Error("close before the drain")
	}
	busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-inside
	eventually(t, "three connections", func() bool { return w.server.Active() == 3 })
	w.server.Drain()
	idle.ended()
	fresh.ended()
	if w.server.Active() != 1 {
		eventually(t, "one connection", func() bool { return w.server.Active() == 1 })
	}
	close(goOn)
	if r, body := busy.answer("GET"); !r.Close || body != "ok" {
		t.Errorf("close %v, %q", r.Close, body)
	}
	busy.ended()
	busy.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := w.server.Wait(ctx); err != nil {
		t.Error(err)
	}
	late := w.dial()
	late.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if got := late.rest(); got != "" && !strings.Contains(got, "Connection: close") {
		t.Errorf("a connection accepted during the drain: %q", got)
	}
}

func TestCloseCutsExchanges(t *testing.T) {
	inside := make(chan struct{})
	results := make(chan error, 1)
	w := serve(t, quick(), func(s message.Stream) {
		close(inside)
		_, err := io.Copy(io.Discard, s.Request().Body)
		results <- err
		_, _ = s.Respond(textResponse(200, "ok"))
	})
	d := w.dial()
	d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
	<-inside
	w.server.Close()
	if err := <-results; !errors.Is(err, message.ErrClientGone) {
		t.Error(err)
	}
	d.ended()
}

func TestStreamingResponseIsNotHeldBack(t *testing.T) {
	pieces := make(chan string)
	w := serve(t, quick(), func(s message.Stream) {
		_, _ = s.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: &piecemeal{pieces: pieces}})
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	for line := ""; line != "\r\n"; { // the head comes before the body has anything
		var err error
		if line, err = d.r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, piece := range []string{"one", "two and more", strings.Repeat("x", 100<<10), "end"} {
		pieces <- piece
		got := 0
		for got < len(piece) {
			size, err := d.r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			n, _, _, err := parseChunkLine([]byte(size))
			if err != nil || n == 0 {
				t.Fatalf("%q %v", size, err)
			}
			if _, err := io.CopyN(io.Discard, d.r, n+2); err != nil {
				t.Fatal(err)
			}
			got += int(n)
		}
	}
	close(pieces)
	if rest, err := d.r.ReadString('\n'); rest != "0\r\n" || err != nil {
		t.Errorf("%q %v", rest, err)
	}
}

// piecemeal is a body whose pieces come when somebody sends them.
type piecemeal struct {
	pieces <-chan string
	have   string
}

func (p *piecemeal) Read(into []byte) (int, error) {
	if p.have == "" {
		piece, ok := <-p.pieces
		if !ok {
			return 0, io.EOF
		}
		p.have = piece
	}
	n := copy(into, p.have)
	p.have = p.have[n:]
	return n, nil
}

func (p *piecemeal) Trailer() *message.Header { return nil }
func (p *piecemeal) Close() error             { return nil }
func (p *piecemeal) Ready() (int, bool)       { return len(p.have), false }
