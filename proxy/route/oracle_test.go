package route

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/message"
)

// oracle answers a request by looking at every path of every rule, written for being right and nothing else. It keeps the
// expressions that it compiled.
type oracle map[string]*regexp.Regexp

func (o oracle) matches(expression, text string) bool {
	if o[expression] == nil {
		o[expression] = regexp.MustCompile(expression)
	}
	return o[expression].MatchString(text)
}

func (o oracle) answer(rs *model.RuleSet, r *Request) (path *model.Path, reason message.Reason, allow string) {
	type candidate struct {
		rule int
		path *model.Path
	}
	var all []candidate
	known := false
	if rs.Kind == model.HostFirst {
		_, behind, _ := strings.Cut(r.Host, ".")
		for _, pattern := range []string{r.Host, "*." + behind, ""} {
			rule, found := rs.Hosts.Get(pattern)
			if !found || pattern == "*."+behind && strings.HasPrefix(r.Host, ".") {
				continue
			}
			for _, p := range rule.Paths {
				all = append(all, candidate{0, p})
			}
			known = true
			break
		}
	}
	for i, rule := range rs.Rules {
		if !o.host(rule, r.Host) {
			continue
		}
		known = true
		for _, p := range rule.Paths {
			all = append(all, candidate{i, p})
		}
	}
	var best *candidate
	var methods []string
	missed := false
	for i := range all {
		c := &all[i]
		switch {
		case !o.path(rs.Kind, c.path, r.Path):
		case len(c.path.Methods) > 0 && !slices.Contains(c.path.Methods, r.Method):
			methods = append(methods, c.path.Methods...)
		case !o.conditions(c.path, r):
			missed = true
		case best == nil, rs.Kind == model.RadixTree && best.rule == c.rule && oraclePrefers(rs.Rules[c.rule], c.path, best.path):
			best = c
		}
	}
	switch {
	case best != nil:
		return best.path, message.OK, ""
	case len(methods) > 0 && !missed:
		slices.Sort(methods)
		return nil, message.MethodNotAllowed, strings.Join(slices.Compact(methods), ", ")
	case rs.Fallback != nil:
		return rs.Fallback, message.OK, ""
	case known:
		return nil, message.RouteNotFound, ""
	}
	return nil, message.HostNotFound, ""
}

func (o oracle) host(rule *model.Rule, host string) bool {
	var all []model.Host
	if rule.Host != "" {
		all = append(all, model.Host{Value: rule.Host})
	}
	if rule.HostRegexp != "" {
		all = append(all, model.Host{Value: rule.HostRegexp, IsRegexp: true})
	}
	all = append(all, rule.Hosts...)
	for _, h := range all {
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(strings.ToLower(h.Value)), `\*`, ".*") + "$"
		if h.IsRegexp {
			pattern = "(?i)" + h.Value
		}
		if o.matches(pattern, host) {
			return true
		}
	}
	return len(all) == 0
}

func (o oracle) path(kind model.RouterKind, p *model.Path, path string) bool {
	switch {
	case p.Exact != "" && kind == model.RadixTree:
		return o.matches(oraclePattern(p.Exact), path)
	case p.Exact != "":
		return path == p.Exact
	case p.Prefix != "":
		return strings.HasPrefix(path, p.Prefix)
	case p.ElementPrefix != "":
		return strings.HasPrefix(path+"/", strings.TrimSuffix(p.ElementPrefix, "/")+"/")
	case p.Regexp != "":
		return o.matches(p.Regexp, path)
	}
	return true
}

// oraclePattern is the one expression that a pattern is.
func oraclePattern(pattern string) string {
	out := ""
	for rest := pattern; rest != ""; {
		before, behind, found := strings.Cut(rest, "{")
		out += strings.ReplaceAll(regexp.QuoteMeta(before), `\*`, ".*")
		if !found {
			break
		}
		inner, after, _ := strings.Cut(behind, "}")
		expression := "[^/]+"
		if _, e, restricted := strings.Cut(inner, ":"); restricted {
			expression = strings.ReplaceAll(e, ".", "[^/]")
		}
		out += "(?:" + expression + ")"
		rest = after
	}
	return "^" + out + "$"
}

