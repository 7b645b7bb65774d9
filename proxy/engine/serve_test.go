package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/telemetry"
)

// doing is a kind of filter that does what the test says.
func doing(name string, do func(*filter.Exchange) filter.Result) filter.Kind {
	return filter.Kind{
		Name: name, Decode: func([]byte) (any, error) { return nil, nil },
		New: func(any, filter.Env) (filter.Filter, error) { return doer(do), nil },
	}
}

type doer func(*filter.Exchange) filter.Result

func (d doer) Handle(x *filter.Exchange) filter.Result { return d(x) }

// one is a config with one server whose every request goes to one pipeline of the given filters.
func one(kinds ...string) *model.Config {
	p := &model.Pipeline{Meta: model.Meta{Name: "p"}}
	for _, k := range kinds {
		f := model.Filter{Name: strings.ToLower(k), Kind: k}
		if k == model.KindProxy {
			f.Proxy = &model.Proxy{Pools: []*model.Pool{{Service: "u"}}}
		}
		p.Filters = append(p.Filters, f)
	}
	c := &model.Config{
		Servers: []*model.HTTPServer{{Meta: model.Meta{Name: "web"}, Address: "127.0.0.1", RuleSet: "rules"}},
		RuleSets: map[string]*model.RuleSet{"rules": {Name: "rules", Kind: model.Ordered, Rules: []*model.Rule{
			{Paths: []*model.Path{{Backend: "p"}}},
		}}},
	}
	c.Pipelines = c.Pipelines.With("p", p)
	return c
}

func withUpstream(c *model.Config, addresses ...string) *model.Config {
	u := &model.Upstream{Name: "u"}
	for _, a := range addresses {
		u.Endpoints = append(u.Endpoints, model.Endpoint{Address: a})
	}
	next := *c
	next.Upstreams = c.Upstreams.With("u", u)
	return &next
}

func dial(t testing.TB, e *Engine) *net.TCPConn {
	t.Helper()
	addr, bound := e.Addr("web")
	if !bound {
		t.Fatal("not bound")
	}
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func get(t testing.TB, conn net.Conn, path string, fields ...string) (*http.Response, string) {
	t.Helper()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: a.example\r\n%s\r\n", path, strings.Join(append(fields, ""), "\r\n"))
	return readResponse(t, bufio.NewReader(conn))
}

func readResponse(t testing.TB, r *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func TestH6_APanicCostsItsRequestOnly(t *testing.T) {
	b := newBackend(t, "v1")
	var log syncBuffer
	e := newTestEngine(t, Settings{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Filters: append(filters.Builtin(), doing("Panic", func(x *filter.Exchange) filter.Result {
			if x.Request.Path == "/panic" {
				panic("a defect")
			}
			return filter.Next
		})),
	})
	e.Apply(withUpstream(one("Panic", model.KindProxy), b.address))
	bystander := dial(t, e)
	if r, _ := get(t, bystander, "/"); r.StatusCode != 200 {
		t.Fatalf("status %d", r.StatusCode)
	}
	r, body := get(t, dial(t, e), "/panic")
	if r.StatusCode != 500 || !strings.Contains(body, r.Header.Get("X-Request-Id")) || strings.Contains(body, "defect") {
		t.Errorf("status %d, body %q", r.StatusCode, body)
	}
	if r, _ := get(t, bystander, "/"); r.StatusCode != 200 {
		t.Errorf("another connection: status %d", r.StatusCode)
	}
	for _, want := range []string{"level=ERROR", "a defect", "serve_test.go", r.Header.Get("X-Request-Id")} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
	if got := series(t, e.settings.Metrics, "sluice_panics_total", "where"); len(got) != 1 {
		t.Errorf("counted as %v", got)
	}
}

// brokenBody panics when it is read on.
type brokenBody struct{ read bool }

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.read {
		panic("a defect in a body")
	}
	b.read = true
	return copy(p, "some"), nil
}

func (b *brokenBody) Trailer() *message.Header { return nil }
func (b *brokenBody) Close() error             { return nil }

func TestH6_APanicAfterTheHeadCutsTheResponse(t *testing.T) {
	var log syncBuffer
	e := newTestEngine(t, Settings{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Filters: []filter.Kind{doing("Body", func(x *filter.Exchange) filter.Result {
			r := x.Answer()
			r.Status, r.Length, r.Body = 200, message.Unknown, new(brokenBody)
			return filter.Next
		})},
	})
	e.Apply(one("Body"))
	conn := dial(t, e)
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	raw, _ := io.ReadAll(conn)
	if bytes.Contains(raw, []byte("\r\n0\r\n")) || bytes.Count(raw, []byte("HTTP/1.1")) > 1 {
		t.Errorf("the response was ended as if it were whole: %q", raw)
	}
	testkit.Eventually(t, time.Second, "the panic in the log", func() bool { return strings.Contains(log.String(), "a defect in a body") })
}

func TestAFilterThatAnswersNothingIs500(t *testing.T) {
	e := newTestEngine(t, Settings{Filters: []filter.Kind{doing("Nothing", func(*filter.Exchange) filter.Result { return filter.Next })}})
	e.Apply(one("Nothing"))
	if r, _ := get(t, dial(t, e), "/"); r.StatusCode != 500 {
		t.Errorf("status %d", r.StatusCode)
	}
}

func TestHooksSeeEveryHead(t *testing.T) {
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{Filters: append(filters.Builtin(), doing("Hook", func(x *filter.Exchange) filter.Result {
		x.OnResponse(func(x *filter.Exchange) { x.Response.Header.Set("X-Hook", x.Response.Header.Get("X-Request-Id")) })
		return filter.Next
	}))})
	e.Apply(withUpstream(one("Hook", model.KindProxy), b.address))
	if r, _ := get(t, dial(t, e), "/"); r.Header.Get("X-Hook") != r.Header.Get("X-Request-Id") {
		t.Errorf("the origin's response: %v", r.Header)
	}
	b.down()
	if r, _ := get(t, dial(t, e), "/"); r.StatusCode != 502 || r.Header.Get("X-Hook") != r.Header.Get("X-Request-Id") {
		t.Errorf("our own: %d %v", r.StatusCode, r.Header)
	}
}

