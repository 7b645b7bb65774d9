package engine

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// request sends a request as the words and details of a script line say.
func (p *play) request(words, details []string) *reply {
	q := &request{world: p.world, timeout: 20 * time.Second}
	if name, ok := strings.CutPrefix(words[0], "@"); ok {
		q.server, words = name, words[1:]
	}
	q.method, q.raw = words[0], expand(words[1])
	var err error
	if q.url, err = url.Parse(q.raw); err != nil {
		p.t.Fatal(err)
	}
	for _, w := range words[2:] {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "h2", "h1.0":
			q.version = name
		case "sni":
			q.sni = value
		case "certificate":
			q.certificate = true
		default:
			p.t.Fatalf("word %s", w)
		}
	}
	for _, d := range details {
		if text, ok := strings.CutPrefix(d, "|"); ok {
			q.body = append([]byte{}, strings.ReplaceAll(expand(strings.TrimPrefix(text, " ")), `\r\n`, "\r\n")...)
		} else {
			q.fields = append(q.fields, expand(d))
		}
	}
	return q.send(p.t, p.engine)
}

// expand writes a{3} out as aaa.
func expand(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(found string) string {
		n, _ := strconv.Atoi(found[2 : len(found)-1])
		return strings.Repeat(found[:1], n)
	})
}

var repeated = regexp.MustCompile(`a\{\d+\}`)

// request is a request to be sent by a client of the tests.
type request struct {
	world       *world
	server      string // "": the first of the URL's scheme
	method, raw string
	url         *url.URL
	version     string
	sni         string
	certificate bool
	fields      []string
	body        []byte
	timeout     time.Duration
}

func (q *request) address(t testing.TB, e *Engine) string {
	t.Helper()
	for _, s := range e.Snapshot().servers {
		if s.name == q.server || q.server == "" && s.spec.HTTPS == (q.url.Scheme == "https") {
			if addr, bound := e.Addr(s.name); bound {
				return addr.String()
			}
		}
	}
	t.Fatalf("no server %s for %s listens", q.server, q.raw)
	return ""
}

func (q *request) tlsConfig(t testing.TB) *tls.Config {
	c := &tls.Config{RootCAs: q.world.authority.Pool(), ServerName: q.url.Hostname()}
	if q.sni != "" {
		c.ServerName = q.sni
	}
	if q.sni == "none" || net.ParseIP(c.ServerName) != nil || len(q.world.tls) == 0 || q.sni != "" {
		c.InsecureSkipVerify = true // the default certificate has another name
	}
	if q.sni == "none" {
		c.ServerName = ""
	}
	if q.certificate {
		c.Certificates = []tls.Certificate{q.world.authority.ClientCertificate(t, "client")}
	}
	return c
}

func (q *request) send(t testing.TB, e *Engine) *reply {
	t.Helper()
	if q.version == "h2" {
		return q.sendH2(t, e)
	}
	conn, err := net.Dial("tcp", q.address(t, e))
	if err != nil {
		return &reply{err: err}
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(q.timeout))
	if q.url.Scheme == "https" {
		conn = tls.Client(conn, q.tlsConfig(t))
	}
	go conn.Write(q.head()) // a response may come before the body is out
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: q.method})
	if err != nil {
		return &reply{err: err}
	}
	return replyOf(response)
}

// head is the request as text, body included. Nothing of it is checked or mended.
func (q *request) head() []byte {
	var b bytes.Buffer
	_, target, _ := strings.Cut(q.raw, "://")
	host, target := q.url.Host, strings.TrimPrefix(target, q.url.Host)
	if target == "" {
		target = "/"
	}
	version := "HTTP/1.1"
	if q.version == "h1.0" {
		version = "HTTP/1.0"
	}
	fmt.Fprintf(&b, "%s %s %s\r\n", q.method, target, version)
	if !q.has("Host") {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	for _, f := range q.fields {
		b.WriteString(f + "\r\n")
	}
	if q.body != nil && !q.has("Transfer-Encoding") {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(q.body))
	}
	b.WriteString("\r\n")
	b.Write(q.body)
	return b.Bytes()
}

func (q *request) has(name string) bool {
	for _, f := range q.fields {
		if strings.EqualFold(strings.SplitN(f, ":", 2)[0], name) {
			return true
		}
	}
	return false
}

func (q *request) sendH2(t testing.TB, e *Engine) *reply {
	address := q.address(t, e)
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: q.tlsConfig(t), DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequest(q.method, q.raw, bytes.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range q.fields {
		name, value, _ := strings.Cut(f, ": ")
		if strings.EqualFold(name, "Host") {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	ctx, cancel := context.WithTimeout(t.Context(), q.timeout)
	defer cancel()
	response, err := transport.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return &reply{err: err}
	}
	if response.ProtoMajor != 2 {
		t.Errorf("answered by %s", response.Proto)
	}
	return replyOf(response)
}

func replyOf(response *http.Response) *reply {
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if response.Close {
		response.Header.Set("Connection", "close")
	}
	return &reply{status: response.StatusCode, header: response.Header, body: body, err: err}
}

// websocket is an upgraded connection.
type websocket struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (p *play) open(raw string) *websocket {
	p.t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		p.t.Fatal(err)
	}
	q := &request{world: p.world, method: http.MethodGet, raw: raw, url: u, fields: []string{
		"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
	}}
	ws, err := q.upgrade(q.address(p.t, p.engine))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { ws.conn.Close() })
	return ws
}

// upgrade opens a WebSocket.
func (q *request) upgrade(address string) (*websocket, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	ws := &websocket{conn, bufio.NewReader(conn)}
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := conn.Write(q.head()); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(ws.reader, nil)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	return ws, nil
}

func (w *websocket) line(t testing.TB) string {
	t.Helper()
	line, err := w.reader.ReadString('\n')
	if err != nil {
		t.Errorf("websocket: %v", err)
	}
	return strings.TrimRight(line, "\n")
}
