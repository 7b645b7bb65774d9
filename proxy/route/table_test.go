package route

import (
	"strings"
	"testing"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/message"
)

// backend is the Target of the tests: the name of the pipeline.
func backend(_ *model.Rule, p *model.Path) string { return p.Backend }

func hosts(rules map[string]*model.Rule) persist.Map[*model.Rule] {
	e := persist.Map[*model.Rule]{}.Edit()
	for host, rule := range rules {
		e.Set(host, rule)
	}
	return e.Map()
}

func compiled(t testing.TB, rs *model.RuleSet) *Table[string] {
	t.Helper()
	table, problems := Compile(rs, nil, backend)
	for _, p := range problems {
		t.Errorf("problem %s", p)
	}
	return table
}

// get looks a request up that is written as METHOD host/path?query, with header fields after it.
func get(table *Table[string], request string, fields ...string) Found[string] {
	r := parseRequest(request, fields...)
	return table.Lookup(&r)
}

func parseRequest(request string, fields ...string) Request {
	method, target, _ := strings.Cut(request, " ")
	target, query, _ := strings.Cut(target, "?")
	host, path, _ := strings.Cut(target, "/")
	var h message.Header
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		h.Add(name, value)
	}
	return Request{Method: method, Host: host, Path: "/" + path, RawQuery: query, Header: &h}
}

// answer is the backend, or the reason.
func answer(f Found[string]) string {
	switch {
	case f.Reason == message.MethodNotAllowed:
		return f.Reason.String() + " " + f.Allow
	case f.Reason != message.OK:
		return f.Reason.String()
	}
	return f.Entry.Target
}

type lookupCase struct {
	request string
	fields  string // with | between
	want    string
}

func lookups(t *testing.T, table *Table[string], cases []lookupCase) {
	t.Helper()
	for _, c := range cases {
		var fields []string
		if c.fields != "" {
			fields = strings.Split(c.fields, "|")
		}
		if got := answer(get(table, c.request, fields...)); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.request, c.fields, got, c.want)
		}
	}
}

func TestHostPrecedence(t *testing.T) {
	rule := func(name string) *model.Rule {
		return &model.Rule{Paths: []*model.Path{{ElementPrefix: "/" + name, Backend: name}, {ElementPrefix: "/all", Backend: name}}}
	}
	table := compiled(t, &model.RuleSet{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{
		"foo.com": rule("exact"), "*.foo.com": rule("wild"), "bar.foo.com": rule("below"), "*.bar.foo.com": rule("deep"), "": rule("none"),
	})})
	lookups(t, table, []lookupCase{
		{"GET foo.com/all", "", "exact"},
		{"GET x.foo.com/all", "", "wild"},
		{"GET bar.foo.com/all", "", "below"},
		{"GET x.bar.foo.com/all", "", "deep"},
		{"GET x.y.foo.com/all", "", "none"},
		{"GET .foo.com/all", "", "none"},
		{"GET 10.0.0.1/all", "", "none"},
		{"GET /all", "", "none"},
		{"GET com/all", "", "none"},
		// The chosen host keeps the request.
		{"GET bar.foo.com/wild", "", "route_not_found"},
		{"GET x.foo.com/none", "", "route_not_found"},
		{"GET foo.com/none", "", "route_not_found"},
	})
	table = compiled(t, &model.RuleSet{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{"foo.com": rule("exact")})})
	lookups(t, table, []lookupCase{{"GET bar.com/all", "", "host_not_found"}, {"GET /all", "", "host_not_found"}})
}

func TestCase_A09_FinalDot(t *testing.T) {
	table := compiled(t, &model.RuleSet{Kind: model.Ordered, Rules: []*model.Rule{
		{Host: "shop.test.", Paths: []*model.Path{{Backend: "shop"}}}, {Host: "*.w.test.", Paths: []*model.Path{{Backend: "wild"}}},
	}})
	lookups(t, table, []lookupCase{{"GET shop.test/", "", "shop"}, {"GET a.w.test/", "", "wild"}})
}

func TestE2_PathMeanings(t *testing.T) {
	for _, kind := range []model.RouterKind{model.Ordered, model.HostFirst, model.RadixTree} {
		t.Run(string(kind), func(t *testing.T) { testPathMeanings(t, kind) })
	}
}

