package route

import (
	"strings"
	"testing"

	"sluice.dev/sluice/model"
)

func TestProblems(t *testing.T) {
	bomb := strings.Repeat("(.{1,900})", 100)
	match := func(key, regexp string) []model.Match {
		return []model.Match{{Key: "ok", Values: []string{"1"}}, {Key: key, Regexp: regexp}}
	}
	for _, c := range []struct {
		kind    model.RouterKind
		path    model.Path
		field   string
		message string
	}{
		{model.Ordered, model.Path{Regexp: "a("}, "pathRegexp", "missing closing )"},
		{model.Ordered, model.Path{Regexp: bomb}, "pathRegexp", "instructions"},
		{model.Ordered, model.Path{Regexp: "((a{100}){100}){100}"}, "pathRegexp", "invalid repeat count"},
		{model.Ordered, model.Path{Regexp: strings.Repeat("a", 5000)}, "pathRegexp", "5000 bytes"},
		{model.Ordered, model.Path{Regexp: `(?=x)`}, "pathRegexp", "RE2"},
		{model.Ordered, model.Path{Exact: "a"}, "path", "slash"},
		{model.Ordered, model.Path{Prefix: "a"}, "pathPrefix", "slash"},
		{model.Ordered, model.Path{ElementPrefix: "/a%00"}, "pathElementPrefix", "NUL"},
		{model.Ordered, model.Path{Exact: "/a", Prefix: "/b"}, "pathPrefix", "beside another"},
		{model.Ordered, model.Path{Headers: match("X", "[")}, "headers[1].regexp", "missing closing ]"},
		{model.Ordered, model.Path{Queries: match("X", bomb)}, "queries[1].regexp", "instructions"},
		{model.Ordered, model.Path{Queries: match("", "x")}, "queries[1].key", "no key"},
		{model.Ordered, model.Path{Headers: match("X", "")}, "headers[1]", "neither values nor regexp"},
		{model.Ordered, model.Path{Exact: "/a", RewriteTarget: "/b?x"}, "rewriteTarget", "query"},
		{model.Ordered, model.Path{Exact: "/a", RewriteTarget: "b"}, "rewriteTarget", "slash"},
		{model.Ordered, model.Path{Prefix: "/a", RewriteTarget: "b"}, "rewriteTarget", "slash"},
		{model.Ordered, model.Path{Regexp: "/(a)", RewriteTarget: "/$1b"}, "rewriteTarget", "${1}"},
		{model.Ordered, model.Path{Regexp: "/(a)", RewriteTarget: "/$2"}, "rewriteTarget", `"2"`},
		{model.Ordered, model.Path{Regexp: "/(a)", RewriteTarget: "/${1"}, "rewriteTarget", "${ without }"},
		{model.Ordered, model.Path{Regexp: "/(a)", RewriteTarget: "b$1"}, "rewriteTarget", "slash"},
		{model.RadixTree, model.Path{Exact: "/{a"}, "path", "pair"},
		{model.RadixTree, model.Path{Exact: "/a}"}, "path", "pair"},
		{model.RadixTree, model.Path{Exact: "/}{"}, "path", "pair"},
		{model.RadixTree, model.Path{Exact: "/{}"}, "path", "name"},
		{model.RadixTree, model.Path{Exact: "/{a b}"}, "path", "name"},
		{model.RadixTree, model.Path{Exact: "/{a}/{a}"}, "path", "twice"},
		{model.RadixTree, model.Path{Exact: "/{EG_WILDCARD}"}, "path", "EG_WILDCARD"},
		{model.RadixTree, model.Path{Exact: "/{a:[}"}, "path", "RE2"},
		{model.RadixTree, model.Path{Exact: "/*/a"}, "path", "at its end"},
		{model.RadixTree, model.Path{Exact: "/a*b"}, "path", "at its end"},
		{model.RadixTree, model.Path{Exact: "/{a}*"}, "path", "beside a parameter"},
		{model.RadixTree, model.Path{Exact: "/*{a}"}, "path", "beside a parameter"},
		{model.RadixTree, model.Path{Exact: "/../{a}"}, "path", "dot segment"},
		{model.RadixTree, model.Path{Exact: "{a}"}, "path", "slash"},
		{model.RadixTree, model.Path{Exact: "/{a}", RewriteTarget: "/{b}"}, "rewriteTarget", "{b}"},
		{model.RadixTree, model.Path{Exact: "/{a}", RewriteTarget: "{a}"}, "rewriteTarget", "slash"},
		{model.RadixTree, model.Path{Exact: "/{a}", RewriteTarget: "/{EG_WILDCARD}"}, "rewriteTarget", "{EG_WILDCARD}"},
	} {
		path := c.path
		good := &model.Path{Exact: "/good", Backend: "good"}
		rs := &model.RuleSet{Kind: c.kind, Rules: []*model.Rule{{}, {Paths: []*model.Path{good, &path}}}}
		table, problems := Compile(rs, nil, backend)
		if len(problems) != 1 {
			t.Errorf("%+v: problems %v", c.path, problems)
			continue
		}
		p := problems[0]
		if want := "rules[1].paths[1]." + c.field; p.Origin.Field != want || !strings.Contains(p.Message, c.message) || p.Severity != model.Error || p.Reason == "" {
			t.Errorf("%.60v: got %s, want %s … %s", c.path, p, want, c.message)
		}
		if len(p.Message) > 300 {
			t.Errorf("a message of %d bytes", len(p.Message))
		}
		if got := answer(get(table, "GET h/good")); got != "good" {
			t.Errorf("%.60v: its sibling answers %s", c.path, got)
		}
	}
}

