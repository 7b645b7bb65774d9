package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/proxy/message"
)

// world is a Server behind a real TLS listener and a client of it.
type world struct {
	t        *testing.T
	server   *Server
	addr     string
	client   *http.Client
	mu       sync.Mutex
	refusals []string
}

func serve(t *testing.T, handler message.Handler) *world {
	w := &world{t: t}
	authority := testkit.NewAuthority(t)
	pair := authority.ClientCertificate(t, "a.test")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	w.addr = l.Addr().String()
	w.server = New(Settings{Handler: handler, Refuse: func(_ *message.Conn, r *Refusal) *message.Response {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refusals = append(w.refusals, r.Reason.String())
		return nil
	}})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				secure := conn.(*tls.Conn)
				if secure.Handshake() == nil {
					w.server.Serve(secure, &message.Conn{Peer: "127.0.0.1"})
				}
			})
		}
	})
	transport := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: authority.Pool(), ServerName: "a.test"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, w.addr)
		},
	}
	w.client = &http.Client{Transport: transport, Timeout: 10 * time.Second}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		l.Close()
		w.server.Close()
		group.Wait()
	})
	return w
}

// text answers with a body.
func text(x message.Stream, status int, body string, fields ...string) {
	r := &message.Response{Status: status, Length: int64(len(body)), Body: &pieces{rest: []string{body}}}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	_, _ = x.Respond(r)
}

// pieces is a body that yields one piece a read, and then err or the end.
type pieces struct {
	rest    []string
	err     error
	trailer *message.Header
	more    chan string
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 && p.more != nil {
		if s, open := <-p.more; open {
			return copy(b, s), nil
		}
	}
	if len(p.rest) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		return 0, io.EOF
	}
	n := copy(b, p.rest[0])
	p.rest = p.rest[1:]
	return n, nil
}

func (p *pieces) Trailer() *message.Header { return p.trailer }
func (p *pieces) Close() error             { return nil }

func describe(q *message.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s|%s|%s|%v|%s len=%d body=%v", q.Method, q.Host, q.Path, q.RawQuery, q.HasQuery, q.Authority, q.Length, q.Body != nil)
	for name, value := range q.Header.All() {
		if name != "User-Agent" && name != "Accept-Encoding" {
			fmt.Fprintf(&b, " %s:%s", name, value)
		}
	}
	return b.String()
}

func TestRequestIsCanonical(t *testing.T) {
	seen := make(chan string, 1)
	w := serve(t, func(x message.Stream) { seen <- describe(x.Request()); text(x, 200, "ok") })
	for _, c := range []struct {
		method, target, host, body string
		fields                     []string
		want                       string
	}{
		{"GET", "/a/../b/%7e?x=1;y=%zz", "A.test:443", "", nil, "GET a.test|/b/~|x=1;y=%zz|true|A.test:443 len=0 body=false"},
		{"GET", "/", "a.test.", "", []string{"X_Evil", "1", "X-Good", "2"}, "GET a.test|/||false|a.test. len=0 body=false X-Good:2"},
		{"POST", "/p", "a.test", "hello", nil, "POST a.test|/p||false|a.test len=5 body=true"},
		{"GET", "/?", "a.test", "", nil, "GET a.test|/||true|a.test len=0 body=false"},
	} {
		request, err := http.NewRequest(c.method, "https://a.test"+c.target, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.body == "" {
			request.Body, request.ContentLength = nil, 0
		}
		request.Host = c.host
		for i := 0; i < len(c.fields); i += 2 {
			request.Header[c.fields[i]] = []string{c.fields[i+1]}
		}
		response, err := w.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := <-seen; got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.target, got, c.want)
		}
	}
}

// rawFrames speaks HTTP/2 frame by frame.
type rawFrames struct {
	t      *testing.T
	conn   net.Conn
	framer *http2.Framer
	head   bytes.Buffer
	enc    *hpack.Encoder
}

func (w *world) raw() *rawFrames {
	conn, err := tls.Dial("tcp", w.addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	r := &rawFrames{t: w.t, conn: conn, framer: http2.NewFramer(conn, conn)}
	r.enc = hpack.NewEncoder(&r.head)
	r.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		w.t.Fatal(err)
	}
	if err := r.framer.WriteSettings(); err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (r *rawFrames) headers(stream uint32, end bool, fields ...string) {
	r.head.Reset()
	for i := 0; i < len(fields); i += 2 {
		if err := r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: r.head.Bytes(), EndStream: end, EndHeaders: true}); err != nil {
		r.t.Fatal(err)
	}
}

