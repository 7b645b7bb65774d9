package h1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// narrow connects to an origin through buffers that hold little, so that a request is not written at once.
func narrow(t *testing.T, script func(d *dialed)) *Client {
	t.Helper()
	addr := origin(t, func(_ int, d *dialed) {
		_ = d.Conn.(*net.TCPConn).SetReadBuffer(1 << 10)
		script(d)
	})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.(*net.TCPConn).SetWriteBuffer(1 << 10); err != nil {
		t.Fatal(err)
	}
	c := NewClient(nc, nil)
	t.Cleanup(c.Close)
	return c
}

func TestRequestThatIsWrittenInParts(t *testing.T) {
	for name, size := range map[string]int{"held until Receive": 10 << 10, "written by Send": 20 << 10} {
		t.Run(name, func(t *testing.T) {
			lengths := make(chan int, 1)
			goOn := make(chan struct{})
			c := narrow(t, func(d *dialed) {
				<-goOn
				_ = d.Conn.(*net.TCPConn).SetReadBuffer(1 << 20)
				if r, err := http.ReadRequest(d.r); err == nil {
					b, _ := io.ReadAll(r.Body)
					lengths <- len(b)
					d.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			r := get("/")
			r.Header.Add("X-Large", strings.Repeat("x", 4<<10))
			r.Method, r.Length, r.Body = "POST", int64(size), &memory{text: strings.Repeat("y", size)}
			timer := time.AfterFunc(50*time.Millisecond, func() { close(goOn) })
			defer timer.Stop()
			if err := c.Send(r, "a"); err != nil {
				t.Fatal(err)
			}
			var response message.Response
			if err := c.Receive(&response, nil, 5*time.Second); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(response.Body); string(b) != "ok" || err != nil || !c.Reusable() || !c.Wrote() {
				t.Errorf("%q %v, reusable %v, wrote %v", b, err, c.Reusable(), c.Wrote())
			}
			if n := <-lengths; n != size {
				t.Errorf("the origin got %d of %d bytes", n, size)
			}
		})
	}
}

func TestOriginThatAnswersAndClosesWithoutReading(t *testing.T) {
	for name, size := range map[string]int{"held until Receive": 10 << 10, "written by Send": 20 << 10} {
		t.Run(name, func(t *testing.T) {
			c := narrow(t, func(d *dialed) { d.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno") })
			r := get("/")
			r.Header.Add("X-Large", strings.Repeat("x", 4<<10))
			r.Method, r.Length, r.Body = "POST", int64(size), &memory{text: strings.Repeat("y", size)}
			err := c.Send(r, "a")
			var response message.Response
			if err == nil {
				err = c.Receive(&response, nil, 5*time.Second)
			}
			var failed *Error
			switch {
			case err == nil && response.Status == 413:
			case errors.As(err, &failed) && failed.Reason == message.UpstreamReset: // the reset overtook the answer
			default:
				t.Errorf("%d %v", response.Status, err)
			}
			if c.Reusable() {
				t.Error("reusable")
			}
		})
	}
}

func TestClosedClientSendsNothing(t *testing.T) {
	c := narrow(t, func(d *dialed) { _, _ = io.Copy(io.Discard, d) })
	if c.Conn() == nil || c.Bound() {
		t.Error("no connection, or a bound one")
	}
	if err := c.Send(get("/"), "a"); err != nil {
		t.Fatal(err)
	}
	c.Close() // between Send and Receive
	err := c.Receive(new(message.Response), nil, time.Second)
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != message.UpstreamReset || c.Wrote() {
		t.Errorf("%v, wrote %v", err, c.Wrote())
	}
	if err := c.Send(get("/"), "a"); !errors.As(err, &failed) {
		t.Error(err)
	}
	for _, r := range []*message.Request{{Method: "GE T", Path: "/"}, {Method: "GET", Path: "/ x"}, {Method: "GET", Path: ""}, {Method: "GET", Path: "/", RawQuery: "a\r\nb", HasQuery: true}} {
		if err := c.Send(r, "a"); !errors.As(err, &failed) || failed.Reason != message.FilterBroken {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if err := c.Send(get("/"), "a\r\nX: 1"); !errors.As(err, &failed) || failed.Reason != message.FilterBroken {
		t.Error(err)
	}
}
