package h1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// origin accepts connections and runs a script on each.
func origin(t *testing.T, script func(n int, d *dialed)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
				script(n, &dialed{t, nc, bufio.NewReader(nc)})
			}()
		}
	}()
	return l.Addr().String()
}

func connect(t *testing.T, addr string, set *ClientSettings) *Client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(nc, set)
	t.Cleanup(c.Close)
	return c
}

func get(path string) *message.Request {
	return &message.Request{Method: "GET", Path: path, Version: message.HTTP11}
}

func TestClientExchanges(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		for i := 0; ; i++ {
			r, err := http.ReadRequest(d.r)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			text := fmt.Sprintf("%s %s %s %s", r.Method, r.Host, r.RequestURI, body)
			if i%2 == 0 {
				fmt.Fprintf(d, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			} else {
				fmt.Fprintf(d, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(text), text)
			}
		}
	})
	c := connect(t, addr, nil)
	for i := range 4 {
		r := get("/x")
		want := "GET h /x "
		if i >= 2 {
			r.Method, r.Length, r.Body = "POST", message.Unknown, &memory{text: "abc"}
			want = "POST h /x abc"
		}
		if err := c.Send(r, "h"); err != nil {
			t.Fatal(err)
		}
		var resp message.Response
		if err := c.Receive(&resp, nil, time.Second); err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || string(b) != want || !c.Reusable() || c.Stale() {
			t.Fatalf("%d: %q %v, reusable %v, stale %v", i, b, err, c.Reusable(), c.Stale())
		}
	}
}

func TestA15_LateBytesAreFoundBeforeTheNextRequest(t *testing.T) {
	late := make(chan struct{})
	requests := make(chan int, 4)
	addr := origin(t, func(_ int, d *dialed) {
		for n := 1; ; n++ {
			if _, err := http.ReadRequest(d.r); err != nil {
				return
			}
			requests <- n
			d.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			<-late
			d.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		}
	})
	c := connect(t, addr, nil)
	exchangeOK(t, c)
	if !c.Reusable() {
		t.Fatal("not reusable after a good exchange")
	}
	close(late)
	eventually(t, "the late bytes", c.Stale)
	err := c.Send(get("/next"), "a")
	if err == nil {
		var r message.Response
		err = c.Receive(&r, nil, time.Second)
	}
	if err == nil || c.Wrote() || c.Received() || c.Reusable() {
		t.Errorf("%v, wrote %v, received %v, reusable %v", err, c.Wrote(), c.Received(), c.Reusable())
	}
	if len(requests) != 1 {
		t.Errorf("the origin got %d requests", len(requests))
	}
}

func TestStaleConnectionIsFoundBeforeAnythingIsSent(t *testing.T) {
	for name, linger := range map[string]int{"closed": -1, "reset": 0} {
		t.Run(name, func(t *testing.T) {
			addr := origin(t, func(_ int, d *dialed) {
				if _, err := http.ReadRequest(d.r); err == nil {
					d.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
				_ = d.Conn.(*net.TCPConn).SetLinger(linger)
			})
			c := connect(t, addr, nil)
			exchangeOK(t, c)
			eventually(t, "the end of the connection", c.Stale)
			r := get("/next")
			r.Method = "POST"
			err := c.Send(r, "a")
			if err == nil {
				err = c.Receive(new(message.Response), nil, time.Second)
			}
			var failed *Error
			if !errors.As(err, &failed) || failed.Reason != message.UpstreamReset || c.Wrote() {
				t.Errorf("%v, wrote %v", err, c.Wrote())
			}
		})
	}
}

// exchangeOK does one exchange that must end well.
func exchangeOK(t *testing.T, c *Client) {
	t.Helper()
	if err := c.Send(get("/"), "a"); err != nil {
		t.Fatal(err)
	}
	var r message.Response
	if err := c.Receive(&r, nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "ok" {
		t.Fatalf("%q %v", b, err)
	}
}

func TestConnectionThatDiesBeforeTheAnswer(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) { _, _ = http.ReadRequest(d.r) })
	c := connect(t, addr, nil)
	err := c.Send(get("/"), "a")
	if err == nil {
		err = c.Receive(new(message.Response), nil, time.Second)
	}
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != message.UpstreamReset || !c.Wrote() || c.Received() {
		t.Errorf("%v, wrote %v, received %v", err, c.Wrote(), c.Received())
	}
}

