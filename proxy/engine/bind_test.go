package engine

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
)

// twoServers is a config of two servers that answer by different backends.
func twoServers(t *testing.T, a, b *model.HTTPServer) *model.Config {
	t.Helper()
	c := &model.Config{RuleSets: map[string]*model.RuleSet{}}
	for _, s := range []*model.HTTPServer{a, b} {
		if s == nil {
			continue
		}
		s.Address, s.RuleSet = "127.0.0.1", s.Name
		c.Servers = append(c.Servers, s)
		c.RuleSets[s.Name] = &model.RuleSet{Name: s.Name, Kind: model.Ordered, Rules: []*model.Rule{{Paths: []*model.Path{{Backend: s.Name}}}}}
		c.Pipelines = c.Pipelines.With(s.Name, pipelineFor(s.Name))
		c.Upstreams = c.Upstreams.With(s.Name, &model.Upstream{Name: s.Name, Endpoints: []model.Endpoint{{Address: newBackend(t, s.Name).address}}})
	}
	return c
}

func serverOn(name string, port int) *model.HTTPServer {
	return &model.HTTPServer{Meta: model.Meta{Name: name}, Port: uint16(port)}
}

func via(t *testing.T, port int) string {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	r, _ := get(t, conn, "/")
	return r.Header.Get("X-Backend")
}

func TestServersMayTradePorts(t *testing.T) {
	one, two := testkit.FreePort(t), testkit.FreePort(t)
	e := newTestEngine(t, Settings{})
	e.Apply(twoServers(t, serverOn("a", one), serverOn("b", two)))
	listeners := map[string]net.Listener{}
	for key, s := range e.sockets {
		listeners[key] = s.listener
	}
	if got := via(t, one) + via(t, two); got != "ab" {
		t.Errorf("served by %s", got)
	}
	if o := e.Apply(twoServers(t, serverOn("a", two), serverOn("b", one))); len(o.Problems) > 0 {
		t.Error(o.Problems)
	}
	if got := via(t, one) + via(t, two); got != "ba" {
		t.Errorf("served by %s", got)
	}
	for key, s := range e.sockets {
		if listeners[key] != s.listener {
			t.Errorf("%s was bound again", key)
		}
	}
}

func TestAWiderAddressTakesOverFromANarrowOne(t *testing.T) {
	port := testkit.FreePort(t)
	e := newTestEngine(t, Settings{})
	e.Apply(twoServers(t, serverOn("a", port), nil))
	c := twoServers(t, serverOn("a", port), nil)
	c.Servers[0].Address = ""
	// The old socket keeps the new one from being bound until it is closed, which happens in the same Apply.
	o := e.Apply(c)
	if addr, bound := e.Addr("a"); !bound || addr.(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("bound %v: %v", addr, o.Problems)
	}
	if len(o.Problems) > 0 {
		t.Errorf("problems %v", o.Problems)
	}
}

func TestARemovedServerFinishesWhatItBegan(t *testing.T) {
	port, other := testkit.FreePort(t), testkit.FreePort(t)
	e := newTestEngine(t, Settings{})
	both := twoServers(t, serverOn("a", port), serverOn("b", other))
	e.Apply(both)
	busy, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	idle, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if r, _ := get(t, idle, "/"); r.StatusCode != 200 {
		t.Fatalf("status %d", r.StatusCode)
	}
	fmt.Fprint(busy, "GET / HTTP/1.1\r\nHost: a\r\nX-Do: size 4000000\r\n\r\n")
	r := bufio.NewReader(busy)
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err)
	}
	e.Apply(&model.Config{Servers: both.Servers[1:], RuleSets: map[string]*model.RuleSet{"b": both.RuleSets["b"]}, Pipelines: both.Pipelines.Without("a"), Upstreams: both.Upstreams.Without("a")})
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v", err)
	}
	if response, body := readResponse(t, r); response.StatusCode != 200 || len(body) != 4000000 {
		t.Errorf("the download: status %d, %d bytes", response.StatusCode, len(body))
	}
	if got := via(t, port); !strings.Contains(got, "refused") {
		t.Errorf("the removed server: %s", got)
	}
	if got := via(t, other); got != "b" {
		t.Errorf("the other server: %s", got)
	}
}

