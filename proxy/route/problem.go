package route

import (
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

// pathOrigin is where path j of a rule came from, by its own word or by its place behind at, the place of the rule.
func pathOrigin(rule *model.Rule, path *model.Path, at string, j int) model.Origin {
	if path.Origin.Field != "" {
		return path.Origin
	}
	origin := path.Origin
	if origin.Key == (model.Key{}) {
		origin.Key = rule.Origin.Key
	}
	if rule.Origin.Field != "" {
		at = rule.Origin.Field
	}
	origin.Field = join(at, item("paths", j))
	return origin
}