func testPathMeanings(t *testing.T, kind model.RouterKind) {
	for _, c := range []struct {
		path     model.Path
		yes, not string
	}{
		{model.Path{ElementPrefix: "/aaa/bbb/"}, "/aaa/bbb /aaa/bbb/ /aaa/bbb/ccc /aaa/bbb//", "/aaa/bbbc /aaa /aaa/bb /AAA/bbb / /aaa/bbb%2F"},
		{model.Path{ElementPrefix: "/aaa"}, "/aaa /aaa/ /aaa/x", "/aaaccc / /aa"},
		{model.Path{ElementPrefix: "/"}, "/ /a //", ""},
		{model.Path{ElementPrefix: "/api"}, "/api /api/x", "/apix /api%2Fx"},
		{model.Path{ElementPrefix: "/a//"}, "/a/ /a// /a//b", "/a /a/b"},
		{model.Path{Prefix: "/foo"}, "/foo /foobar /foo/bar", "/fo /f /Foo"},
		{model.Path{Prefix: "/foo/"}, "/foo/ /foo/bar", "/foo /foobar"},
		{model.Path{Prefix: "/"}, "/ /x //", ""},
		{model.Path{Prefix: "/."}, "/.well-known /..x", "/ /x"},
		{model.Path{Exact: "/foo"}, "/foo", "/foo/ /FOO /fo /foo/bar / /foo%2F"},
		{model.Path{Exact: "/a/../b"}, "/b", "/a"},
		{model.Path{Exact: "/café/a b"}, "/caf%C3%A9/a%20b", "/caf"},
		{model.Path{Exact: "/%7euser"}, "/~user", "/%7Euser"},
		{model.Path{Regexp: "^/a+$"}, "/a /aaa", "/ab /"},
		{model.Path{Regexp: "a.b"}, "/x/a-b/y /aab", "/ab"},
		{model.Path{Regexp: "^/(?i:foo)/[0-9]+"}, "/FOO/1 /foo/23x", "/foo/"},
		{model.Path{Regexp: "^/café/(é+)$"}, "/caf%C3%A9/%C3%A9 /caf%C3%A9/%C3%A9%C3%A9", "/caf%C3%A9/ /caf%C3%A9/%C3"},
		{model.Path{Regexp: `^/a b\|c%2fd%[0-9A-F]{2}$`}, "/a%20b%7Cc%2Fd%AB", "/ab"},
		{model.Path{}, "/ /x", ""},
	} {
		path := c.path
		path.Backend = "yes"
		rule := &model.Rule{Paths: []*model.Path{&path}}
		table := compiled(t, &model.RuleSet{Kind: kind, Rules: []*model.Rule{rule}, Hosts: hosts(map[string]*model.Rule{"": rule})})
		for _, p := range strings.Fields(c.yes) {
			if got := answer(get(table, "GET h"+p)); got != "yes" {
				t.Errorf("%+v on %s: %s", c.path, p, got)
			}
		}
		for _, p := range strings.Fields(c.not) {
			if got := answer(get(table, "GET h"+p)); got != "route_not_found" {
				t.Errorf("%+v on %s: %s", c.path, p, got)
			}
		}
	}
}

func TestOrderedFallsThroughHosts(t *testing.T) {
	table := compiled(t, &model.RuleSet{Kind: model.Ordered, Rules: []*model.Rule{
		{Host: "a.com", Paths: []*model.Path{{Exact: "/one", Backend: "1"}}},
		{Host: "*.com", Paths: []*model.Path{{Prefix: "/one", Backend: "2"}}},
		{Host: "a.*", Paths: []*model.Path{{Prefix: "/two", Backend: "3"}}},
		{HostRegexp: `^[^.]+\.NET$`, Hosts: []model.Host{{Value: "x.org"}, {IsRegexp: true, Value: "^b"}}, Paths: []*model.Path{{Backend: "4"}}},
		nil,
		{Paths: []*model.Path{{Prefix: "/o", Backend: "5"}, nil, {Prefix: "/one", Backend: "never"}}},
		{Host: "a.com", Paths: []*model.Path{{Backend: "6"}}},
		{Host: "*", Paths: []*model.Path{{Exact: "/star", Backend: "7"}}},
	}})
	lookups(t, table, []lookupCase{
		{"GET a.com/one", "", "1"},
		{"GET a.com/onetwo", "", "2"},
		{"GET b.a.com/one", "", "2"},
		{"GET a.de/two", "", "3"},
		{"GET a.net/one", "", "4"},
		{"GET x.org/", "", "4"},
		{"GET bbb/", "", "4"},
		{"GET y.x.net/one", "", "5"},
		{"GET a.com/other", "", "5"},
		{"GET a.com/x", "", "6"},
		{"GET z/star", "", "7"},
		{"GET z/", "", "route_not_found"},
	})
	table = compiled(t, &model.RuleSet{Rules: []*model.Rule{{Host: "a.com", Paths: []*model.Path{{Backend: "1"}}}}})
	lookups(t, table, []lookupCase{{"GET b.com/", "", "host_not_found"}, {"GET /", "", "host_not_found"}})
}