func TestBindsTellWhatIsNotBound(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	e := newTestEngine(t, Settings{BindRetry: time.Hour})
	e.Apply(twoServers(t, serverOn("a", taken.Addr().(*net.TCPAddr).Port), serverOn("b", 0)))
	binds := e.Binds()
	if len(binds) != 2 || binds[0].Bound || !strings.Contains(binds[0].Error, "address already in use") || !binds[1].Bound {
		t.Errorf("%+v", binds)
	}
}

func TestAHandshakeThatDoesNotComeIsNotWaitedForLong(t *testing.T) {
	p := newPlayless(t)
	p.engine.settings.HandshakeTimeout = time.Second
	c := one()
	s := *c.Servers[0]
	s.HTTPS, s.TLSSet = true, "tls"
	c.Servers = []*model.HTTPServer{&s}
	c.TLSSets = map[string]*model.TLSSet{"tls": {Name: "tls"}}
	p.engine.Apply(c)
	silent := dial(t, p.engine)
	silent.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := silent.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read %v", err)
	}
	// Plain HTTP to a TLS port gets no HTTP answer from behind the handshake, and others are served meanwhile.
	secure := tls.Client(dial(t, p.engine), &tls.Config{InsecureSkipVerify: true})
	if err := secure.Handshake(); err != nil {
		t.Error(err)
	}
}

func TestDrainOverHTTP2(t *testing.T) {
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{DrainTimeout: 10 * time.Second})
	c := withUpstream(one(model.KindProxy), b.address)
	s := *c.Servers[0]
	s.HTTPS, s.TLSSet = true, "tls"
	c.Servers = []*model.HTTPServer{&s}
	c.TLSSets = map[string]*model.TLSSet{"tls": {Name: "tls"}}
	e.Apply(c)
	addr, _ := e.Addr("web")
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr.String()+"/", nil)
	request.Header.Set("X-Do", "size 4000000")
	response, err := transport.RoundTrip(request)
	if err != nil || response.ProtoMajor != 2 {
		t.Fatal(response, err)
	}
	drained := make(chan error, 1)
	go func() { drained <- e.Drain(context.Background()) }()
	testkit.Eventually(t, time.Second, "the drain", e.Draining)
	if n, err := io.Copy(io.Discard, response.Body); n != 4000000 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	response.Body.Close()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

func TestTooFewDescriptorsAreSaid(t *testing.T) {
	var log syncBuffer
	e := newTestEngine(t, Settings{MaxConnections: 16, Log: slog.New(slog.NewTextHandler(&log, nil))})
	s := serverOn("a", 0)
	s.MaxConnections = 16
	e.Apply(twoServers(t, s, nil))
	if strings.Contains(log.String(), "descriptors") {
		t.Errorf("said without need: %s", log.String())
	}
	e.Apply(twoServers(t, serverOn("a", 0), nil))
	if n := strings.Count(log.String(), "descriptors are short"); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
	if l := newLimit(0); l.max < 1 || l.max == math.MaxInt64 {
		t.Errorf("descriptors allow %d", l.max)
	}
}

// TestBindLooksNoNameUp gives a server the address of a name: nobody is asked what that is.
func TestBindLooksNoNameUp(t *testing.T) {
	asked := false
	e := newTestEngine(t, Settings{Listen: func(context.Context, string, string) (net.Listener, error) {
		asked = true
		return nil, errors.New("asked")
	}})
	c := hosts(1, "127.0.0.1:1")
	server := *c.Servers[0]
	server.Address, server.Port = "name.test", 8080
	c.Servers = []*model.HTTPServer{&server}
	outcome := e.Apply(c)
	if asked || len(outcome.Problems) != 1 || outcome.Problems[0].Reason != "BindFailed" {
		t.Errorf("asked %v, problems %v", asked, outcome.Problems)
	}
}