func TestA11_PipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	b := newBackend(t, "v1")
	p := newPlayless(t)
	p.engine.Apply(withUpstream(one(model.KindProxy), b.address))
	conn := dial(t, p.engine)
	var all strings.Builder
	for i := range 20 {
		method := "GET"
		if i%5 == 4 {
			method = "TRACE" // refused, and the connection ends
		}
		if i == 19 || method == "GET" {
			fmt.Fprintf(&all, "%s /%d HTTP/1.1\r\nHost: a\r\n\r\n", method, i)
		}
	}
	all.WriteString("GET /after HTTP/1.1\r\nHost: a\r\n\r\n")
	io.WriteString(conn, all.String())
	r := bufio.NewReader(conn)
	ids := map[string]bool{}
	for i := range 19 {
		if i%5 == 4 {
			continue
		}
		response, body := readResponse(t, r)
		if want := fmt.Sprintf("GET /%d ", i); response.StatusCode != 200 || !strings.Contains(body, want) {
			t.Fatalf("response %d: %d %q", i, response.StatusCode, body)
		}
		id := response.Header.Get("X-Request-Id")
		if record := p.records.of(id); record.URI != fmt.Sprintf("/%d", i) {
			t.Errorf("record of request %d: %+v", i, record)
		}
		ids[id] = true
	}
	if response, _ := readResponse(t, r); response.StatusCode != 405 || !response.Close {
		t.Errorf("TRACE: %d, close %v", response.StatusCode, response.Close)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("after the connection's last response: %q", rest)
	}
	if len(ids) != 16 {
		t.Errorf("%d different ids", len(ids))
	}
}

// newPlayless is an engine with an access log.
func newPlayless(t *testing.T) *play {
	p := &play{t: t, records: &records{t: t}}
	p.engine = newTestEngine(t, Settings{AccessLog: p.records})
	return p
}

func TestAClientThatWentAwayIs499AndNoUpstreamError(t *testing.T) {
	b := newBackend(t, "v1")
	p := newPlayless(t)
	p.engine.Apply(withUpstream(one(model.KindProxy), b.address))
	for _, c := range []struct{ name, do string }{{"before the head", "wait"}, {"in the body", "wait-body"}} {
		t.Run(c.name, func(t *testing.T) {
			conn := dial(t, p.engine)
			fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: a\r\nX-Do: %s\r\n\r\n", c.do, c.do)
			_, before := b.saw()
			testkit.Eventually(t, 2*time.Second, "the request at the backend", func() bool { _, n := b.saw(); return n > 0 && n >= before })
			if c.do == "wait-body" {
				conn.Read(make([]byte, 1))
			}
			conn.SetLinger(0)
			conn.Close()
			r := p.records.find(c.do, func(r *telemetry.Record) bool { return r.URI == "/"+c.do })
			if r.Reason != "client_gone" || r.Status != 499 {
				t.Errorf("record %+v", r)
			}
		})
	}
}

