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

const upgradeRequest = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n"

// tunnelThrough relays an upgrade, both ways, until both directions have ended.
func tunnelThrough(addr string, t *testing.T) message.Handler {
	return func(s message.Stream) {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			t.Error(err)
			return
		}
		c := NewClient(nc, nil)
		defer c.Close()
		if err := c.Send(s.Request(), "a"); err != nil {
			t.Error(err)
			return
		}
		var r message.Response
		if err := c.Receive(&r, s, 5*time.Second); err != nil {
			t.Error(err)
			return
		}
		if r.Tunnel == nil {
			_, _ = s.Respond(&r)
			return
		}
		client, err := s.Upgrade(&r)
		if err != nil {
			t.Error(err)
			return
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(client, r.Tunnel)
			_ = client.CloseWrite()
		}()
		_, _ = io.Copy(r.Tunnel, client)
		_ = r.Tunnel.CloseWrite()
		<-done
		client.Close()
		r.Tunnel.Close()
	}
}

func TestA17_Tunnel(t *testing.T) {
	early := make(chan string, 1)
	addr := origin(t, func(_ int, d *dialed) {
		r, err := http.ReadRequest(d.r)
		if err != nil {
			return
		}
		if r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-WebSocket-Key") != "k" {
			t.Errorf("%v", r.Header)
		}
		_ = d.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		b, _ := io.ReadAll(d.r)
		early <- string(b)
		_ = d.SetReadDeadline(time.Now().Add(5 * time.Second))
		d.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\nhello")
		b, _ = io.ReadAll(d.Conn)
		d.send("got " + string(b))
	})
	w := serve(t, quick(), tunnelThrough(addr, t))
	d := w.dial()
	d.send(upgradeRequest + "early,")
	if got := <-early; got != "" {
		t.Errorf("before the 101 the origin got %q", got)
	}
	r, err := http.ReadResponse(d.r, nil)
	if err != nil || r.StatusCode != 101 || r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Sec-WebSocket-Accept") != "x" {
		t.Fatalf("%v %v", r, err)
	}
	hello := make([]byte, 5)
	if _, err := io.ReadFull(d.r, hello); err != nil || string(hello) != "hello" {
		t.Errorf("%q %v", hello, err)
	}
	d.send("late")
	if err := d.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Error(err)
	}
	if got := d.rest(); got != "got early,late" {
		t.Errorf("%q", got)
	}
	eventually(t, "the end of the connection", func() bool { return w.server.Active() == 0 })
}

func TestA17_WithoutA101TheConnectionGoesOn(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			d.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		}
	})
	w := serve(t, quick(), tunnelThrough(addr, t))
	d := w.dial()
	d.send(upgradeRequest + "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
	for range 2 {
		if r, body := d.answer("GET"); r.StatusCode != 403 || body != "no" || r.Close {
			t.Errorf("%d %q", r.StatusCode, body)
		}
	}
	if got := strings.Join(w.requests(), " "); got != "GET /ws GET /next" {
		t.Error(got)
	}
}

func TestUpgradeThatWasNotAskedFor(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) {
		if _, err := s.Upgrade(&message.Response{}); err == nil {
			t.Error("upgraded")
		}
		_, _ = s.Respond(textResponse(200, "ok"))
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if got := d.rest(); !strings.HasSuffix(got, "ok") {
		t.Errorf("%q", got)
	}
}

func TestTunnelOutlivesItsHandler(t *testing.T) {
	tunnels := make(chan message.Tunnel, 1)
	w := serve(t, quick(), func(s message.Stream) {
		tunnel, err := s.Upgrade(&message.Response{})
		if err != nil {
			t.Error(err)
		}
		tunnels <- tunnel
	})
	d := w.dial()
	d.send(upgradeRequest + "abc")
	tunnel := <-tunnels
	b := make([]byte, 8)
	if n, err := tunnel.Read(b); err != nil || string(b[:n]) != "abc" {
		t.Errorf("%q %v", b[:n], err)
	}
	if w.server.Active() != 1 {
		t.Error("the connection is over while its tunnel is open")
	}
	tunnel.Close()
	tunnel.Close()
	eventually(t, "the end of the connection", func() bool { return w.server.Active() == 0 })
	if _, err := tunnel.Read(b); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
