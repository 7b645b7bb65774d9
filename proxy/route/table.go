package route

import (
	"cmp"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/message"
)

// Request is what rules look at. Host and Path are canonical.
type Request struct {
	Method   string
	Host     string // "" for a request without one
	Path     string
	RawQuery string
	Header   *message.Header // nil counts as empty
}

// Entry is one path of one rule with what the caller attached to it.
type Entry[T any] struct {
	Rule    *model.Rule // nil for the fallback
	Path    *model.Path
	Target  T
	Host    string // host pattern of the rule, "" for all hosts; several with commas between
	Pattern string // path pattern as written; "" for all paths

	m *matcher
}

func newEntry[T any](rule *model.Rule, host string, p compiledPath, attach func(*model.Rule, *model.Path) T) Entry[T] {
	pattern := cmp.Or(p.path.Exact, p.path.Prefix, p.path.ElementPrefix, p.path.Regexp)
	return Entry[T]{Rule: rule, Path: p.path, Target: attach(rule, p.path), Host: host, Pattern: pattern, m: p.m}
}

// Found is the answer of a Lookup.
type Found[T any] struct {
	Entry *Entry[T] // nil unless Reason is OK or FilterBroken
	// Reason is OK; FilterBroken for a rule whose own patterns cannot be used; HostNotFound; RouteNotFound; or MethodNotAllowed,
	// when rules have the path and none of them the method.
	Reason message.Reason
	Allow  string // with MethodNotAllowed: the methods that those rules have
}

// Table finds the entry for a request. It is immutable and safe for concurrent use.
type Table[T any] struct {
	rules    *model.RuleSet
	fallback *Entry[T]

	// Kind Host.
	exact     hostMap[hostTable[T]] // by name
	wildcard  hostMap[hostTable[T]] // by what stands behind the *.
	any       *hostTable[T]
	defective persist.Map[*hostTable[T]] // those with problems, by host pattern

	// Kinds Ordered and RadixTree.
	entries  []Entry[T] // in order of precedence
	hosts    hostIndex
	problems []model.Problem
	regexps  map[string]*expression // by text, for the next table
}

// Compile makes a table of the rules. attach makes the Target of each entry; its rule is nil for the fallback. What of prev, which may
// be nil, is unchanged is taken over with its Targets: for kind Host each host whose *model.Rule is the same, so that the cost is that of the
// hosts that changed; for the other kinds the whole table when rs is the same. Problems are those of all rules.
func Compile[T any](rs *model.RuleSet, prev *Table[T], attach func(*model.Rule, *model.Path) T) (*Table[T], []model.Problem) {
	if prev != nil && prev.rules == rs {
		return prev, prev.allProblems()
	}
	t := &Table[T]{rules: rs}
	switch {
	case rs.Fallback == nil:
	case prev != nil && prev.rules.Fallback == rs.Fallback:
		t.fallback = prev.fallback
	default:
		t.fallback = newFallback(rs.Fallback, attach)
	}
	if rs.Kind == model.HostFirst {
		t.compileHosts(prev, attach)
	} else {
		t.compileRules(prev, attach)
	}
	return t, t.allProblems()
}

func newFallback[T any](path *model.Path, attach func(*model.Rule, *model.Path) T) *Entry[T] {
	all := *path
	all.Exact, all.Prefix, all.ElementPrefix, all.Regexp = "", "", "", ""
	c := compiler{}
	return &Entry[T]{Path: path, Target: attach(nil, path), m: c.path(spot{path: &all})}
}

func (t *Table[T]) allProblems() []model.Problem {
	problems := t.problems
	for _, h := range t.defective.All() {
		problems = append(problems[:len(problems):len(problems)], h.problems...)
	}
	return problems
}

// Lookup finds the entry for a request, without allocation unless the answer is MethodNotAllowed for several rules.
func (t *Table[T]) Lookup(r *Request) Found[T] {
	s := search{r: r}
	entries, known := t.search(&s)
	switch {
	case s.best != nil:
		return Found[T]{Entry: &entries[s.best.order]}
	case s.denied != nil && !s.missed:
		found := Found[T]{Reason: message.MethodNotAllowed, Allow: s.denied.terms.allow}
		if s.mixed {
			found.Allow = t.allow(r)
		}
		return found
	case s.broken != nil:
		return Found[T]{Entry: &entries[s.broken.order], Reason: message.FilterBroken}
	case t.fallback != nil:
		return Found[T]{Entry: t.fallback}
	case known:
		return Found[T]{Reason: message.RouteNotFound}
	}
	return Found[T]{Reason: message.HostNotFound}
}

// search runs s over the rules that have the host, and reports whether there are any.
func (t *Table[T]) search(s *search) (entries []Entry[T], known bool) {
	if t.rules.Kind != model.HostFirst {
		return t.entries, t.hosts.search(s)
	}
	h := t.host(s.r.Host)
	if h == nil {
		return nil, false
	}
	h.index.search(s)
	return h.entries, true
}

// host is the most specific table for a host, or nil.
func (t *Table[T]) host(host string) *hostTable[T] {
	if h := t.exact.get(host); h != nil {
		return h
	}
	if dot := strings.IndexByte(host, '.'); dot > 0 {
		if h := t.wildcard.get(host[dot+1:]); h != nil {
			return h
		}
	}
	return t.any
}

// allow gathers the methods of several rules.
func (t *Table[T]) allow(r *Request) string {
	s := search{r: r, collect: true}
	t.search(&s)
	return joinMethods(s.methods)
}