func TestF12_WhatAClientSendsCannotForgeALogRecord(t *testing.T) {
	p := newPlayless(t)
	p.engine.Apply(one())
	r, _ := get(t, dial(t, p.engine), `/a"b\c%0a%1b`, "User-Agent: x\"}\t\\n{\"status\":1", "Referer: \u202e\u2028</script>")
	record := p.records.of(r.Header.Get("X-Request-Id"))
	if record.UserAgent != "x\"}\t\\n{\"status\":1" || record.URI != `/a"b\c%0a%1b` {
		t.Errorf("record %+v", record)
	}
}

// failing is a listener whose Accept fails some times.
type failing struct {
	net.Listener
	left atomic.Int64
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

func TestAcceptWaitsOutAShortageOfDescriptors(t *testing.T) {
	var log syncBuffer
	e := newTestEngine(t, Settings{
		Log:     slog.New(slog.NewTextHandler(&log, nil)),
		Filters: []filter.Kind{doing("Nothing", func(*filter.Exchange) filter.Result { return filter.Next })},
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := new(net.ListenConfig).Listen(ctx, network, address)
			f := &failing{Listener: l}
			f.left.Store(5)
			return f, err
		},
	})
	e.Apply(one("Nothing"))
	if r, _ := get(t, dial(t, e), "/"); r.StatusCode != 500 {
		t.Errorf("status %d", r.StatusCode)
	}
	if n := strings.Count(log.String(), "cannot accept connections"); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
}

func TestConnectionsOverTheLimitAreTurnedAway(t *testing.T) {
	b := newBackend(t, "v1")
	log := &records{t: t}
	e := newTestEngine(t, Settings{AccessLog: log})
	c := withUpstream(one(model.KindProxy), b.address)
	server := *c.Servers[0]
	server.MaxConnections = 2
	c.Servers = []*model.HTTPServer{&server}
	e.Apply(c)
	first, second := dial(t, e), dial(t, e)
	for _, conn := range []net.Conn{first, second} {
		if r, _ := get(t, conn, "/"); r.StatusCode != 200 {
			t.Fatalf("status %d", r.StatusCode)
		}
	}
	for range 20 {
		third := dial(t, e)
		fmt.Fprintf(third, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n\r\n%20000d", 1) // it does not wait for leave
		r, err := http.ReadResponse(bufio.NewReader(third), nil)
		if err != nil || r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || r.Header.Get("X-Request-Id") == "" {
			t.Fatalf("the third got %v, %v", r, err)
		}
		if got := log.of(r.Header.Get("X-Request-Id")); got.Reason != "overloaded" || got.Status != 503 || got.Server == "" || got.ClientIP != "127.0.0.1" {
			t.Fatalf("logged as %+v", got)
		}
		third.Close()
	}
	first.Close()
	testkit.Eventually(t, 2*time.Second, "room again", func() bool {
		conn := dial(t, e)
		defer conn.Close()
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		return err == nil && r.StatusCode == 200
	})
}

func TestDrainFinishesWhatIsUnderWay(t *testing.T) {
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{DrainTimeout: 10 * time.Second})
	e.Apply(withUpstream(one(model.KindProxy), b.address))
	idle, busy := dial(t, e), dial(t, e)
	if r, _ := get(t, idle, "/"); r.Close {
		t.Error("Connection: close before the drain")
	}
	fmt.Fprint(busy, "GET / HTTP/1.1\r\nHost: a\r\nX-Do: size 4000000\r\n\r\n")
	r := bufio.NewReader(busy)
	r.Peek(1)
	drained := make(chan error, 1)
	go func() { drained <- e.Drain(context.Background()) }()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v", err)
	}
	select {
	case err := <-drained:
		t.Fatalf("drained before the download was over: %v", err)
	default:
	}
	if response, body := readResponse(t, r); response.StatusCode != 200 || len(body) != 4000000 {
		t.Errorf("status %d, %d bytes", response.StatusCode, len(body))
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	addr := e.Snapshot().servers[0]
	if conn, err := net.Dial("tcp", e.sockets[addr.key].listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("still listening")
	}
}

func TestDrainSaysHowMuchItCut(t *testing.T) {
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{DrainTimeout: 50 * time.Millisecond})
	e.Apply(withUpstream(one(model.KindProxy), b.address))
	for range 3 {
		fmt.Fprint(dial(t, e), "GET / HTTP/1.1\r\nHost: a\r\nX-Do: wait\r\n\r\n")
	}
	testkit.Eventually(t, 2*time.Second, "three exchanges", func() bool { return e.inFlight.Load() == 3 })
	if err := e.Drain(context.Background()); err == nil || !strings.Contains(err.Error(), "3 exchanges") {
		t.Errorf("drained: %v", err)
	}
	// A second signal ends the waiting.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Drain(ctx); err == nil {
		t.Error("drained after a second signal without cutting anything")
	}
}