func TestHeadTimeout(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) { _, _ = io.Copy(io.Discard, d) })
	c := connect(t, addr, nil)
	if err := c.Send(get("/"), "a"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err := c.Receive(new(message.Response), nil, 100*time.Millisecond)
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != message.UpstreamTimeout || failed.Reason.Status() != 504 {
		t.Error(err)
	}
	if took := time.Since(start); took < 100*time.Millisecond || took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

// watcher is a client that leaves.
type watcher struct {
	gone    atomic.Bool
	informs []int
}

func (w *watcher) Gone() bool { return w.gone.Load() }

func (w *watcher) Inform(status int, _ *message.Header) error {
	w.informs = append(w.informs, status)
	return nil
}

func TestAClientThatLeavesEndsTheWait(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) { _, _ = io.Copy(io.Discard, d) })
	c := connect(t, addr, nil)
	if err := c.Send(get("/"), "a"); err != nil {
		t.Fatal(err)
	}
	w := &watcher{}
	w.gone.Store(true)
	err := c.Receive(new(message.Response), w, time.Minute)
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != message.ClientGone || !errors.Is(err, message.ErrClientGone) {
		t.Error(err)
	}
}

func TestInterimResponsesArePassedOn(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			d.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	w := serve(t, quick(), forwardTo(addr).serve)
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if got := d.rest(); !strings.HasPrefix(got, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\n") || strings.Contains(got, "100 Continue") {
		t.Errorf("%q", got)
	}
	d = w.dial()
	d.send("GET / HTTP/1.0\r\nHost: a\r\n\r\n")
	if got := d.rest(); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("HTTP/1.0: %q", got)
	}
}

func TestLargeRequestBodyAndEarlyAnswer(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			d.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
			_, _ = io.Copy(io.Discard, io.LimitReader(d.r, 1<<20))
		}
	})
	c := connect(t, addr, nil)
	r := get("/")
	r.Method, r.Length, r.Body = "POST", 64<<20, &endless{left: 64 << 20}
	if err := c.Send(r, "a"); err != nil {
		t.Fatal(err)
	}
	var response message.Response
	if err := c.Receive(&response, nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(response.Body); response.Status != 413 || string(b) != "no" || err != nil {
		t.Errorf("%d %q %v", response.Status, b, err)
	}
	if c.Reusable() {
		t.Error("reusable although the request was not sent to its end")
	}
}

// endless is a body of zeros of which nothing is ready.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	n := int(min(int64(len(p)), e.left))
	clear(p[:n])
	if e.left -= int64(n); e.left == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (e *endless) Trailer() *message.Header { return nil }
func (e *endless) Close() error             { return nil }

func TestRequestBodyThatBreaksOffIsTheClientsFault(t *testing.T) {
	got := make(chan error, 1)
	addr := origin(t, func(_ int, d *dialed) {
		r, err := http.ReadRequest(d.r)
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
		}
		got <- err
	})
	c := connect(t, addr, nil)
	r := get("/")
	cause := &message.BodyError{Reason: message.BadChunk, Err: errors.New("bad")}
	r.Method, r.Length, r.Body = "POST", message.Unknown, &memory{text: "abc", fail: cause}
	err := c.Send(r, "a")
	if err == nil {
		err = c.Receive(new(message.Response), nil, 5*time.Second)
	}
	var broken *message.BodyError
	if !errors.As(err, &broken) || broken.Reason != message.BadChunk || c.Reusable() {
		t.Errorf("%v, reusable %v", err, c.Reusable())
	}
	if err := <-got; err == nil {
		t.Error("the origin took the request for complete")
	}
}

func TestA12_TheOriginDecidesAboutTheBody(t *testing.T) {
	for name, c := range map[string]struct {
		say, want string
		body      bool
	}{
		"continue":    {"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 100 Continue\r\n", true},
		"refuse":      {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 403 Forbidden\r\n", false},
		"say nothing": {"", "HTTP/1.1 100 Continue\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := make(chan string, 1)
			addr := origin(t, func(_ int, d *dialed) {
				r, err := http.ReadRequest(d.r)
				if err != nil {
					return
				}
				d.send(c.say)
				b, _ := io.ReadAll(r.Body)
				body <- string(b)
				d.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			})
			w := serve(t, quick(), forwardTo(addr).serve)
			d := w.dial()
			d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
			line, err := d.r.ReadString('\n')
			if err != nil || line != c.want {
				t.Fatalf("%q %v", line, err)
			}
			if c.body {
				_, _ = d.r.ReadString('\n')
				d.send("abc")
				if got := <-body; got != "abc" {
					t.Errorf("the origin got %q", got)
				}
				if r, _ := d.answer("POST"); r.StatusCode != 200 || r.Close {
					t.Errorf("%d close %v", r.StatusCode, r.Close)
				}
				return
			}
			if rest := d.rest(); !strings.Contains(rest, "Connection: close\r\n") {
				t.Errorf("the client may send the body or not, and the connection stays: %q", rest)
			}
			if got := <-body; got != "" {
				t.Errorf("the origin got %q", got)
			}
		})
	}
}
