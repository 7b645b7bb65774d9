package route

import (
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// hostTable is the paths of one host of kind Host.
type hostTable[T any] struct {
	index    index
	entries  []Entry[T] // in the order of the rule's paths
	problems []model.Problem
}

func (t *Table[T]) compileHosts(prev *Table[T], attach func(*model.Rule, *model.Path) T) {
	var old persist.Map[*model.Rule]
	if prev != nil && prev.rules.Kind == model.HostFirst {
		old = prev.rules.Hosts
		t.exact, t.wildcard, t.any, t.defective = prev.exact, prev.wildcard, prev.any, prev.defective
	}
	var exact, wildcard []slot[hostTable[T]]
	defective := t.defective.Edit()
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
			wildcard = append(wildcard, slot[hostTable[T]]{key: suffix, value: h})
		default:
			exact = append(exact, slot[hostTable[T]]{key: pattern, value: h})
		}
	}
	t.exact, t.wildcard, t.defective = t.exact.with(exact), t.wildcard.with(wildcard), defective.Map()
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
	paths := c.paths(rule, "")
	h := &hostTable[T]{entries: make([]Entry[T], len(paths))}
	matchers := make([]*matcher, len(paths))
	for i, p := range paths {
		p.m.order = int32(i)
		h.entries[i] = newEntry(rule, pattern, p, attach)
		matchers[i] = p.m
	}
	h.index, h.problems = newIndex(matchers), c.problems
	return h
}
