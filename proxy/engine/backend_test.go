package engine

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// backend is an origin that does what the request's X-Do field says, and by default answers with its name and with what it
// saw. It can go down and come up again on the same port.
type backend struct {
	name    string
	address string
	release chan struct{} // closed at the end of the test: ends the waiting of slow answers

	mu    sync.Mutex
	srv   *http.Server
	seen  http.Header // of the last request, with Host
	count int
}

func newBackend(t testing.TB, name string) *backend {
	b := &backend{name: name, address: "127.0.0.1:0", release: make(chan struct{})}
	b.up(t)
	t.Cleanup(func() {
		close(b.release)
		b.down()
	})
	return b
}

func (b *backend) up(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", b.address)
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.address = l.Addr().String()
	b.srv = &http.Server{Handler: b}
	go b.srv.Serve(l)
}

func (b *backend) down() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.srv.Close()
}

// saw returns the head of the last request, and how many there were.
func (b *backend) saw() (http.Header, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen, b.count
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.seen = r.Header.Clone()
	b.seen.Set("Host", r.Host)
	b.seen.Set("Request-Line", r.Method+" "+r.RequestURI+" "+r.Proto)
	b.count++
	b.mu.Unlock()
	w.Header().Set("X-Backend", b.name)
	do, argument, _ := strings.Cut(r.Header.Get("X-Do"), " ")
	switch do {
	case "":
		if r.Header.Get("Upgrade") != "" {
			b.hijack(w, b.echo)
			return
		}
		b.describe(w, r)
	case "status":
		code, _ := strconv.Atoi(argument)
		w.WriteHeader(code)
	case "header":
		name, value, _ := strings.Cut(argument, "=")
		w.Header().Set(name, value)
		w.WriteHeader(http.StatusOK)
	case "wait": // until the test or the client ends
		select {
		case <-b.release:
		case <-r.Context().Done():
		}
	case "wait-body": // a head and some of the body, then nothing until the test or the client ends
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "12345")
		http.NewResponseController(w).Flush()
		select {
		case <-b.release:
		case <-r.Context().Done():
		}
	case "size":
		n, _ := strconv.Atoi(argument)
		w.Header().Set("Content-Length", argument)
		w.Write(make([]byte, n))
	case "reset":
		b.hijack(w, func(c net.Conn, _ *bufio.ReadWriter) { c.(*net.TCPConn).SetLinger(0) })
	case "raw":
		raw, _ := strconv.Unquote(`"` + argument + `"`)
		b.hijack(w, func(c net.Conn, _ *bufio.ReadWriter) { io.WriteString(c, raw) })
	}
}

// describe answers with what was seen, in order.
func (b *backend) describe(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	fmt.Fprintf(w, "%s\n%s %s %s\nHost: %s\n", b.name, r.Method, r.RequestURI, r.Proto, r.Host)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			fmt.Fprintf(w, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(w, "body: %s\n", body)
}

func (b *backend) hijack(w http.ResponseWriter, then func(net.Conn, *bufio.ReadWriter)) {
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	c.SetDeadline(time.Time{})
	defer c.Close()
	then(c, rw)
}

// echo accepts an upgrade and sends back what comes, until the end or a line that says bye.
func (b *backend) echo(c net.Conn, rw *bufio.ReadWriter) {
	io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Backend: "+b.name+"\r\n\r\n")
	for {
		line, err := rw.ReadString('\n')
		if err != nil || line == "bye\n" {
			return
		}
		if _, err := io.WriteString(c, line); err != nil {
			return
		}
	}
}
