package route

import (
	"cmp"
	"strconv"

	"sluice.dev/sluice/model"
)

// longestQuote is how much of a pattern a problem repeats.
const longestQuote = 80

func quote(text string) string {
	if len(text) > longestQuote {
		return strconv.Quote(text[:longestQuote]) + "…"
	}
	return strconv.Quote(text)
}

// join appends a field to a field path.
func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func item(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// ruleOrigin is where rule i came from, by its own word or by its place.
func ruleOrigin(rule *model.Rule, i int) model.Origin {
	origin := rule.Origin
	if origin.Field == "" {
		origin.Field = item("rules", i)
	}
	return origin
}

// spot is the place of a path in its rule set; its origin is worked out only for a problem.
type spot struct {
	rule  *model.Rule // nil for the fallback
	rules string      // the field of the rule, where it does not say itself
	path  *model.Path
	index int
}

// origin is where a field of the path came from, by the path's own word or by its place.
func (s spot) origin(field string) model.Origin {
	origin := s.path.Origin
	if s.rule != nil && origin.Field == "" {
		if origin.Key == (model.Key{}) {
			origin.Key = s.rule.Origin.Key
		}
		origin.Field = join(cmp.Or(s.rule.Origin.Field, s.rules), item("paths", s.index))
	}
	origin.Field = join(origin.Field, field)
	return origin
}
