package route

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/message"
)

func hostName(i int) string {
	return "app-" + strconv.Itoa(i) + ".team-" + strconv.Itoa(i%50) + ".example.com"
}

func manyHosts(n int) *model.RuleSet {
	e := persist.Map[*model.Rule]{}.Edit()
	for i := range n {
		e.Set(hostName(i), &model.Rule{Paths: []*model.Path{{ElementPrefix: "/api/v1"}, {Exact: "/healthz"}, {ElementPrefix: "/"}}})
	}
	return &model.RuleSet{Kind: model.HostFirst, Hosts: e.Map()}
}

// manyPaths has n paths of one sort in one host; wantPath(i) is matched by path i.
func manyPaths(kind model.RouterKind, sort string, n int) *model.RuleSet {
	rule := &model.Rule{Host: "h"}
	for i := range n {
		p := &model.Path{}
		switch text := pathName(i); sort {
		case "exact":
			p.Exact = text
		case "prefix":
			p.Prefix = text
		case "element":
			p.ElementPrefix = text
		case "regexp":
			p.Regexp = "^" + text + "/[0-9]+$"
		case "pattern":
			p.Exact = "/t/{id}" + text
		}
		rule.Paths = append(rule.Paths, p)
	}
	return &model.RuleSet{Kind: kind, Rules: []*model.Rule{rule}, Hosts: hosts(map[string]*model.Rule{"h": rule})}
}

func pathName(i int) string { return "/team-" + strconv.Itoa(i%10) + "/service-" + strconv.Itoa(i) }

func wantPath(sort string, i int) string {
	switch sort {
	case "prefix", "element":
		return pathName(i) + "/users/1"
	case "regexp":
		return pathName(i) + "/17"
	case "pattern":
		return "/t/me" + pathName(i)
	}
	return pathName(i)
}

var pathSorts = []struct {
	kind model.RouterKind
	sort string
}{
	{model.HostFirst, "exact"},
	{model.HostFirst, "element"},
	{model.HostFirst, "prefix"},
	{model.HostFirst, "regexp"},
	{model.Ordered, "prefix"},
	{model.RadixTree, "pattern"},
	{model.RadixTree, "prefix"},
}

func TestLookupAllocatesNothing(t *testing.T) {
	var header message.Header
	header.Add("X-Env", "test")
	check := func(name string, table *Table[string], r Request, want message.Reason) {
		t.Helper()
		if got := table.Lookup(&r); got.Reason != want {
			t.Errorf("%s: %s", name, got.Reason)
		}
		if n := testing.AllocsPerRun(100, func() { table.Lookup(&r) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	table := compiled(t, manyHosts(1000))
	check("host", table, Request{Method: "GET", Host: hostName(7), Path: "/api/v1/x"}, message.OK)
	check("no host", table, Request{Method: "GET", Host: "other.example.com", Path: "/"}, message.HostNotFound)
	for _, s := range pathSorts {
		check(string(s.kind)+" "+s.sort, compiled(t, manyPaths(s.kind, s.sort, 100)), Request{Method: "GET", Host: "h", Path: wantPath(s.sort, 55)}, message.OK)
	}
	table = compiled(t, &model.RuleSet{Rules: []*model.Rule{{Hosts: []model.Host{{Value: "^a", IsRegexp: true}, {Value: "*.b"}, {Value: "b.*"}}, Paths: []*model.Path{
		{Exact: "/m", Methods: []string{"PUT"}},
		{Exact: "/c", Headers: []model.Match{{Key: "x-env", Values: []string{"test"}}}, Queries: []model.Match{{Key: "k", Values: []string{"a b"}, Regexp: "^z"}}},
	}}}})
	check("method", table, Request{Method: "GET", Host: "b.x", Path: "/m"}, message.MethodNotAllowed)
	check("conditions", table, Request{Method: "GET", Host: "a", Path: "/c", RawQuery: "x=1&k=a+b", Header: &header}, message.OK)
	check("query expression", table, Request{Method: "GET", Host: "x.b", Path: "/c", RawQuery: "x=1&k=zz", Header: &header}, message.OK)
	check("no path", table, Request{Method: "GET", Host: "a", Path: "/d", Header: &header}, message.RouteNotFound)
}

// TestEveryPathIsFound looks each of a thousand paths up and sees that it finds its own.
func TestEveryPathIsFound(t *testing.T) {
	for _, s := range pathSorts {
		rs := manyPaths(s.kind, s.sort, 1000)
		table := compiled(t, rs)
		for i, p := range rs.Rules[0].Paths {
			want := p
			if s.sort == "prefix" { // /service-1 begins /service-11 and comes first in the file
				want = nil
			}
			f := table.Lookup(&Request{Method: "GET", Host: "h", Path: wantPath(s.sort, i)})
			if f.Entry == nil || want != nil && f.Entry.Path != want {
				t.Errorf("%s %s: path %d finds %s", s.kind, s.sort, i, describeFound(Found[string]{Reason: f.Reason, Entry: f.Entry}))
			}
		}
	}
}

func BenchmarkLookupHosts(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		benchmarkHosts(b, manyHosts(n), n)
		ordered := &model.RuleSet{Kind: model.Ordered}
		for i := range n {
			ordered.Rules = append(ordered.Rules, &model.Rule{Host: hostName(i), Paths: []*model.Path{{Prefix: "/api"}, {}}})
		}
		benchmarkHosts(b, ordered, n)
	}
}

func benchmarkHosts(b *testing.B, rs *model.RuleSet, n int) {
	b.Run(fmt.Sprintf("%s/%d", rs.Kind, n), func(b *testing.B) {
		table := compiled(b, rs)
		r := rand.New(rand.NewPCG(1, 2))
		requests := make([]Request, 4096)
		for i := range requests {
			requests[i] = Request{Method: "GET", Host: hostName(r.IntN(n)), Path: "/api/v1/users/" + strconv.Itoa(i)}
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if table.Lookup(&requests[i%len(requests)]).Reason != message.OK {
				b.Fatal("not found")
			}
		}
	})
}

func BenchmarkLookupPaths(b *testing.B) {
	for _, s := range pathSorts {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/%s/%d", s.kind, s.sort, n), func(b *testing.B) {
				table := compiled(b, manyPaths(s.kind, s.sort, n))
				r := rand.New(rand.NewPCG(1, 2))
				requests := make([]Request, 1024)
				for i := range requests {
					requests[i] = Request{Method: "GET", Host: "h", Path: wantPath(s.sort, r.IntN(n))}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if table.Lookup(&requests[i%len(requests)]).Reason != message.OK {
						b.Fatal("not found")
					}
				}
			})
		}
	}
}

// BenchmarkCompileOneOfMany changes one host among many.
func BenchmarkCompileOneOfMany(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			rs := manyHosts(n)
			table := compiled(b, rs)
			for i := 0; b.Loop(); i++ {
				next := *rs
				next.Hosts = rs.Hosts.With(hostName(i%n), &model.Rule{Paths: []*model.Path{{ElementPrefix: "/api/v1"}, {ElementPrefix: "/"}}})
				table, _ = Compile(&next, table, backend)
				rs = &next
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	rs := manyHosts(10_000)
	b.ReportAllocs()
	for b.Loop() {
		Compile(rs, nil, backend)
	}
}