// status reads until the stream's response head; "reset" when it is reset first.
func (r *rawFrames) status(stream uint32) string {
	for {
		frame, err := r.framer.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream {
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "reset"
			}
		case *http2.GoAwayFrame:
			return "goaway"
		}
	}
}

func TestRefusals(t *testing.T) {
	w := serve(t, func(x message.Stream) { text(x, 200, "ok") })
	for i, c := range []struct{ want, method, path, authority, name, value string }{
		{"400", "GET", "/#x", "a.test", "x", "y"},
		{"400", "GET", "/%00", "a.test", "x", "y"},
		{"400", "GET", "/", "a,b", "x", "y"},
		{"reset", "GET", "/", "user@a.test", "x", "y"},
		{"405", "TRACE", "/", "a.test", "x", "y"},
		{"417", "POST", "/", "a.test", "expect", "y"},
		{"414", "GET", "/" + strings.Repeat("a", 17<<10), "a.test", "x", "y"},
		{"200", "GET", "/", "a.test", "x", "y"},
	} {
		r := w.raw()
		r.headers(1, true, ":method", c.method, ":scheme", "https", ":path", c.path, ":authority", c.authority, c.name, c.value)
		if got := r.status(1); got != c.want {
			t.Errorf("case %d: %s, want %s", i, got, c.want)
		}
	}
	r := w.raw()
	fields := []string{":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a.test"}
	for i := range 101 {
		fields = append(fields, fmt.Sprintf("x-%d", i), "y")
	}
	r.headers(1, true, fields...)
	if got := r.status(1); got != "431" {
		t.Errorf("101 fields: %s", got)
	}
}

// TestB9_CookieCrumbsAreJoined is case B01 too (RFC 9113 §8.2.3).
func TestB9_CookieCrumbsAreJoined(t *testing.T) {
	seen := make(chan string, 1)
	w := serve(t, func(x message.Stream) {
		h := &x.Request().Header
		seen <- strings.Join(h.Values("Cookie"), "|")
		text(x, 200, "ok")
	})
	r := w.raw()
	r.headers(1, true, ":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a.test", "cookie", "a=1", "cookie", "b=2; c=3", "cookie", "d=\xe9")
	if got := r.status(1); got != "200" {
		t.Fatal(got)
	}
	if got := <-seen; got != "a=1; b=2; c=3; d=\xe9" {
		t.Errorf("cookies %q", got)
	}
}

func TestResponse(t *testing.T) {
	w := serve(t, func(x message.Stream) {
		switch x.Request().Path {
		case "/plain":
			text(x, 200, "hello", "X-A", "1", "X-A", "2")
		case "/head":
			_, _ = x.Respond(&message.Response{Status: 200, Length: 1234})
		case "/304":
			_, _ = x.Respond(&message.Response{Status: 304, Length: message.Unknown})
		case "/silent":
		}
	})
	get := func(method, path string) (*http.Response, string) {
		request, _ := http.NewRequest(method, "https://a.test"+path, nil)
		response, err := w.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}
	response, body := get("GET", "/plain")
	if body != "hello" || len(response.Header["X-A"]) != 2 || response.Header.Get("Server") != "sluice" || response.Header.Get("Date") == "" || response.ContentLength != 5 {
		t.Errorf("%q %v", body, response.Header)
	}
	if _, guessed := response.Header["Content-Type"]; guessed {
		t.Error("a Content-Type was guessed")
	}
	if response, _ := get("HEAD", "/head"); response.ContentLength != 1234 {
		t.Errorf("HEAD: %d", response.ContentLength)
	}
	if response, _ := get("GET", "/304"); response.StatusCode != 304 || response.Header.Get("Content-Length") != "" {
		t.Errorf("304: %v", response.Header)
	}
	if response, _ := get("GET", "/silent"); response.StatusCode != 500 {
		t.Errorf("no answer: %d", response.StatusCode)
	}
}