// oracleRanks gives each segment of a path a rank, with its text where two of a rank differ.
func oracleRanks(p *model.Path) []string {
	text := p.Exact
	switch {
	case p.Prefix != "":
		text = p.Prefix + "*"
	case p.ElementPrefix != "":
		text = strings.TrimSuffix(p.ElementPrefix, "/") + "/#"
	case p.Regexp != "":
		return []string{"8"}
	case p.Exact == "":
		return []string{"9"}
	}
	var ranks []string
	for s := range strings.SplitSeq(text[1:], "/") {
		switch {
		case s == "#":
			s = "6"
		case strings.HasSuffix(s, "*"):
			s = "5" + fmt.Sprintf("%03d", 999-len(s)) + s // the longer text first
		case strings.Contains(s, ":"):
			s = "1" + regexp.MustCompile(`\{\w+`).ReplaceAllString(s, "{")
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
			s = "3"
		case strings.Contains(s, "{"):
			s = "2" + regexp.MustCompile(`\{\w+`).ReplaceAllString(s, "{")
		default:
			s = "0" + s
		}
		ranks = append(ranks, s)
	}
	return ranks
}

// oraclePrefers reports whether RadixTree takes a before b, which comes before it in the file and fits the same path.
func oraclePrefers(rule *model.Rule, a, b *model.Path) bool {
	x, y := oracleRanks(a), oracleRanks(b)
	for i := range min(len(x), len(y)) {
		if x[i] == y[i] {
			continue
		}
		if x[i][0] != y[i][0] || x[i][0] == '5' {
			return x[i] < y[i]
		}
		return oracleFirst(rule, x[:i+1]) < oracleFirst(rule, y[:i+1])
	}
	return len(x) < len(y) // the one that is longer ends in something that may be empty
}

// oracleFirst is the first path of the rule that begins with the ranks.
func oracleFirst(rule *model.Rule, ranks []string) int {
	return slices.IndexFunc(rule.Paths, func(p *model.Path) bool {
		of := oracleRanks(p)
		return len(of) >= len(ranks) && slices.Equal(of[:len(ranks)], ranks)
	})
}

func (o oracle) conditions(p *model.Path, r *Request) bool {
	values, _ := url.ParseQuery(r.RawQuery)
	query := func(key string) []string { return values[key] }
	return o.hold(p.Headers, p.MatchAllHdr, r.Header.Values) && o.hold(p.Queries, p.MatchAllQuery, query)
}

func (o oracle) hold(matches []model.Match, all bool, values func(string) []string) bool {
	held := 0
	for _, m := range matches {
		have := values(m.Key)
		if len(have) == 0 {
			have = []string{""}
		}
		if slices.ContainsFunc(have, func(v string) bool {
			return slices.Contains(m.Values, v) || m.Regexp != "" && o.matches(m.Regexp, v)
		}) {
			held++
		}
	}
	return len(matches) == 0 || held == len(matches) || !all && held > 0
}

// maker makes rules and requests of a few words, so that they meet.
type maker struct{ *rand.Rand }

func (m maker) one(from ...string) string { return from[m.IntN(len(from))] }

