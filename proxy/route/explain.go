package route

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
	"sluice.dev/sluice/proxy/message"
)

// maxLost is how many rules that lost a step names.
const maxLost = 10

// Explain says in a host step and a path step what Lookup finds for a request, and which rules lost and why. It looks at every rule, so it
// is for people, not for traffic.
func (t *Table[T]) Explain(r *Request) []model.Step {
	found := t.Lookup(r)
	host, candidates := t.explainHost(r, found)
	if candidates == nil {
		return []model.Step{host}
	}
	path := t.explainPath(r, found, candidates)
	path.Origin = cmp.Or(path.Origin, host.Origin)
	return []model.Step{host, path}
}

// explainHost returns the host step and the entries of the rules that have the host, nil when there are none.
func (t *Table[T]) explainHost(r *Request, found Found[T]) (model.Step, []*Entry[T]) {
	if t.rules.Kind == model.HostFirst {
		return t.explainHostFirst(r)
	}
	step := model.Step{Stage: "host"}
	candidates := []*Entry[T]{}
	has := 0
	for i, rule := range t.rules.Rules {
		if rule == nil {
			continue
		}
		if !ruleHasHost(rule, r.Host) {
			step.Lost = append(step.Lost, place(ruleOrigin(rule, i))+": is for "+hostsText(rule))
			continue
		}
		has++
		for n := range t.entries {
			if t.entries[n].Rule == rule {
				candidates = append(candidates, &t.entries[n])
			}
		}
	}
	step.Lost = capped(step.Lost)
	if has == 0 {
		return t.noHost(step, r.Host), nil
	}
	step.OK = true
	step.Text = fmt.Sprintf("%d of %d rules have host %q", has, len(t.rules.Rules), r.Host)
	if found.Entry != nil && found.Entry.Rule != nil {
		step.Origin = place(found.Entry.Rule.Origin)
		step.Text += "; the one chosen is for " + hostsText(found.Entry.Rule)
	}
	return step, candidates
}

func (t *Table[T]) explainHostFirst(r *Request) (model.Step, []*Entry[T]) {
	step := model.Step{Stage: "host"}
	var chosen *hostTable[T]
	for _, pattern := range hostPatterns(r.Host) {
		rule, found := t.rules.Hosts.Get(pattern)
		if !found {
			continue
		}
		if chosen != nil {
			step.Lost = append(step.Lost, "the rule for "+patternText(pattern)+", "+place(rule.Origin)+": less specific")
			continue
		}
		chosen = t.host(r.Host)
		step.OK, step.Origin = true, place(rule.Origin)
		step.Text = fmt.Sprintf("host %q is answered by the rule for %s", r.Host, patternText(pattern))
	}
	if chosen == nil {
		return t.noHost(step, r.Host), nil
	}
	candidates := make([]*Entry[T], len(chosen.entries))
	for i := range chosen.entries {
		candidates[i] = &chosen.entries[i]
	}
	return step, candidates
}

// hostPatterns are the keys that kind Host looks under, in order.
func hostPatterns(host string) []string {
	patterns := []string{host}
	if _, behind, found := strings.Cut(host, "."); found {
		patterns = append(patterns, "*."+behind)
	}
	if host != "" {
		patterns = append(patterns, "")
	}
	return patterns
}

func (t *Table[T]) noHost(step model.Step, host string) model.Step {
	step.Text = fmt.Sprintf("no rule has host %q", host)
	if t.fallback != nil {
		step.OK = true
		step.Text += "; the fallback answers"
		step.Origin = place(t.fallback.Path.Origin)
		return step
	}
	if host == "" {
		step.Text = "the request has no host and every rule asks for one"
		step.Mend = "send a Host, or add a rule without host"
		return step
	}
	step.Mend = "add a rule for host " + host
	if near := t.nearHost(host); near != "" {
		step.Mend += ", or ask for " + near
	}
	return step
}

// nearHost is the host of the rules that host was probably meant to be, "" when none is near.
func (t *Table[T]) nearHost(host string) string {
	known := t.rules.Hosts.Keys()
	for _, rule := range t.rules.Rules {
		if rule == nil {
			continue
		}
		for _, h := range ruleHosts(rule) {
			known = append(known, h.Value)
		}
	}
	return document.Nearest(host, known)
}

// ruleHasHost is the plain meaning of the hosts of a rule of the kinds Ordered and RadixTree.
func ruleHasHost(rule *model.Rule, host string) bool {
	return slices.ContainsFunc(ruleHosts(rule), func(h ruleHost) bool {
		if h.IsRegexp {
			re, err := hostExpression(h.Value)
			return err == nil && re.MatchString(host)
		}
		pattern, ok := canon.RuleHost(h.Value)
		if start, isStart := strings.CutSuffix(pattern, "*"); ok && isStart {
			return strings.HasPrefix(host, start)
		}
		end, isEnd := strings.CutPrefix(pattern, "*")
		return ok && (pattern == "" || pattern == host || isEnd && strings.HasSuffix(host, end))
	})
}

