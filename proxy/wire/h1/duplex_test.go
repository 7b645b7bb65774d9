package h1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

func TestBothDirectionsAtOnce(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		r, err := http.ReadRequest(d.r)
		if err != nil {
			return
		}
		d.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		lines := bufio.NewReader(r.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			fmt.Fprintf(d, "%x\r\n%s\r\n", len(line), line)
		}
		d.send("0\r\n\r\n")
	})
	w := serve(t, quick(), forwardTo(addr).serve)
	d := w.dial()
	d.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n0\n\r\n")
	r, err := http.ReadResponse(d.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(r.Body)
	for i := range 50 {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("%d\n", i) {
			t.Fatalf("%d: %q %v", i, line, err)
		}
		next := fmt.Sprintf("%d\n", i+1)
		d.send(fmt.Sprintf("%x\r\n%s\r\n", len(next), next))
	}
	d.send("0\r\n\r\n")
	if _, err := io.Copy(io.Discard, lines); err != nil {
		t.Error(err)
	}
	d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n1\n")
	if r, body := d.answer("POST"); r.StatusCode != 200 || body != "1\n" {
		t.Errorf("the next exchange: %d %q", r.StatusCode, body)
	}
}

func TestLargeBodiesPassWhole(t *testing.T) {
	const size = 3 << 20
	addr := origin(t, func(_ int, d *dialed) {
		for {
			r, err := http.ReadRequest(d.r)
			if err != nil {
				return
			}
			n, err := io.Copy(io.Discard, r.Body)
			if err != nil {
				return
			}
			fmt.Fprintf(d, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("y", int(n)))
		}
	})
	w := serve(t, quick(), forwardTo(addr).serve)
	d := w.dial()
	for _, head := range []string{"Content-Length: 3145728\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n"} {
		go func() {
			text := strings.Repeat("x", size)
			if strings.HasPrefix(head, "T") {
				text = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, text)
			}
			_, _ = io.WriteString(d, "POST / HTTP/1.1\r\nHost: a\r\n"+head+text)
		}()
		if r, body := d.answer("POST"); r.StatusCode != 200 || len(body) != size || strings.Trim(body, "y") != "" {
			t.Errorf("%s: %d, %d bytes", head, r.StatusCode, len(body))
		}
	}
}

// TestRequestBodyThatBreaksOffUnderTheAnswer: the answer breaks off with it, which is not the origin's fault.
func TestRequestBodyThatBreaksOffUnderTheAnswer(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			d.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n")
			_, _ = io.Copy(io.Discard, d.r)
		}
	})
	c := connect(t, addr, nil)
	r := get("/")
	fault := &message.BodyError{Reason: message.BadChunk, Err: errors.New("a chunk is malformed")}
	read := make(chan struct{})
	r.Method, r.Length, r.Body = "POST", message.Unknown, &breaking{after: read, err: fault}
	if err := c.Send(r, "a"); err != nil {
		t.Fatal(err)
	}
	var response message.Response
	if err := c.Receive(&response, nil, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	close(read)
	if _, err := response.Body.Read(make([]byte, 2)); !errors.Is(err, fault) {
		t.Errorf("the answer ended with %v", err)
	}
}

// breaking is a body that breaks off after something has happened.
type breaking struct {
	after chan struct{}
	err   error
}

func (b *breaking) Read([]byte) (int, error) { <-b.after; return 0, b.err }
func (b *breaking) Trailer() *message.Header { return nil }
func (b *breaking) Close() error             { return nil }

func TestEarlyAnswerLeavesNobodyBehind(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			d.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
			_, _ = io.Copy(io.Discard, d.r)
		}
	})
	w := serve(t, quick(), forwardTo(addr).serve)
	before := runtime.NumGoroutine()
	for range 10 {
		d := w.dial()
		d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000000\r\n\r\nsome of it") // and no more comes
		if r, body := d.answer("POST"); r.StatusCode != 403 || body != "no" {
			t.Errorf("%d %q", r.StatusCode, body)
		}
		d.ended()
		d.Close()
	}
	eventually(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
}

func TestRequestBodyIsDeadAfterItsExchange(t *testing.T) {
	var kept message.Body
	w := serve(t, quick(), func(s message.Stream) {
		if kept == nil {
			kept = s.Request().Body
		}
		_, _ = s.Respond(textResponse(200, "ok"))
	})
	d := w.dial()
	d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	d.answer("POST")
	d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nsec")
	d.answer("POST")
	b := make([]byte, 10)
	if n, err := kept.Read(b); n != 0 || err == nil || err == io.EOF { //nolint:errorlint // exactly that must not come
		t.Errorf("%d %v", n, err)
	}
}
