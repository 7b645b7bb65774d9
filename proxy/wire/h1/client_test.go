package h1

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
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
