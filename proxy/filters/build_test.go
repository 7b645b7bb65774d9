package filters

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// noted is a filter whose result is in its spec, and that notes that it ran.
type noted struct {
	name   string
	result filter.Result
	ran    *[]string
	closed *int
}

func (n *noted) Handle(*filter.Exchange) filter.Result {
	*n.ran = append(*n.ran, n.name)
	return n.result
}

func (n *noted) Close() { *n.closed++ }

// notes is a registry with the kinds Note (results odd, even) and Fails, which cannot be built.
func notes(ran *[]string, closed *int) *Registry {
	return NewRegistry(append(Builtin(), filter.Kind{
		Name: "Note", Results: []string{"odd", "even"},
		Decode: func(raw []byte) (any, error) {
			var spec struct {
				Result int `json:"result"`
			}
			return spec.Result, errors.Join(decode(raw, &spec), nil)
		},
		New: func(spec any, env filter.Env) (filter.Filter, error) {
			return &noted{env.Name, map[string]filter.Result{"odd": 1, "even": 2}[env.Name], ran, closed}, nil
		},
	}, filter.Kind{
		Name:   "Fails",
		Decode: func([]byte) (any, error) { return nil, nil },
		New:    func(any, filter.Env) (filter.Filter, error) { return nil, &FieldError{"rules[2]", "is bad", "mend it"} },
	})...)
}

func note(names ...string) (all []model.Filter) {
	for _, name := range names {
		all = append(all, model.Filter{Name: name, Kind: "Note"})
	}
	return all
}