// TestABrokenBodyIsNeverAWholeOne: the client sees an error, not an end.
func TestABrokenBodyIsNeverAWholeOne(t *testing.T) {
	w := serve(t, func(x message.Stream) {
		_, err := x.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: &pieces{rest: []string{"part"}, err: errors.New("cut")}})
		var broken *message.BodyError
		if !errors.As(err, &broken) {
			t.Errorf("Respond: %v", err)
		}
	})
	response, err := w.client.Get("https://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err == nil || string(body) != "part" {
		t.Errorf("%q, %v", body, err)
	}
}

func TestStreamingTrailersAndInterimHeads(t *testing.T) {
	more := make(chan string)
	w := serve(t, func(x message.Stream) {
		var hints message.Header
		hints.Add("Link", "</a.css>")
		if err := x.Inform(103, &hints); err != nil {
			t.Error(err)
		}
		trailer := &message.Header{}
		trailer.Add("X-Sum", "7")
		trailer.Add("Content-Length", "9")
		_, _ = x.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: &pieces{more: more, trailer: trailer}})
	})
	hinted := make(chan string, 1)
	trace := &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { hinted <- h.Get("Link"); return nil }}
	request, _ := http.NewRequestWithContext(httptrace.WithClientTrace(context.Background(), trace), "GET", "https://a.test/", nil)
	response, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := <-hinted; got != "</a.css>" {
		t.Errorf("hint %q", got)
	}
	buffer := make([]byte, 16)
	for _, piece := range []string{"one", "two"} { // each arrives before the next is sent
		more <- piece
		n, err := response.Body.Read(buffer)
		if err != nil || string(buffer[:n]) != piece {
			t.Fatalf("%q %v", buffer[:n], err)
		}
	}
	close(more)
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	if response.Trailer.Get("X-Sum") != "7" || response.Trailer.Get("Content-Length") != "" {
		t.Errorf("trailers %v", response.Trailer)
	}
}

func TestRequestBodyAndTrailers(t *testing.T) {
	w := serve(t, func(x message.Stream) {
		body, err := io.ReadAll(x.Request().Body)
		if err != nil {
			t.Error(err)
		}
		trailer := x.Request().Body.Trailer()
		text(x, 200, fmt.Sprintf("%d %s %v", len(body), trailer.Get("X-Sum"), trailer.Has("X-Forwarded-For")))
	})
	request, _ := http.NewRequest("POST", "https://a.test/", io.LimitReader(zeros{}, 3<<20))
	request.ContentLength = -1
	request.Trailer = http.Header{"X-Sum": {"7"}, "X-Forwarded-For": {"me"}}
	response, err := w.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got, _ := io.ReadAll(response.Body); string(got) != "3145728 7 false" {
		t.Errorf("%s", got)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestH6_APanicIsOneStreams500(t *testing.T) {
	w := serve(t, func(x message.Stream) {
		if x.Request().Path == "/panic" {
			panic("x")
		}
		text(x, 200, "ok")
	})
	for path, want := range map[string]int{"/panic": 500, "/": 200} {
		response, err := w.client.Get("https://a.test" + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
}

func TestGoneAndDrain(t *testing.T) {
	started, gone := make(chan bool), make(chan bool, 1)
	release := make(chan bool)
	w := serve(t, func(x message.Stream) {
		started <- true
		if x.Request().Path == "/gone" {
			testkit.Eventually(t, 5*time.Second, "the client is gone", x.Gone)
			gone <- true
			return
		}
		<-release
		text(x, 200, "ok")
	})
	ctx, cancel := context.WithCancel(context.Background())
	request, _ := http.NewRequestWithContext(ctx, "GET", "https://a.test/gone", nil)
	go func() {
		if response, err := w.client.Do(request); err == nil {
			response.Body.Close()
		}
	}()
	<-started
	cancel()
	<-gone

	answered := make(chan int, 1)
	go func() {
		response, err := w.client.Get("https://a.test/slow")
		if err != nil {
			answered <- 0
			return
		}
		response.Body.Close()
		answered <- response.StatusCode
	}()
	<-started
	drained := make(chan error, 1)
	go func() { drained <- w.server.Drain(context.Background()) }()
	close(release)
	if got := <-answered; got != 200 {
		t.Errorf("in flight at the drain: %d", got)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, 5*time.Second, "no connection is left", func() bool { return w.server.Active() == 0 })
}
