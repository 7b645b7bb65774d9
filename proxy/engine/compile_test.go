package engine

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/route"
	"sluice.dev/sluice/telemetry"
)

func targetOf(t *testing.T, e *Engine, host string) *target {
	t.Helper()
	found := e.Snapshot().ruleSets["rules"].lookup(&route.Request{Method: "GET", Host: host, Path: "/"})
	if found.Entry == nil {
		t.Fatalf("no entry for %s: %s", host, found.Reason)
	}
	return found.Entry.Target
}

func TestAChangeTouchesWhatChangedOnly(t *testing.T) {
	e := newTestEngine(t, Settings{})
	c := hosts(50, "127.0.0.1:1")
	e.Apply(c)
	before := e.Snapshot()
	targets := map[string]*target{}
	for i := range 50 {
		name := fmt.Sprintf("h%d.example", i)
		targets[name] = targetOf(t, e, name)
	}
	c = with(c, ruleFor("h7.example", "/"))
	c.Pipelines = c.Pipelines.With("h8.example", pipelineFor("h8.example"))
	e.Apply(c)
	after := e.Snapshot()
	for name, old := range targets {
		if now := targetOf(t, e, name); (now == old) != (name != "h7.example") {
			t.Errorf("target of %s: same %v", name, now == old)
		}
		if now := after.chain(name); (now == before.chain(name)) != (name != "h8.example") {
			t.Errorf("chain %s: same %v", name, now == before.chain(name))
		}
	}
	if after.servers[0].conns != before.servers[0].conns || after.servers[0].wire != before.servers[0].wire {
		t.Error("the server was made anew")
	}
}

func TestAnUpstreamThatComesBackIsUsed(t *testing.T) {
	b := newBackend(t, "v1")
	e := newTestEngine(t, Settings{})
	without := one(model.KindProxy)
	c := withUpstream(without, b.address)
	e.Apply(c)
	if r, _ := get(t, dial(t, e), "/"); r.StatusCode != 200 {
		t.Fatalf("status %d", r.StatusCode)
	}
	if o := e.Apply(without); len(o.Problems) != 1 || !strings.Contains(o.Problems[0].Message, `there is no upstream "u"`) {
		t.Errorf("problems %v", o.Problems)
	}
	if r, _ := get(t, dial(t, e), "/"); r.StatusCode != 500 {
		t.Errorf("without its upstream: status %d", r.StatusCode)
	}
	if o := e.Apply(c); len(o.Problems) != 0 {
		t.Errorf("problems %v", o.Problems)
	}
	if r, _ := get(t, dial(t, e), "/"); r.StatusCode != 200 {
		t.Errorf("with it again: status %d", r.StatusCode)
	}
}

func TestProblemsStayUntilTheyAreMended(t *testing.T) {
	e := newTestEngine(t, Settings{})
	c := hosts(3, "127.0.0.1:1")
	broken := ruleFor("h1.example", "/")
	broken.Paths[0].IPFilter = &model.IPFilter{AllowIPs: []string{"nonsense"}}
	broken.Paths[0].SetHeaders = map[string]string{"Connection": "close"}
	list := func(o model.Outcome) (all []string) {
		for _, p := range o.Problems {
			all = append(all, p.Origin.String())
		}
		return all
	}
	want := []string{
		"Route test/h1.example spec.rules[0].http.paths[0].ipFilter.allowIPs[0]",
		"Route test/h1.example spec.rules[0].http.paths[0].setHeaders.Connection",
	}
	c = with(c, broken)
	if diff := cmp.Diff(want, list(e.Apply(c))); diff != "" {
		t.Error(diff)
	}
	c = with(c, ruleFor("h2.example", "/x"))
	if diff := cmp.Diff(want, list(e.Apply(c))); diff != "" {
		t.Errorf("after an unrelated change: %s", diff)
	}
	c = with(c, ruleFor("h1.example", "/"))
	if left := list(e.Apply(c)); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// closer is a filter that notes that it was closed.
type closer struct{ closed *atomic.Int64 }

func (closer) Handle(*filter.Exchange) filter.Result { return filter.Next }
func (c closer) Close()                              { c.closed.Add(1) }

func TestAFilterIsClosedWhenNothingUsesIt(t *testing.T) {
	var closed atomic.Int64
	e := newTestEngine(t, Settings{Filters: []filter.Kind{{
		Name: "Closer", Decode: func([]byte) (any, error) { return nil, nil },
		New: func(any, filter.Env) (filter.Filter, error) { return closer{&closed}, nil },
	}}})
	e.Apply(one("Closer"))
	held := e.Snapshot()
	e.Apply(&model.Config{})
	runtime.GC()
	if held.chain("p") == nil || closed.Load() != 0 {
		t.Fatal("closed while a snapshot has it")
	}
	runtime.KeepAlive(held)
	held = nil
	testkit.Eventually(t, 5*time.Second, "the filter is closed", func() bool { runtime.GC(); return closed.Load() == 1 })
}

// series lists the label values of a metric family.
func series(t *testing.T, m *telemetry.Metrics, family, label string) (values []string) {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if l.GetName() == label {
					values = append(values, l.GetValue())
				}
			}
		}
	}
	return values
}

func TestOriginCountersLiveAsLongAsTheirOrigin(t *testing.T) {
	b := newBackend(t, "v1")
	m := telemetry.New()
	e := newTestEngine(t, Settings{Metrics: m})
	c := hosts(3, b.address)
	e.Apply(c)
	request := func(host string) {
		conn := dial(t, e)
		defer conn.Close()
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
		for buffer := make([]byte, 4096); ; {
			if _, err := conn.Read(buffer); err != nil {
				return
			}
		}
	}
	have := func() []string { return series(t, m, "sluice_origin_requests_total", "origin") }
	if got := have(); len(got) != 0 {
		t.Errorf("before any traffic: %v", got)
	}
	request("h1.example")
	request("h1.example")
	request("unknown.example")
	origin := "Route test/h1.example spec.rules[0].http.paths[0]"
	if diff := cmp.Diff([]string{origin}, have()); diff != "" {
		t.Error(diff)
	}
	// A changed rule of the same origin keeps its counters.
	c = with(c, ruleFor("h1.example", "/x"))
	e.Apply(c)
	if diff := cmp.Diff([]string{origin}, have()); diff != "" {
		t.Errorf("after a change of the rule: %s", diff)
	}
	next := *c
	rs := *c.RuleSets["rules"]
	rs.Hosts = rs.Hosts.Without("h1.example")
	next.RuleSets = map[string]*model.RuleSet{"rules": &rs}
	e.Apply(&next)
	if got := have(); len(got) != 0 {
		t.Errorf("after the rule is gone: %v", got)
	}
}
