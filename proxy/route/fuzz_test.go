package route

import (
	"strings"
	"testing"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
)

// FuzzLookup compiles arbitrary paths and hosts, which must not panic, and compares the index of each table with asking every
// entry in turn.
func FuzzLookup(f *testing.F) {
	f.Add("/a/{x}/*", "^/a/é(b|c)*$", "*.com", "/a/b/c", "x.com")
	f.Add("/%2e%2e/{y:[0-9]{2}}", "a{2,1}", "a.*", "/12", "a.b")
	f.Add("/{a}.{b}", "(?i)^/A", "^[^.]+$", "/x.y", "x")
	f.Add("/", "", "", "/", "")
	f.Fuzz(func(t *testing.T, pattern, expression, host, rawPath, rawHost string) {
		rule := &model.Rule{Host: host, HostRegexp: host, Paths: []*model.Path{
			{Exact: pattern, Methods: []string{"POST"}},
			{Exact: pattern, RewriteTarget: pattern},
			{Regexp: expression, RewriteTarget: expression},
			{ElementPrefix: pattern},
			{Prefix: pattern, Queries: []model.Match{{Key: pattern, Regexp: expression}}},
			{Prefix: expression},
			{Exact: rawPath},
			{ElementPrefix: rawPath},
			{Exact: rawPath + "/x"},
			{Prefix: rawPath},
		}}
		r := &Request{Method: "GET"}
		var ok bool
		if r.Path, ok = canon.Path(rawPath); !ok {
			r.Path = "/"
		}
		if r.Host, ok = canon.Host(rawHost); !ok {
			r.Host = ""
		}
		r.RawQuery = strings.TrimPrefix(rawPath, "/")
		for _, kind := range []model.RouterKind{model.Ordered, model.RadixTree, model.HostFirst} {
			rs := &model.RuleSet{Kind: kind, Rules: []*model.Rule{rule}, Hosts: hosts(map[string]*model.Rule{host: rule})}
			table, _ := Compile(rs, nil, backend)
			found := table.Lookup(r)
			table.Explain(r)
			checkIndex(t, table, r, found)
		}
	})
}

// checkIndex compares what the table found with the first entry that accepts the request.
func checkIndex(t *testing.T, table *Table[string], r *Request, found Found[string]) {
	t.Helper()
	var s search
	entries, known := table.search(&search{r: r})
	if !known {
		return
	}
	s.r = r
	for i := range entries {
		m := entries[i].m
		if m.broken || !m.matchesPath(r.Path) || !s.accepts(m) {
			continue
		}
		if found.Entry != &entries[i] {
			t.Fatalf("%+v: found %s, want %+v", r, describeFound(found), entries[i].Path)
		}
		return
	}
	if found.Entry != nil && !found.Entry.m.broken {
		t.Fatalf("%+v: found %s, want none", r, describeFound(found))
	}
}