func (t *Table[T]) explainPath(r *Request, found Found[T], candidates []*Entry[T]) model.Step {
	step := model.Step{Stage: "path", OK: found.Reason == message.OK}
	var lost, elsewhere []string
	for _, e := range candidates {
		if e == found.Entry {
			continue
		}
		line := e.name() + ": "
		switch {
		case !e.m.matchesPath(r.Path):
			elsewhere = append(elsewhere, line+"the path does not match")
		case e.m.broken:
			lost = append(lost, line+"cannot be used, see its problem")
		default:
			lost = append(lost, line+e.whyLost(r, found.Entry))
		}
	}
	if !step.OK || found.Entry == t.fallback {
		lost = append(lost, elsewhere...)
	}
	step.Lost = capped(lost)
	fits := len(lost) > len(elsewhere)
	switch {
	case found.Entry != nil:
		step.Origin = place(found.Entry.Path.Origin)
		step.Text = fmt.Sprintf("%s %s is answered by %s", r.Method, strconv.Quote(r.Path), found.Entry.name())
		if !step.OK {
			step.Text += ", which cannot be used"
			step.Mend = "mend the problem of that rule"
		}
	case found.Reason == message.MethodNotAllowed:
		step.Text = fmt.Sprintf("rules match %s, but not with method %s, only %s", strconv.Quote(r.Path), r.Method, found.Allow)
		step.Mend = "add " + r.Method + " to the methods of a rule"
	case fits:
		step.Text = fmt.Sprintf("rules match %s, but ask for other header fields or another query", strconv.Quote(r.Path))
		step.Mend = "send what they ask for, or add a path without such conditions"
	default:
		step.Text = fmt.Sprintf("no path of the host's rules matches %s", strconv.Quote(r.Path))
		step.Mend = "add a path that matches it, such as " + quote(r.Path)
	}
	return step
}

// whyLost says why an entry whose path matches was not the one, nil for none, that was found.
func (e *Entry[T]) whyLost(r *Request, winner *Entry[T]) string {
	m := e.m
	switch {
	case !m.allowsMethod(r.Method):
		return "method " + r.Method + " is not among " + m.terms.allow
	case !m.terms.headers.hold(r, headerHolds):
		return "the header fields do not fit: " + m.terms.headers.text()
	case !m.terms.queries.hold(r, queryHolds):
		return "the query does not fit: " + m.terms.queries.text()
	case winner == nil || winner.m.order == m.order:
		return "fits" // not reached: what fits is found
	case winner.m.kind == exactPath && m.kind != exactPath:
		return "less specific than an exact path"
	case len(winner.m.clean) > len(m.clean) && winner.m.kind == m.kind:
		return "shorter"
	}
	return "comes later in the order"
}

// name is the entry as a person would point at it.
func (e *Entry[T]) name() string {
	what := "every path"
	switch p := e.Path; {
	case e.Rule == nil:
		what = "the fallback"
	case p.Exact != "":
		what = "path " + quote(p.Exact)
	case p.Prefix != "":
		what = "pathPrefix " + quote(p.Prefix)
	case p.ElementPrefix != "":
		what = "pathElementPrefix " + quote(p.ElementPrefix)
	case p.Regexp != "":
		what = "pathRegexp " + quote(p.Regexp)
	}
	if e.Path.Origin == (model.Origin{}) {
		return what
	}
	return what + ", " + place(e.Path.Origin)
}

func (c *conditions) text() string {
	keys := make([]string, len(c.list))
	for i := range c.list {
		keys[i] = c.list[i].key
	}
	if c.all {
		return "all of " + strings.Join(keys, ", ")
	}
	return strings.Join(keys, ", ")
}

func hostsText(rule *model.Rule) string {
	var hosts []string
	for _, h := range ruleHosts(rule) {
		if h.IsRegexp {
			hosts = append(hosts, "regexp "+quote(h.Value))
		} else {
			hosts = append(hosts, patternText(h.Value))
		}
	}
	if len(hosts) > 3 {
		hosts = append(hosts[:3], fmt.Sprintf("and %d more", len(hosts)-3))
	}
	return strings.Join(hosts, ", ")
}

func patternText(pattern string) string {
	if pattern == "" || pattern == "*" {
		return "every host"
	}
	return quote(pattern)
}

func place(origin model.Origin) string {
	if origin.Key == (model.Key{}) {
		return origin.Field
	}
	return origin.String()
}

// capped cuts a list after maxLost and says how many are left out.
func capped(lines []string) []string {
	if len(lines) <= maxLost {
		return lines
	}
	return append(lines[:maxLost:maxLost], fmt.Sprintf("and %d more", len(lines)-maxLost))
}
