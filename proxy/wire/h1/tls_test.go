package h1

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/proxy/message"
)

// secure serves TLS connections and returns how to make one.
func secure(t *testing.T, w *world) func() *tls.Conn {
	t.Helper()
	certificate, pool := selfSigned(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				if nc.(*tls.Conn).Handshake() == nil {
					w.server.Serve(nc, &message.Conn{Peer: "127.0.0.1", TLS: &message.TLS{}})
				}
			}()
		}
	}()
	return func() *tls.Conn {
		nc, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "a.example"})
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
		t.Cleanup(func() { nc.Close() })
		return nc
	}
}

func TestServerOverTLS(t *testing.T) {
	left := make(chan bool, 1)
	w := serve(t, quick(), func(s message.Stream) {
		switch s.Request().Path {
		case "/leave":
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for end := time.Now().Add(5 * time.Second); time.Now().Before(end) && !s.Gone(); {
				<-tick.C
			}
			left <- s.Gone()
		case "/cut":
			_, _ = s.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: &memory{text: "half", fail: errors.New("cut")}})
		default:
			_, _ = s.Respond(textResponse(200, s.Request().Scheme))
		}
	})
	dial := secure(t, w)
	nc := dial()
	reader := bufio.NewReader(nc)
	for range 2 {
		_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r.Body); string(b) != "https" || err != nil {
			t.Errorf("%q %v", b, err)
		}
	}
	_, _ = io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"+strings.Repeat("x", 50<<10))
	if r, err := http.ReadResponse(reader, nil); err != nil || r.StatusCode != 400 {
		t.Errorf("%v %v", r, err)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("no close alert: %v", err)
	}
	nc = dial()
	_, _ = io.WriteString(nc, "GET /cut HTTP/1.0\r\n\r\n")
	if b, err := io.ReadAll(nc); err == nil || !strings.HasSuffix(string(b), "half") {
		t.Errorf("the end of a body that was cut looks regular: %q %v", b, err)
	}
	nc = dial()
	_, _ = io.WriteString(nc, "GET /leave HTTP/1.1\r\nHost: a\r\n\r\n")
	nc.Close()
	if !<-left {
		t.Error("not found gone")
	}
}

func TestClientOverTLS(t *testing.T) {
	certificate, pool := selfSigned(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		reader := bufio.NewReader(nc)
		for range 3 {
			if _, err := http.ReadRequest(reader); err != nil {
				break
			}
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
		nc.Close()
	}()
	nc, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "a.example"})
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(nc, nil)
	for range 3 {
		exchangeOK(t, c)
		if !c.Reusable() {
			t.Fatal("not reusable")
		}
	}
	eventually(t, "the end of the connection", c.Stale)
	err = c.Send(get("/"), "a")
	var failed *Error
	if !errors.As(err, &failed) || c.Wrote() {
		t.Errorf("%v, wrote %v", err, c.Wrote())
	}
}

// selfSigned is a certificate for a.example and the pool that knows it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	authority := testkit.NewAuthority(t)
	chain, key := authority.Issue(t, time.Now().Add(time.Hour), "a.example")
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair, authority.Pool()
}
