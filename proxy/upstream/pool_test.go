package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
)

func TestPoolPointerIsStableAndStateSurvives(t *testing.T) {
	a, b := echo(t), echo(t)
	pools := New(Settings{})
	defer pools.Close()
	set := func(u *model.Upstream) {
		t.Helper()
		if err := pools.Set(u); err != nil {
			t.Fatal(err)
		}
	}
	set(upstream(a.addr))
	p := pools.Get("u")
	if _, _, err := send(p, request("GET", "")); err != nil {
		t.Fatal(err)
	}
	before := p.endpoint(a.addr)
	u := upstream(a.addr, b.addr)
	u.LoadBalance.Policy = "leastRequest"
	set(u)
	if pools.Get("u") != p || p.endpoint(a.addr) != before || before.idle.len() != 1 {
		t.Error("a change of endpoints lost the pool, an endpoint or its connections")
	}
	pools.Delete("u")
	if pools.Get("u") != nil || before.idle.len() != 0 {
		t.Error("a deleted pool is found, or keeps connections")
	}
	if status, _, err := send(p, request("GET", "")); status != 503 || reasonOf(err) != "no_endpoints" {
		t.Error(status, err)
	}
}

func TestRemovedEndpointIsUnusedAtOnceAndFinishes(t *testing.T) {
	release := make(chan bool)
	old := serve(t, func(p *peer) {
		for p.next() != nil {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf")
			<-release
			p.say("half")
		}
	})
	idle := echo(t)
	next := echo(t)
	pools := New(Settings{})
	defer pools.Close()
	_ = pools.Set(upstream(idle.addr))
	p := pools.Get("u")
	if _, _, err := send(p, request("GET", "")); err != nil {
		t.Fatal(err)
	}
	_ = pools.Set(upstream(old.addr))
	x := request("GET", "")
	if err := p.Forward(x, filter.ForwardOptions{}); err != nil {
		t.Fatal(err)
	}
	_ = pools.Set(upstream(next.addr))
	for range 20 {
		if _, body, err := send(p, request("GET", "")); body != next.addr || err != nil {
			t.Fatal(body, err)
		}
	}
	close(release)
	got := make([]byte, 0, 8)
	for len(got) < 8 {
		var b [8]byte
		n, err := x.Response.Body.Read(b[:])
		if got = append(got, b[:n]...); err != nil {
			break
		}
	}
	if string(got) != "halfhalf" {
		t.Errorf("an exchange in flight got %q", got)
	}
	if p.endpoint(old.addr) != nil || idle.accepted.Load() != 1 {
		t.Error("a removed endpoint is still known")
	}
}

func TestTerminatingEndpoints(t *testing.T) {
	a, b := echo(t), echo(t)
	pools := New(Settings{})
	defer pools.Close()
	u := upstream(a.addr, b.addr)
	_ = pools.Set(u)
	p := pools.Get("u")
	for range 4 {
		_, _, _ = send(p, request("GET", ""))
	}
	terminating := func(which ...int) {
		next := upstream(a.addr, b.addr)
		for _, i := range which {
			next.Endpoints[i].Terminating = true
		}
		if err := pools.Set(next); err != nil {
			t.Fatal(err)
		}
	}
	terminating(0)
	if n := p.endpoint(a.addr).idle.len(); n != 0 {
		t.Errorf("%d connections of a terminating endpoint wait for use", n)
	}
	for range 10 {
		if _, body, err := send(p, request("GET", "")); body != b.addr || err != nil {
			t.Fatal("a terminating endpoint got something new:", body, err)
		}
	}
	terminating(0, 1)
	seen := map[string]int{}
	for range 10 {
		_, body, err := send(p, request("GET", ""))
		if err != nil {
			t.Fatal(err)
		}
		seen[body]++
	}
	if seen[a.addr] != 5 || seen[b.addr] != 5 {
		t.Errorf("with none ready the terminating ones serve: %v", seen)
	}
}

func TestCase_A01_NeverDialsPortZero(t *testing.T) {
	good := echo(t)
	var mu sync.Mutex
	dialled := map[string]bool{}
	pools := New(Settings{Dial: func(address string, timeout time.Duration) (net.Conn, error) {
		mu.Lock()
		dialled[address] = true
		mu.Unlock()
		return dial(address, timeout)
	}})
	defer pools.Close()
	err := pools.Set(upstream("127.0.0.2:0", "127.0.0.3", ":80", "127.0.0.4:x", good.addr))
	if err == nil || !strings.Contains(err.Error(), `endpoint "127.0.0.2:0" has no port`) {
		t.Errorf("error %v", err)
	}
	for range 100 {
		if status, _, err := send(pools.Get("u"), request("GET", "")); status != 200 || err != nil {
			t.Fatal(status, err)
		}
	}
	if len(dialled) != 1 || !dialled[good.addr] {
		t.Errorf("dialled %v", dialled)
	}
}