func TestMethodsHeadersQueries(t *testing.T) {
	match := func(key string, values ...string) model.Match { return model.Match{Key: key, Values: values} }
	table := compiled(t, &model.RuleSet{Rules: []*model.Rule{{Paths: []*model.Path{
		{Exact: "/m", Methods: []string{"PUT", "DELETE"}, Backend: "put"},
		{Exact: "/m", Methods: []string{"POST"}, Headers: []model.Match{match("X-A", "1")}, Backend: "post"},
		{Exact: "/g", Methods: []string{"GET"}, Backend: "get"},
		{Prefix: "/h", Headers: []model.Match{match("X-Env", "test", "dev"), {Key: "User-Agent", Regexp: "curl"}}, Backend: "any"},
		{Prefix: "/a", MatchAllHdr: true, Headers: []model.Match{match("X-Env", "test"), {Key: "user-agent", Regexp: "curl"}}, Backend: "all"},
		{Exact: "/q", Queries: []model.Match{match("k", "a b", "ü"), {Key: "r", Regexp: "^é$"}}, Backend: "query"},
		{Exact: "/qa", MatchAllQuery: true, Queries: []model.Match{match("k", "1"), match("l", "")}, Backend: "both"},
		{Exact: "/host", Headers: []model.Match{match("host", "h")}, Backend: "host"},
	}}}})
	lookups(t, table, []lookupCase{
		{"PUT h/m", "", "put"},
		{"DELETE h/m", "", "put"},
		{"POST h/m", "X-A: 1", "post"},
		{"POST h/m", "X-A: 2", "route_not_found"}, // the path has the method
		{"GET h/m", "", "method_not_allowed DELETE, POST, PUT"},
		{"put h/m", "", "method_not_allowed DELETE, POST, PUT"},
		{"HEAD h/g", "", "method_not_allowed GET"},
		{"POST h/g", "X-HTTP-Method-Override: GET", "method_not_allowed GET"},
		{"GET h/h", "x-env: dev", "any"},
		{"GET h/h", "User-Agent: curl/8", "any"},
		{"GET h/h", "X-Env: prod", "route_not_found"},
		{"GET h/h", "", "route_not_found"},
		{"GET h/h", "X-Env: prod|X-ENV: test", "any"},
		{"GET h/a", "X-Env: test|User-Agent: curl", "all"},
		{"GET h/a", "X-Env: test", "route_not_found"},
		{"GET h/a", "User-Agent: curl", "route_not_found"},
		{"GET h/q?k=a+b", "", "query"},
		{"GET h/q?k=a%20b", "", "query"},
		{"GET h/q?x=1&k=%c3%BC&y", "", "query"},
		{"GET h/q?%6b=a b", "", "query"},
		{"GET h/q?k=a", "", "route_not_found"},
		{"GET h/q?k=a+bc", "", "route_not_found"},
		{"GET h/q?kk=a+b", "", "route_not_found"},
		{"GET h/q?r=%C3%A9", "", "query"},
		{"GET h/q?k=no&k=a+b", "", "query"},
		{"GET h/q", "", "route_not_found"},
		{"GET h/q?k=a%2", "", "route_not_found"},
		{"GET h/qa?k=1", "", "both"},
		{"GET h/qa?k=1&l", "", "both"},
		{"GET h/qa?k=1&l=", "", "both"},
		{"GET h/qa?k=1&l=2", "", "route_not_found"},
		{"GET h/host", "", "host"},
		{"GET other/host", "", "route_not_found"},
	})
}

