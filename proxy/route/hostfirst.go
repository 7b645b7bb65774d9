package route

import (
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// hostTable is the paths of one host of kind Host.
type hostTable[T any] struct {
	entries  []Entry[T] // in the order of the rule's paths
	index    index
	problems []model.Problem
}

func (t *Table[T]) compileHosts(prev *Table[T], attach func(*model.Rule, *model.Path) T) {
	var old persist.Map[*model.Rule]
	if prev != nil && prev.rules.Kind == model.HostFirst {
		old = prev.rules.Hosts
		t.exact, t.wildcard, t.any, t.defective = prev.exact, prev.wildcard, prev.any, prev.defective
	}
	exact, wildcard, defective := t.exact.Edit(), t.wildcard.Edit(), t.defective.Edit()
	for pattern, rules := range persist.Diff(old, t.rules.Hosts) {
		var h *hostTable[T]
		if rules[1] != nil {
			h = newHostTable(pattern, rules[1], attach)
		}
		if h != nil && len(h.problems) > 0 {
			defective.Set(pattern, h)
		} else {
			defective.Delete(pattern)
		}
		if checkHost(pattern) != "" {
			continue
		}
		suffix, isWildcard := strings.CutPrefix(pattern, "*.")
		switch {
		case pattern == "":
			t.any = h
		case isWildcard:
			put(wildcard, suffix, h)
		default:
			put(exact, pattern, h)
		}
	}
	t.exact, t.wildcard, t.defective = exact.Map(), wildcard.Map(), defective.Map()
}

func put[T any](e *persist.Editor[*hostTable[T]], key string, h *hostTable[T]) {
	if h == nil {
		e.Delete(key)
	} else {
		e.Set(key, h)
	}
}

// checkHost says what is wrong with a host pattern of kind Host; "" is nothing.
func checkHost(pattern string) string {
	canonical, ok := canon.RuleHost(pattern)
	switch {
	case !ok:
		return "is no host"
	case canonical != pattern:
		return "is not in canonical form, which is " + canonical
	case strings.Contains(pattern, "*") && !strings.HasPrefix(pattern, "*."):
		return "has a * that is not its whole first label"
	}
	return ""
}

func newHostTable[T any](pattern string, rule *model.Rule, attach func(*model.Rule, *model.Path) T) *hostTable[T] {
	c := compiler{}
	origin := rule.Origin
	if what := checkHost(pattern); what != "" {
		c.add(model.Origin{Key: origin.Key, Field: join(origin.Field, "host")}, "InvalidHost", "host "+quote(pattern)+" "+what,
			"write a name, or *. and a name")
		return &hostTable[T]{problems: c.problems}
	}
	h := &hostTable[T]{}
	for i, path := range rule.Paths {
		if path == nil {
			continue
		}
		m := c.matcher(path, pathOrigin(rule, path, "", i))
		m.order = int32(len(h.entries))
		h.entries = append(h.entries, Entry[T]{Rule: rule, Path: path, Target: attach(rule, path), Host: pattern, Pattern: m.text, m: m})
		h.index.add(m)
	}
	h.problems = c.problems
	return h
}