func TestBadHosts(t *testing.T) {
	ok := []*model.Path{{Backend: "ok"}}
	rs := &model.RuleSet{Rules: []*model.Rule{
		{Host: "a:80", Paths: ok}, {HostRegexp: "(", Paths: ok}, {Hosts: []model.Host{{Value: "good"}, {Value: "a*b"}, {Value: "a)|(b", IsRegexp: true}}, Paths: ok},
	}}
	table, problems := Compile(rs, nil, backend)
	var fields []string
	for _, p := range problems {
		fields = append(fields, p.Origin.Field)
	}
	if got := strings.Join(fields, " "); got != "rules[0].host rules[1].hostRegexp rules[2].hosts[1].value rules[2].hosts[2].value" {
		t.Errorf("problems at %s", got)
	}
	lookups(t, table, []lookupCase{{"GET good/", "", "ok"}, {"GET a/", "", "host_not_found"}, {"GET b/", "", "host_not_found"}})

	key := model.Key{Kind: "HTTPServer", Name: "s"}
	bad := func(field string) *model.Rule {
		return &model.Rule{Paths: ok, Origin: model.Origin{Key: key, Field: field}}
	}
	first := &model.RuleSet{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{
		"a": bad("rules[0]"), "*": bad("rules[1]"), "Foo": bad("rules[2]"), "b:1": bad("rules[3]"), "a.*": bad("rules[4]"), "*x.y": bad("rules[5]"), "": bad("rules[6]"),
	})}
	_, problems = Compile(first, nil, backend)
	fields = nil
	for _, p := range problems {
		fields = append(fields, p.Origin.Field)
	}
	if got := strings.Join(fields, " "); got != "rules[1].host rules[5].host rules[2].host rules[4].host rules[3].host" {
		t.Errorf("problems at %s: %v", got, problems)
	}
	second := *first
	second.Hosts = first.Hosts.Without("*").Without("Foo").Without("b:1").Without("a.*").Without("*x.y")
	table, _ = Compile(first, nil, backend)
	if table, problems = Compile(&second, table, backend); len(problems) != 0 {
		t.Errorf("problems of rules that are gone: %v", problems)
	}
	lookups(t, table, []lookupCase{{"GET a/", "", "ok"}, {"GET foo/", "", "ok"}})
}

func TestG10_BrokenPathAnswers500(t *testing.T) {
	paths := []*model.Path{
		{Regexp: "^/v[0-9", Backend: "broken"},
		{Exact: "/h", Headers: []model.Match{{Key: "X", Regexp: "("}}, Backend: "broken"},
		{Exact: "/h2", Headers: []model.Match{{Key: "X", Regexp: "("}}, Backend: "broken"},
		{Exact: "/r", RewriteTarget: "b", Methods: []string{"GET"}, Backend: "broken"},
		{Exact: "/h2", Backend: "good"},
		{Exact: "/v1", Backend: "good"},
		{Exact: "/p", Methods: []string{"PUT"}, Backend: "put"},
	}
	for _, rs := range []*model.RuleSet{
		{Kind: model.Ordered, Rules: []*model.Rule{{Paths: paths}}},
		{Kind: model.RadixTree, Rules: []*model.Rule{{Paths: paths}}},
		{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{"": {Paths: paths}})},
	} {
		rs.Fallback = &model.Path{Backend: "fallback"}
		table, problems := Compile(rs, nil, backend)
		if len(problems) != 4 {
			t.Errorf("%s: problems %v", rs.Kind, problems)
		}
		lookups(t, table, []lookupCase{
			{"GET h/v2", "", "filter_broken"},
			{"GET h/v1", "", "good"},
			{"GET h/h", "", "filter_broken"},
			{"GET h/h2", "", "good"},
			{"GET h/r", "", "filter_broken"},
			{"POST h/r", "", "fallback"},
			{"GET h/other", "", "fallback"},
			{"GET h/p", "", "method_not_allowed PUT"},
		})
		if f := get(table, "GET h/r"); f.Entry == nil || f.Entry.Path != paths[3] {
			t.Errorf("%s: the broken entry is not told: %+v", rs.Kind, f)
		}
		steps := table.Explain(&Request{Method: "GET", Host: "h", Path: "/r"})
		if last := steps[len(steps)-1]; last.OK || !strings.Contains(last.Text, "cannot be used") || last.Mend == "" {
			t.Errorf("%s: explained %+v", rs.Kind, last)
		}
	}
}

func TestProblemsNameTheirOrigin(t *testing.T) {
	key := model.Key{Kind: "HTTPServer", Namespace: "n", Name: "i"}
	for _, c := range []struct {
		rule, path model.Origin
		want       string
	}{
		{model.Origin{}, model.Origin{Key: key, Field: "rules[3].paths[1]"}, "HTTPServer n/i rules[3].paths[1].pathRegexp"},
		{model.Origin{Key: key, Field: "rules[7]"}, model.Origin{}, "HTTPServer n/i rules[7].paths[0].pathRegexp"},
		{model.Origin{Key: key}, model.Origin{}, "HTTPServer n/i rules[0].paths[0].pathRegexp"},
	} {
		rule := &model.Rule{Origin: c.rule, Paths: []*model.Path{{Regexp: "(", Origin: c.path}}}
		_, problems := Compile(&model.RuleSet{Rules: []*model.Rule{rule}}, nil, backend)
		if got := problems[0].Origin.String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