func TestFallback(t *testing.T) {
	fallback := &model.Path{Backend: "fallback", Exact: "/never"}
	rule := &model.Rule{Paths: []*model.Path{
		{Exact: "/m", Methods: []string{"PUT"}, Backend: "put"}, {Exact: "/h", Headers: []model.Match{{Key: "X", Values: []string{"1"}}}, Backend: "h"},
	}}
	for _, rs := range []*model.RuleSet{
		{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{"a": rule}), Fallback: fallback},
		{Kind: model.Ordered, Rules: []*model.Rule{{Host: "a", Paths: rule.Paths}}, Fallback: fallback},
		{Kind: model.RadixTree, Rules: []*model.Rule{{Host: "a", Paths: rule.Paths}}, Fallback: fallback},
	} {
		table := compiled(t, rs)
		lookups(t, table, []lookupCase{
			{"PUT a/m", "", "put"}, {"GET a/m", "", "method_not_allowed PUT"}, {"GET a/h", "", "fallback"}, {"GET a/other", "", "fallback"}, {"GET b/", "", "fallback"},
		})
		f := get(table, "GET b/x")
		if f.Entry.Rule != nil || f.Entry.Path != fallback {
			t.Errorf("%s: fallback entry %+v", rs.Kind, f.Entry)
		}
		if p, ok := f.Entry.Rewrite("/x"); p != "/x" || !ok {
			t.Errorf("%s: fallback rewrites to %q %v", rs.Kind, p, ok)
		}
	}
}

func TestRadixTreePrefersTheSpecific(t *testing.T) {
	paths := func(patterns ...string) []*model.Path {
		var all []*model.Path
		for _, p := range patterns {
			all = append(all, &model.Path{Exact: p, Backend: p})
		}
		return all
	}
	table := compiled(t, &model.RuleSet{Kind: model.RadixTree, Rules: []*model.Rule{
		{Host: "h", Paths: append(paths("/*", "/users/*", "/users/{id}", `/users/{n:[0-9]+}`, "/users/me", "/users/{id}/posts/{post}", "/users/{id}/posts/new", "/{a}/{b}/{c}/{d}",
			`/date/{y:\d{4}}-{m:\d\d}`, "/files/{name}.json", "/files/{name}", "/files/{x:[a-z]+}", "/api*", "/café/{x:[0-9]{2}}"),
			&model.Path{Prefix: "/pre", Backend: "prefix"}, &model.Path{ElementPrefix: "/el/em", Backend: "element"}, &model.Path{Exact: "/el/em", Backend: "exact"})},
		{Paths: paths("/users/me", "/second/{x}")},
	}})
	lookups(t, table, []lookupCase{
		{"GET h/users/me", "", "/users/me"},
		{"GET h/users/12", "", "/users/{n:[0-9]+}"},
		{"GET h/users/x", "", "/users/{id}"},
		{"GET h/users/x/y", "", "/users/*"},
		{"GET h/users/", "", "/users/*"},
		{"GET h/users", "", "/*"},
		{"GET h/users/me/posts/new", "", "/users/{id}/posts/new"},
		{"GET h/users/me/posts/1", "", "/users/{id}/posts/{post}"},
		{"GET h/users/1/posts/", "", "/users/*"},
		{"GET h/w/x/y/z", "", "/{a}/{b}/{c}/{d}"},
		{"GET h/date/2024-05", "", `/date/{y:\d{4}}-{m:\d\d}`},
		{"GET h/date/202-05", "", "/*"},
		{"GET h/files/a.json", "", "/files/{name}.json"},
		{"GET h/files/abc", "", "/files/{x:[a-z]+}"},
		{"GET h/files/A", "", "/files/{name}"},
		{"GET h/files/.json", "", "/files/{name}"},
		{"GET h/api", "", "/api*"},
		{"GET h/apix/y", "", "/api*"},
		{"GET h/ap", "", "/*"},
		{"GET h/caf%C3%A9/12", "", "/café/{x:[0-9]{2}}"},
		{"GET h/", "", "/*"},
		{"GET h/prefix/x", "", "prefix"},
		{"GET h/el/em/x", "", "element"},
		{"GET h/el/em", "", "exact"},
		{"GET h/el/emx", "", "/*"},
		// The first rule has everything, so the second is reached from other hosts only.
		{"GET h/second/x", "", "/*"},
		{"GET i/second/x", "", "/second/{x}"},
		{"GET i/users/me", "", "/users/me"},
		{"GET i/users/1", "", "route_not_found"},
	})
}
