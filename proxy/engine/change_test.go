package engine

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

func newTestEngine(t testing.TB, s Settings) *Engine {
	t.Helper()
	if s.Log == nil {
		s.Log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if s.Metrics == nil {
		s.Metrics = telemetry.New()
	}
	if s.DrainDelay == 0 {
		s.DrainDelay = -1
	}
	e := New(s)
	t.Cleanup(func() { closeAndCheck(t, e) })
	return e
}

// closeAndCheck closes an engine and looks what it left behind.
func closeAndCheck(t testing.TB, e *Engine) {
	e.Close()
	if exchanges, open, tunnels := e.inFlight.Load(), e.limit.open.Load(), len(e.tunnels.open); exchanges != 0 || open != 0 || tunnels != 0 {
		t.Errorf("left behind: %d exchanges, %d connections, %d tunnels", exchanges, open, tunnels)
	}
}

func urlOf(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// hosts is a config with one server, in kind Host, with a rule, a pipeline and an upstream for each host.
func hosts(n int, address string) *model.Config {
	c := &model.Config{
		Servers:  []*model.HTTPServer{{Meta: model.Meta{Name: "web"}, Address: "127.0.0.1", RuleSet: "rules"}},
		RuleSets: map[string]*model.RuleSet{},
	}
	rs := &model.RuleSet{Name: "rules", Kind: model.HostFirst}
	rules, pipelines, upstreams := rs.Hosts.Edit(), c.Pipelines.Edit(), c.Upstreams.Edit()
	for i := range n {
		name := fmt.Sprintf("h%d.example", i)
		rules.Set(name, ruleFor(name, "/"))
		pipelines.Set(name, pipelineFor(name))
		upstreams.Set(name, &model.Upstream{Name: name, Endpoints: []model.Endpoint{{Address: address}}})
	}
	rs.Hosts, c.Pipelines, c.Upstreams = rules.Map(), pipelines.Map(), upstreams.Map()
	c.RuleSets["rules"] = rs
	return c
}

func ruleFor(host, path string) *model.Rule {
	key := model.Key{Kind: "Route", Namespace: "test", Name: host}
	return &model.Rule{Host: host, Origin: model.Origin{Key: key}, Paths: []*model.Path{
		{ElementPrefix: path, Backend: host, Origin: model.Origin{Key: key, Field: "spec.rules[0].http.paths[0]"}},
	}}
}

func pipelineFor(upstream string) *model.Pipeline {
	return &model.Pipeline{Meta: model.Meta{Name: upstream}, Filters: []model.Filter{{
		Name: "proxy", Kind: model.KindProxy, Proxy: &model.Proxy{Pools: []*model.Pool{{Service: upstream}}},
	}}}
}

// with returns c with the rule of one host replaced.
func with(c *model.Config, rule *model.Rule) *model.Config {
	next := *c
	rs := *c.RuleSets["rules"]
	rs.Hosts = rs.Hosts.With(rule.Host, rule)
	next.RuleSets = map[string]*model.RuleSet{"rules": &rs}
	return &next
}

func TestChangesLeaveConnectionsAlone(t *testing.T) {
	sockets, downloads, changes := 200, 50, 1000
	if testing.Short() {
		sockets, downloads, changes = 20, 5, 100
	}
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{})
	config := hosts(3, b.address)
	e.Apply(config)
	addr, _ := e.Addr("web")

	open := make([]*websocket, sockets)
	for i := range open {
		q := &request{method: "GET", raw: "http://h0.example/ws", url: urlOf(t, "http://h0.example/ws"), fields: []string{"Connection: Upgrade", "Upgrade: websocket"}}
		ws, err := q.upgrade(addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer ws.conn.Close()
		open[i] = ws
	}
	slow := make([]*bufio.Reader, downloads)
	const size = 8 << 20
	for i := range slow {
		conn, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: h0.example\r\nX-Do: size %d\r\n\r\n", size)
		slow[i] = bufio.NewReader(conn)
		if _, err := slow[i].Peek(1); err != nil {
			t.Fatal(err)
		}
	}
	authority := testkit.NewAuthority(t)
	chain, key := authority.Issue(t, time.Now().Add(time.Hour), "c.example")
	for i := range changes {
		config = with(config, ruleFor("h1.example", fmt.Sprintf("/%d", i)))
		config.Upstreams = config.Upstreams.With("h2.example", &model.Upstream{Name: "h2.example", Endpoints: []model.Endpoint{{Address: fmt.Sprintf("127.0.0.1:%d", 1+i)}}})
		if i%10 == 0 {
			config.Certificates = config.Certificates.With("c", &model.Certificate{Name: "c", Chain: chain, Key: key})
			config.TLSSets = map[string]*model.TLSSet{"tls": {Name: "tls", Default: []string{"c"}}}
		}
		if o := e.Apply(config); len(o.Problems) > 0 {
			t.Fatal(o.Problems)
		}
	}
	for i, ws := range open {
		io.WriteString(ws.conn, fmt.Sprintln("socket", i))
		if got := ws.line(t); got != fmt.Sprint("socket ", i) {
			t.Fatalf("socket %d received %q", i, got)
		}
	}
	for i, r := range slow {
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, response.Body); n != size || err != nil {
			t.Fatalf("download %d: %d bytes, %v", i, n, err)
		}
	}
}

func TestConnectionsKeepNoSnapshot(t *testing.T) {
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{})
	e.Apply(hosts(3, b.address))
	addr, _ := e.Addr("web")
	q := &request{method: "GET", raw: "http://h0.example/ws", url: urlOf(t, "http://h0.example/ws"), fields: []string{"Connection: Upgrade", "Upgrade: websocket"}}
	ws, err := q.upgrade(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer ws.conn.Close()
	idle := dial(t, e)
	fmt.Fprint(idle, "GET / HTTP/1.1\r\nHost: h0.example\r\n\r\n")
	readResponse(t, bufio.NewReader(idle))
	rules, snapshot := weak.Make(e.Snapshot().ruleSets["rules"]), weak.Make(e.Snapshot())
	// Everything is new, and still the connections are those of before.
	next := hosts(2, b.address)
	e.Apply(next)
	testkit.Eventually(t, 5*time.Second, "the first snapshot is given up", func() bool {
		runtime.GC()
		return rules.Value() == nil && snapshot.Value() == nil
	})
	io.WriteString(ws.conn, "hello\n")
	if got := ws.line(t); got != "hello" {
		t.Errorf("received %q", got)
	}
}

func TestAFlippedRouteAnswersFromOneOfItsSides(t *testing.T) {
	v1, v2 := newBackend(t, "v1"), newBackend(t, "v2")
	e := newTestEngine(t, Settings{})
	// Each side is a config of its own: rule, pipeline and upstream of the other are not in it.
	side := func(name, address string) *model.Config {
		c := hosts(0, "")
		rs := &model.RuleSet{Name: "rules", Kind: model.HostFirst}
		rule := ruleFor("a.example", "/")
		rule.Paths[0].Backend = name
		rs.Hosts = rs.Hosts.With("a.example", rule)
		c.RuleSets["rules"] = rs
		c.Pipelines = c.Pipelines.With(name, pipelineFor(name))
		c.Upstreams = c.Upstreams.With(name, &model.Upstream{Name: name, Endpoints: []model.Endpoint{{Address: address}}})
		return c
	}
	sides := []*model.Config{side("v1", v1.address), side("v2", v2.address)}
	// One server, the same in both, so that its socket stays.
	sides[1].Servers = sides[0].Servers
	e.Apply(sides[0])
	addr, _ := e.Addr("web")
	var stop atomic.Bool
	var requests sync.WaitGroup
	var served [2]atomic.Int64
	for range 4 {
		requests.Go(func() {
			conn, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for !stop.Load() {
				io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
				response, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(response.Body)
				switch via := response.Header.Get("X-Backend"); {
				case response.StatusCode != 200:
					t.Errorf("status %d: %s", response.StatusCode, body)
					return
				case via == "v1":
					served[0].Add(1)
				case via == "v2":
					served[1].Add(1)
				}
			}
		})
	}
	for i := range 200 {
		now := &served[i%2]
		before := now.Load()
		e.Apply(sides[i%2])
		testkit.Eventually(t, 5*time.Second, "requests after a flip", func() bool { return now.Load() > before+3 || t.Failed() })
	}
	stop.Store(true)
	requests.Wait()
}

// TestPoolThatCameBackHasItsGraceAgain flips an upstream away twice: the end of the first grace must not be that of the second, which has
// just begun and under which exchanges may still be on their way to the pool.
func TestPoolThatCameBackHasItsGraceAgain(t *testing.T) {
	e := newTestEngine(t, Settings{})
	both, one := hosts(2, "127.0.0.1:1"), hosts(1, "127.0.0.1:1")
	generation := make([]uint64, 4)
	for i, c := range []*model.Config{both, one, both, one} {
		generation[i] = e.Apply(c).Generation
	}
	pool := e.pools.Get("h1.example")
	e.deletePools([]string{"h1.example"}, generation[1])
	if pool == nil || e.pools.Get("h1.example") != pool {
		t.Fatal("the first grace took the pool away")
	}
	e.deletePools([]string{"h1.example"}, generation[3])
	if e.pools.Get("h1.example") != nil {
		t.Error("the pool outlives its grace")
	}
	if len(e.leaving) > 0 {
		t.Errorf("still leaving: %v", e.leaving)
	}
	e.Apply(both)
	e.Apply(one)
	e.Apply(both)
	e.deletePools([]string{"h1.example"}, e.Snapshot().Generation-1)
	if e.pools.Get("h1.example") == nil {
		t.Error("the pool of an upstream that is back was taken away")
	}
}