func TestWeights(t *testing.T) {
	a, b, c := echo(t), echo(t), echo(t)
	pools := New(Settings{})
	defer pools.Close()
	for name, want := range map[string][3]int{"none": {4, 4, 4}, "some": {9, 3, 0}} {
		u := upstream(a.addr, b.addr, c.addr)
		if name == "some" {
			u.Endpoints[0].Weight, u.Endpoints[1].Weight = 3, 1
		}
		_ = pools.Set(u)
		seen := map[string]int{}
		for range 12 {
			_, body, _ := send(pools.Get("u"), request("GET", ""))
			seen[body]++
		}
		if got := [3]int{seen[a.addr], seen[b.addr], seen[c.addr]}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestHashPoliciesKeepToTheirEndpoint(t *testing.T) {
	a, b, c := echo(t), echo(t), echo(t)
	for policy, change := range map[string]func(x *filter.Exchange, key string){
		"ipHash":     func(x *filter.Exchange, key string) { x.ClientIP = key },
		"headerHash": func(x *filter.Exchange, key string) { x.Request.Header.Set("X-User", key) },
	} {
		t.Run(policy, func(t *testing.T) {
			pools := New(Settings{})
			defer pools.Close()
			u := upstream(a.addr, b.addr, c.addr)
			u.LoadBalance = model.LoadBalance{Policy: policy, HeaderHashKey: "X-User"}
			_ = pools.Set(u)
			used := map[string]bool{}
			for user := range 30 {
				first := ""
				for i := range 3 {
					x := request("GET", "")
					change(x, fmt.Sprintf("192.0.2.%d", user))
					_, body, err := send(pools.Get("u"), x)
					if first == "" {
						first = body
					}
					if body != first || err != nil {
						t.Fatal(i, body, first, err)
					}
				}
				used[first] = true
			}
			if len(used) != 3 {
				t.Errorf("30 clients came to %d of 3 endpoints", len(used))
			}
		})
	}
}

func TestUnknownPolicyServesAndSaysSo(t *testing.T) {
	a := echo(t)
	pools := New(Settings{})
	defer pools.Close()
	u := upstream(a.addr)
	u.LoadBalance.Policy = "roundrobbin"
	if err := pools.Set(u); err == nil || !strings.Contains(err.Error(), "roundRobin") {
		t.Error(err)
	}
	if status, _, err := send(pools.Get("u"), request("GET", "")); status != 200 || err != nil {
		t.Error(status, err)
	}
}

func TestIdleConnectionsAreCappedAndExpire(t *testing.T) {
	var offset atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	o := echo(t)
	p := pool(t, Settings{MaxIdle: 2, Now: now}, o.addr)
	var open []*filter.Exchange
	for range 5 {
		x := request("GET", "")
		if err := p.Forward(x, filter.ForwardOptions{}); err != nil {
			t.Fatal(err)
		}
		open = append(open, x)
	}
	for _, x := range open {
		var b [64]byte
		for {
			if _, err := x.Response.Body.Read(b[:]); err != nil {
				break
			}
		}
	}
	e := p.endpoint(o.addr)
	if n := e.idle.len(); n != 2 {
		t.Fatalf("%d idle connections, want the cap of 2", n)
	}
	offset.Store(int64(56 * time.Second))
	if _, _, err := send(p, request("GET", "")); err != nil {
		t.Fatal(err)
	}
	if n := e.idle.len(); n != 1 || o.accepted.Load() != 6 {
		t.Errorf("%d idle, %d connections: those that idled 56s must not be used", n, o.accepted.Load())
	}
	offset.Store(int64(3 * time.Minute))
	p.reap()
	if n := e.idle.len(); n != 0 {
		t.Errorf("%d idle after a look for old ones", n)
	}
}

func TestCase_B08_MalformedAnswersAreExplainedOnce(t *testing.T) {
	o := serve(t, func(p *peer) {
		for p.next() != nil {
			p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		}
	})
	var lines records
	p := pool(t, Settings{Log: slog.New(&lines)}, o.addr)
	for range 4 {
		x := request("POST", "x")
		if status, _, err := send(p, x); status != 502 || reasonOf(err) != "upstream_ambiguous_framing" || x.Forward.Attempts != 1 {
			t.Fatal(status, err, x.Forward)
		}
	}
	if len(lines.all) != 1 || !strings.Contains(lines.all[0], o.addr) || !strings.Contains(lines.all[0], "Transfer-Encoding") {
		t.Errorf("want one line that names the endpoint and the field, got %q", lines.all)
	}
	if n := o.accepted.Load(); n != 4 {
		t.Errorf("%d connections for 4 exchanges that must each close theirs", n)
	}
}

// records keeps what is logged, as text.
type records struct {
	mu  sync.Mutex
	all []string
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	text := record.Message
	record.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, text)
	return nil
}

func TestStatus(t *testing.T) {
	a := echo(t)
	pools := New(Settings{})
	defer pools.Close()
	u := upstream(a.addr)
	u.Endpoints[0].Weight = 7
	_ = pools.Set(u)
	_ = pools.Set(&model.Upstream{Name: "empty", Reason: "service_missing", Detail: "Ingress ns/x"})
	if _, _, err := send(pools.Get("u"), request("GET", "")); err != nil {
		t.Fatal(err)
	}
	want := []Status{
		{Name: "empty", Reason: "service_missing", Detail: "Ingress ns/x", Endpoints: []EndpointStatus{}},
		{Name: "u", Endpoints: []EndpointStatus{{Address: a.addr, Weight: 7, Idle: 1}}},
	}
	if diff := cmp.Diff(want, pools.Status()); diff != "" {
		t.Error(diff)
	}
}