func TestFlows(t *testing.T) {
	for _, c := range []struct {
		name    string
		filters []model.Filter
		flow    []model.FlowNode
		want    string
	}{
		{"without a flow the filters in order", note("a", "b", "c"), nil, "a b c"},
		{"a flow reorders and repeats", note("a", "b"), []model.FlowNode{{Filter: "b"}, {Filter: "a"}, {Filter: "b"}}, "b a b"},
		{"a flow leaves out", note("a", "b"), []model.FlowNode{{Filter: "b"}}, "b"},
		{"END ends", note("a", "b"), []model.FlowNode{{Filter: "a"}, {Filter: "END"}, {Filter: "b"}}, "a"},
		{"a result without jumpIf ends", note("odd", "b"), nil, "odd"},
		{"jumpIf by filter name", note("odd", "b", "c"), []model.FlowNode{
			{Filter: "odd", JumpIf: map[string]string{"odd": "c"}}, {Filter: "b"}, {Filter: "c"},
		}, "odd c"},
		{"the right result jumps", note("even", "b", "c"), []model.FlowNode{
			{Filter: "even", JumpIf: map[string]string{"odd": "b", "even": "c"}}, {Filter: "b"}, {Filter: "c"},
		}, "even c"},
		{"a jump passes END", note("odd", "b"), []model.FlowNode{
			{Filter: "odd", JumpIf: map[string]string{"odd": "b"}}, {Filter: "END"}, {Filter: "b"},
		}, "odd b"},
		{"a jump to END", note("odd", "b"), []model.FlowNode{
			{Filter: "odd", JumpIf: map[string]string{"odd": "END"}}, {Filter: "b"},
		}, "odd"},
		{"success jumps by the empty result", note("a", "b", "c"), []model.FlowNode{
			{Filter: "a", JumpIf: map[string]string{"": "c"}}, {Filter: "b"}, {Filter: "c"},
		}, "a c"},
		{"jumpIf by alias", note("odd", "b"), []model.FlowNode{
			{Filter: "odd", JumpIf: map[string]string{"odd": "again"}}, {Filter: "b"}, {Filter: "b", Alias: "again"},
		}, "odd b"},
		{"of several steps the nearest behind", note("a", "odd", "c"), []model.FlowNode{
			{Filter: "a"}, {Filter: "odd", JumpIf: map[string]string{"odd": "a"}}, {Filter: "c"}, {Filter: "a"}, {Filter: "c"}, {Filter: "a"},
		}, "a odd a c a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ran []string
			chain, problems := Build(&model.Pipeline{Filters: c.filters, Flow: c.flow}, notes(&ran, new(int)), filter.Env{})
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			chain.Run(exchange())
			if got := strings.Join(ran, " "); got != c.want {
				t.Errorf("ran %s, want %s", got, c.want)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	proxy := model.Filter{Name: "proxy", Kind: "Proxy", Proxy: &model.Proxy{Pools: []*model.Pool{{Service: "u"}}}}
	for _, c := range []struct {
		name    string
		filters []model.Filter
		flow    []model.FlowNode
		want    []string
	}{
		{"unknown kind", []model.Filter{{Name: "a", Kind: "Prozy"}}, nil, []string{`filters[0].kind: no filter kind is named "Prozy"; did you mean "Proxy"?`}},
		{"no kind", []model.Filter{{Name: "a"}}, nil, []string{"filters[0].kind: a filter needs a kind; there are Fails, HTTPSRedirect, Note, Proxy"}},
		{"no name", []model.Filter{{Kind: "Note"}}, nil, []string{"filters[0].name: a filter needs a name"}},
		{"a name twice", note("a", "a"), nil, []string{`filters[1].name: two filters are named "a"; rename one`}},
		{"named END", note("END"), nil, []string{"filters[0].name: END ends a flow and names no filter; choose another name"}},
		{
			"unknown field",
			[]model.Filter{{Name: "r", Kind: "HTTPSRedirect", Raw: []byte(`{"prot":1,"statusCode":308}`)}},
			nil,
			[]string{`filters[0].prot: there is no such field; did you mean "port"?`},
		},
		{
			"bad port",
			[]model.Filter{{Name: "r", Kind: "HTTPSRedirect", Raw: []byte(`{"port":70000}`)}},
			nil,
			[]string{"filters[0].port: 70000 is no port; write the port that clients use for https, 1 to 65535"},
		},
		{
			"bad status",
			[]model.Filter{{Name: "r", Kind: "HTTPSRedirect", Raw: []byte(`{"statusCode":200}`)}},
			nil,
			[]string{"filters[0].statusCode: 200 is no redirect; use 301, 302, 303, 307 or 308"},
		},
		{
			"wrong type",
			[]model.Filter{{Name: "r", Kind: "HTTPSRedirect", Raw: []byte(`{"port":"x"}`)}},
			nil,
			[]string{"filters[0].port: string is no number of type int"},
		},
		{
			"no object",
			[]model.Filter{{Name: "r", Kind: "HTTPSRedirect", Raw: []byte(`[]`)}},
			nil,
			[]string{"filters[0]: an object with fields is wanted here"},
		},
		{
			"unknown filter",
			[]model.Filter{proxy},
			[]model.FlowNode{{Filter: "prxy"}},
			[]string{`flow[0].filter: no filter is named "prxy"; did you mean "proxy"?`},
		},
		{"a step without a filter", []model.Filter{proxy}, []model.FlowNode{{}}, []string{"flow[0].filter: a step names a filter or END"}},
		{
			"backward jump", note("a", "b"),
			[]model.FlowNode{{Filter: "a"}, {Filter: "b", JumpIf: map[string]string{"odd": "a"}}},
			[]string{`flow[1].jumpIf.odd: there is no step "a" further on; a flow jumps forward only: move that step behind this one, or jump to END`},
		},
		{
			"jump to itself", note("a"),
			[]model.FlowNode{{Filter: "a", JumpIf: map[string]string{"": "a"}}},
			[]string{`flow[0].jumpIf: there is no step "a" further on; a flow jumps forward only: move that step behind this one, or jump to END`},
		},
		{
			"unknown result",
			[]model.Filter{proxy},
			[]model.FlowNode{{Filter: "proxy", JumpIf: map[string]string{"serverErr": "END"}}},
			[]string{`flow[0].jumpIf.serverErr: Proxy has no result "serverErr"; did you mean "serverError"?`},
		},
		{
			"unknown target", note("a", "bbbb"),
			[]model.FlowNode{{Filter: "a", JumpIf: map[string]string{"odd": "bbbc"}}, {Filter: "bbbb"}},
			[]string{`flow[0].jumpIf.odd: there is no step "bbbc" further on; did you mean "bbbb"?`},
		},
		{
			"alias twice", note("a", "b"),
			[]model.FlowNode{{Filter: "a", Alias: "x"}, {Filter: "b", Alias: "x"}},
			[]string{`flow[1].alias: flow[0] has the alias "x" too; choose another alias`},
		},
		{
			"alias of a filter's name", note("a", "b"),
			[]model.FlowNode{{Filter: "a", Alias: "b"}},
			[]string{`flow[0].alias: "b" is the name of another filter; choose another alias`},
		},
		{"alias END", note("a"), []model.FlowNode{{Filter: "a", Alias: "END"}}, []string{"flow[0].alias: END ends a flow and is no alias; choose another alias"}},
		{
			"END jumps", note("a"),
			[]model.FlowNode{{Filter: "END", JumpIf: map[string]string{"odd": "a"}}, {Filter: "a"}},
			[]string{"flow[0].jumpIf: END ends the flow and has no result to jump on; remove it"},
		},
		{"a proxy without pools", []model.Filter{{Name: "p", Kind: "Proxy"}}, nil, []string{"filters[0].pools: a Proxy needs a pool; give it one with servers or a service"}},
		{
			"a pool without servers",
			[]model.Filter{{Name: "p", Kind: "Proxy", Proxy: &model.Proxy{Pools: []*model.Pool{{}, {Service: "u", FailureCodes: []int{7}, Timeout: -1}}}}},
			nil,
			[]string{
				"filters[0].pools[1]: a second pool has no filter that sends requests to it; remove it",
				"filters[0].pools[0]: a pool needs servers or a service",
				"filters[0].pools[1].timeout: a timeout is not negative; write it as 30s",
				"filters[0].pools[1].failureCodes[0]: 7 is no status; statuses are 100 to 599",
			},
		},
		{"all at once", []model.Filter{{Name: "a", Kind: "X"}, {Name: "b", Kind: "HTTPSRedirect", Raw: []byte(`{"a":1,"b":2}`)}}, nil, []string{
			`filters[0].kind: no filter kind is named "X"; there are Fails, HTTPSRedirect, Note, Proxy`,
			"filters[1].a: there is no such field; there are port, statusCode",
			"filters[1].b: there is no such field; there are port, statusCode",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &model.Pipeline{Meta: model.Meta{Kind: "Pipeline", Name: "p"}, Filters: c.filters, Flow: c.flow}
			r := notes(new([]string), new(int))
			var got []string
			for _, problem := range r.Check(p) {
				if problem.Reason == "" || problem.Severity != model.Error {
					t.Errorf("%+v", problem)
				}
				got = append(got, strings.TrimPrefix(problem.String(), "Pipeline p "))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			answersBroken(t, p, r)
		})
	}
}

// G7: what cannot be built lets nothing through.
func answersBroken(t *testing.T, p *model.Pipeline, r *Registry) {
	t.Helper()
	chain, problems := Build(p, r, filter.Env{Upstream: func(string) filter.Upstream { return nil }})
	if len(problems) == 0 {
		t.Fatal("built without a problem")
	}
	x := exchange()
	chain.Run(x)
	if x.Response == nil || x.Response.Status != 500 || x.Reason != message.FilterBroken {
		t.Errorf("answered %+v for %s", x.Response, x.Reason)
	}
}

func TestG7_FilterThatCannotBeBuilt(t *testing.T) {
	var ran []string
	closed := 0
	p := &model.Pipeline{
		Filters: append(note("a", "odd"), model.Filter{Name: "f", Kind: "Fails"}),
		Flow:    []model.FlowNode{{Filter: "a"}, {Filter: "odd", JumpIf: map[string]string{"odd": "END"}}, {Filter: "f"}},
		Origin:  model.Origin{Key: model.Key{Kind: "HTTPServer", Name: "s"}, Field: "rules[0]"},
	}
	r := notes(&ran, &closed)
	answersBroken(t, p, r)
	if len(ran) > 0 || closed != 2 {
		t.Errorf("%v ran, %d of 2 filters closed", ran, closed)
	}
	_, problems := Build(p, r, filter.Env{})
	if got, want := problems[0].String(), "HTTPServer s rules[0]: filters[2].rules[2]: is bad; mend it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCloseClosesEachFilterOnce(t *testing.T) {
	closed := 0
	p := &model.Pipeline{Filters: note("a", "b"), Flow: []model.FlowNode{{Filter: "a"}, {Filter: "b"}, {Filter: "a"}}}
	chain, problems := Build(p, notes(new([]string), &closed), filter.Env{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	Close(chain)
	if closed != 2 {
		t.Errorf("%d closed", closed)
	}
}

func TestBuiltinKindsAreDescribed(t *testing.T) {
	for _, k := range Builtin() {
		if k.Name == "" || k.Doc == "" || len(k.Results) == 0 || k.Decode == nil || k.New == nil {
			t.Errorf("%+v", k)
		}
	}
}