func (m maker) pathText() string {
	var b strings.Builder
	for range m.IntN(4) {
		b.WriteString("/" + m.one("a", "b", "ab", "abc", "1", "12", "", "a.b"))
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

func (m maker) patternText() string {
	var b strings.Builder
	for i := range 1 + m.IntN(3) {
		n := string(rune('x' + i))
		b.WriteString("/" + m.one("a", "b", "ab", "{"+n+"}", "{"+n+"}", "{"+n+":[a-z]+}", "{"+n+":[0-9]+}", "a{"+n+"}", "{"+n+"}.b", "a{"+n+":.*}"))
	}
	end := m.one("", "", "", "/", "/*", "/a*", "*")
	if strings.Contains(b.String()[strings.LastIndexByte(b.String(), '/'):], "}") {
		end = strings.TrimPrefix(end, "*")
	}
	return b.String() + end
}

func (m maker) path(kind model.RouterKind) *model.Path {
	p := &model.Path{}
	switch m.IntN(9) {
	case 0, 1, 2:
		p.Exact = m.pathText()
		if kind == model.RadixTree && m.IntN(3) > 0 {
			p.Exact = m.patternText()
		}
	case 3, 4:
		p.Prefix = m.pathText()
	case 5, 6:
		p.ElementPrefix = m.pathText()
	case 7:
		p.Regexp = m.one("^/a", "a+$", "^/[ab]/", "^/ab", "b/", "^/a$", "^/(a|b)c?", "[0-9]")
	}
	if m.IntN(4) == 0 {
		p.Methods = [][]string{{"GET"}, {"POST"}, {"GET", "PUT"}}[m.IntN(3)]
	}
	if m.IntN(6) == 0 {
		p.Headers, p.MatchAllHdr = m.matches(), m.IntN(2) == 0
	}
	if m.IntN(6) == 0 {
		p.Queries, p.MatchAllQuery = m.matches(), m.IntN(2) == 0
	}
	return p
}

func (m maker) matches() []model.Match {
	var all []model.Match
	for range 1 + m.IntN(2) {
		one := model.Match{Key: m.one("k", "l"), Values: []string{m.one("1", "2", "a b", "")}}
		if m.IntN(3) == 0 {
			one.Regexp = m.one("^1", "b$", "^$")
		}
		all = append(all, one)
	}
	return all
}

func (m maker) rule(kind model.RouterKind) *model.Rule {
	rule := &model.Rule{}
	for range m.IntN(7) + m.IntN(2)*m.IntN(20) { // few and many: they are looked up in different ways
		rule.Paths = append(rule.Paths, m.path(kind))
	}
	if kind == model.HostFirst {
		return rule
	}
	switch m.IntN(5) {
	case 0, 1:
		rule.Host = m.hostPattern()
	case 2:
		rule.HostRegexp = m.one("^a", `^[^.]+\.C$`, "b", "^$")
	case 3:
		for range 1 + m.IntN(3) {
			rule.Hosts = append(rule.Hosts, model.Host{Value: m.hostPattern()})
		}
		rule.Hosts = append(rule.Hosts, model.Host{Value: "^x", IsRegexp: true})
	}
	return rule
}

func (m maker) hostPattern() string {
	return m.one("a", "b", "a.c", "b.c", "a.b.c", "A.C", "*.c", "*c", "a.*", "a*", "*.b.c", "*")
}

func (m maker) ruleSet(kind model.RouterKind) *model.RuleSet {
	rs := &model.RuleSet{Kind: kind}
	if kind == model.HostFirst {
		e := rs.Hosts.Edit()
		for range m.IntN(7) {
			e.Set(m.one("a", "b", "a.c", "b.c", "a.b.c", "*.c", "*.b.c", ""), m.rule(kind))
		}
		rs.Hosts = e.Map()
	} else {
		for range m.IntN(7) {
			rs.Rules = append(rs.Rules, m.rule(kind))
		}
	}
	if m.IntN(4) == 0 {
		rs.Fallback = &model.Path{}
	}
	return rs
}

func (m maker) request() *Request {
	var h message.Header
	for range m.IntN(3) {
		h.Add(m.one("K", "L", "Other"), m.one("1", "2", "a b", ""))
	}
	query := ""
	for range m.IntN(3) {
		query += m.one("&", "") + m.one("k=", "l=", "k", "%6b=") + m.one("1", "a+b", "a%20b", "") + "&"
	}
	return &Request{Method: m.one("GET", "GET", "POST", "PUT"), Host: m.one("a", "b", "c", "a.c", "b.c", "x.c", "a.b.c", "z.b.c", "x", ""), Path: m.pathText(), RawQuery: query, Header: &h}
}

// TestAgainstOracle compares tables with the oracle over random rules and requests.
func TestAgainstOracle(t *testing.T) {
	m, o := maker{rand.New(rand.NewPCG(3, 4))}, oracle{}
	for _, kind := range []model.RouterKind{model.HostFirst, model.Ordered, model.RadixTree} {
		seen := map[message.Reason]int{}
		for range 2000 {
			rs := m.ruleSet(kind)
			table := compiled(t, rs)
			for i := range 20 {
				r := m.request()
				path, reason, allow := o.answer(rs, r)
				got := table.Lookup(r)
				if !same(got, path, reason, allow) {
					t.Fatalf("%s %+v %v\nrules:\n%s\ngot %s\nwant %+v %s %s", kind, r, *r.Header, describe(rs), describeFound(got), path, reason, allow)
				}
				seen[reason]++
				if i < 4 {
					checkExplains(t, table, r, got)
				}
			}
		}
		for _, reason := range []message.Reason{message.OK, message.HostNotFound, message.RouteNotFound, message.MethodNotAllowed} {
			if seen[reason] < 200 {
				t.Errorf("%s: only %d requests were answered %s", kind, seen[reason], reason)
			}
		}
	}
}

func same(got Found[string], path *model.Path, reason message.Reason, allow string) bool {
	if got.Reason != reason || got.Allow != allow || (got.Entry == nil) != (path == nil) {
		return false
	}
	return path == nil || got.Entry.Path == path
}

// checkExplains sees that Explain tells the same story as Lookup.
func checkExplains(t *testing.T, table *Table[string], r *Request, found Found[string]) {
	t.Helper()
	steps := table.Explain(r)
	last := steps[len(steps)-1]
	if last.OK != (found.Reason == message.OK) || last.Text == "" || !last.OK && last.Mend == "" {
		t.Fatalf("%+v: found %s, explained %+v", r, describeFound(found), steps)
	}
	for _, step := range steps {
		if len(step.Lost) > maxLost+1 || slices.ContainsFunc(step.Lost, func(l string) bool { return strings.HasSuffix(l, ": fits") }) {
			t.Fatalf("%+v: found %s, explained %+v", r, describeFound(found), steps)
		}
	}
}

func describeFound(f Found[string]) string {
	if f.Entry == nil {
		return f.Reason.String() + " " + f.Allow
	}
	return fmt.Sprintf("%s %+v", f.Reason, f.Entry.Path)
}

func describe(rs *model.RuleSet) string {
	var b strings.Builder
	one := func(host string, rule *model.Rule) {
		fmt.Fprintf(&b, "%s %q %q %v\n", host, rule.Host, rule.HostRegexp, rule.Hosts)
		for _, p := range rule.Paths {
			fmt.Fprintf(&b, "   %+v\n", *p)
		}
	}
	for host, rule := range rs.Hosts.All() {
		one("host "+host, rule)
	}
	for _, rule := range rs.Rules {
		one("rule", rule)
	}
	return b.String()
}

// TestCompileFromPrevious changes rule sets step by step and compares the table made from the one before with a fresh one.
func TestCompileFromPrevious(t *testing.T) {
	m := maker{rand.New(rand.NewPCG(5, 6))}
	for _, kind := range []model.RouterKind{model.HostFirst, model.Ordered, model.RadixTree} {
		for range 60 {
			rs := m.ruleSet(kind)
			table := compiled(t, rs)
			for range 12 {
				rs = m.changed(rs)
				var fresh *Table[string]
				var problems, freshProblems []model.Problem
				table, problems = Compile(rs, table, backend)
				fresh, freshProblems = Compile(rs, nil, backend)
				if !slices.Equal(problems, freshProblems) {
					t.Fatalf("problems %v, fresh %v", problems, freshProblems)
				}
				for range 10 {
					r := m.request()
					got, want := table.Lookup(r), fresh.Lookup(r)
					if !same(got, path(want), want.Reason, want.Allow) {
						t.Fatalf("%+v\nrules:\n%s\ngot %s\nfresh %s", r, describe(rs), describeFound(got), describeFound(want))
					}
				}
			}
		}
	}
}

func path(f Found[string]) *model.Path {
	if f.Entry == nil {
		return nil
	}
	return f.Entry.Path
}

// changed is rs with one change.
func (m maker) changed(rs *model.RuleSet) *model.RuleSet {
	next := *rs
	switch {
	case m.IntN(8) == 0:
		return m.ruleSet([]model.RouterKind{rs.Kind, rs.Kind, model.HostFirst, model.Ordered, model.RadixTree}[m.IntN(5)])
	case m.IntN(8) == 0:
		return rs
	case m.IntN(5) == 0:
		next.Fallback = []*model.Path{nil, {Backend: "f"}}[m.IntN(2)]
	case rs.Kind == model.HostFirst:
		host := m.one("a", "b", "a.c", "b.c", "*.c", "*.b.c", "", "Not Canonical", "a*")
		if m.IntN(3) == 0 {
			next.Hosts = rs.Hosts.Without(host)
		} else {
			rule := m.rule(rs.Kind)
			if m.IntN(4) == 0 {
				rule.Paths = append(rule.Paths, &model.Path{Regexp: "(", Origin: model.Origin{Field: host}})
			}
			next.Hosts = rs.Hosts.With(host, rule)
		}
	case len(rs.Rules) > 0 && m.IntN(2) == 0:
		i := m.IntN(len(rs.Rules))
		next.Rules = slices.Delete(slices.Clone(rs.Rules), i, i+1)
	default:
		next.Rules = slices.Insert(slices.Clone(rs.Rules), m.IntN(len(rs.Rules)+1), m.rule(rs.Kind))
	}
	return &next
}
