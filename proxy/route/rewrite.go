package route

import (
	"strconv"
	"strings"

	"sluice.dev/sluice/canon"
)

// rewrite is the rewriteTarget of a path.
type rewrite struct {
	target string  // "": the path stays
	pieces []piece // of a target with {name}
}

// piece is literal text, or the name of a parameter.
type piece struct {
	text string
	name string
}

// Rewrite returns the path to forward: the whole path is replaced where it, a pattern or no pattern matched, the prefix
// where a prefix did, each match of a regular expression with $1 and ${name} expanded. Without a rewriteTarget it is path. It
// reports false when the result is not in canonical form, since then an origin could take it for another path than the rule meant.
func (e *Entry[T]) Rewrite(path string) (string, bool) {
	if e.m.terms.rewrite.target == "" {
		return path, true
	}
	result, ok := e.m.rewritten(path)
	if !ok {
		return "", false
	}
	if canonical, ok := canon.Path(result); !ok || canonical != result {
		return "", false
	}
	return result, true
}

func (m *matcher) rewritten(path string) (string, bool) {
	target := m.terms.rewrite.target
	switch m.kind {
	case prefixPath:
		rest, found := strings.CutPrefix(path, m.clean)
		if strings.HasSuffix(target, "/") {
			rest = strings.TrimPrefix(rest, "/")
		}
		return target + rest, found
	case elementPath:
		rest, found := strings.CutPrefix(path, m.clean)
		if rest != "" {
			target = strings.TrimSuffix(target, "/")
		}
		return target + rest, found
	case regexpPath:
		return m.terms.expression.re.ReplaceAllString(path, target), true
	case patternPath:
		if m.terms.rewrite.pieces != nil {
			return m.fill(path)
		}
	}
	return target, true
}

// fill fills what the parameters took into the pieces.
func (m *matcher) fill(path string) (string, bool) {
	values := map[string]string{}
	if !matchSegments(m.terms.segments, path, func(name, value string) { values[name] = value }) {
		return "", false
	}
	var out strings.Builder
	for _, p := range m.terms.rewrite.pieces {
		out.WriteString(p.text)
		if p.name != "" {
			out.WriteString(values[p.name])
		}
	}
	return out.String(), true
}

// newRewrite compiles a rewriteTarget for what m matches, or says what is wrong with it.
func newRewrite(m *matcher, target string) (rewrite, string) {
	if strings.ContainsAny(target, "?#") {
		return rewrite{}, "has a query or fragment; only the path can be rewritten"
	}
	var clean string
	ok := false
	switch {
	case m.kind == regexpPath:
		return newTemplate(m, target)
	case m.kind == patternPath && strings.Contains(target, "{"):
		return newPieces(m, target)
	case m.kind == prefixPath:
		clean, ok = canon.RulePrefix(target)
	default:
		clean, ok = canon.RulePath(target)
	}
	if !ok {
		return rewrite{}, noSlash
	}
	return rewrite{target: clean}, ""
}

// newPieces cuts a target with {name} into pieces.
func newPieces(m *matcher, target string) (rewrite, string) {
	known := map[string]bool{}
	for _, s := range m.terms.segments {
		switch s.rank {
		case parameter:
			known[s.name] = true
		case wildcard:
			known[wildcardName] = true
		case restricted, mixed:
			for _, name := range s.re.SubexpNames() {
				known[name] = name != ""
			}
		}
	}
	w := rewrite{target: target}
	for rest := target; rest != ""; {
		text, behind, more := strings.Cut(rest, "{")
		clean, ok := canon.RuleText(text)
		if !ok {
			return rewrite{}, "has a NUL character"
		}
		p := piece{text: clean}
		rest = ""
		if more {
			if p.name, rest, more = strings.Cut(behind, "}"); !more || !known[p.name] {
				return rewrite{}, "names {" + p.name + "}, which the path does not have"
			}
		}
		w.pieces = append(w.pieces, p)
	}
	if w.pieces[0].text == "" || w.pieces[0].text[0] != '/' {
		return rewrite{}, "does not start with a slash"
	}
	return w, ""
}

// newTemplate checks the groups that a target names and escapes what a path must not have.
func newTemplate(m *matcher, target string) (rewrite, string) {
	var out strings.Builder
	for rest := target; rest != ""; {
		text, behind, more := strings.Cut(rest, "$")
		clean, ok := canon.RuleText(text)
		if !ok {
			return rewrite{}, "has a NUL character"
		}
		out.WriteString(clean)
		if !more {
			break
		}
		if strings.HasPrefix(behind, "$") {
			out.WriteString("$$")
			rest = behind[1:]
			continue
		}
		name, length, wrong := m.terms.expression.group(behind)
		if wrong != "" {
			return rewrite{}, wrong
		}
		out.WriteString("${" + name + "}")
		rest = behind[length:]
	}
	if !strings.HasPrefix(target, "/") && !strings.HasPrefix(target, "$") {
		return rewrite{}, "does not start with a slash"
	}
	return rewrite{target: out.String()}, ""
}

// group reads the name of a group behind a $ and how long it is with its braces.
func (e *expression) group(text string) (name string, length int, wrong string) {
	if inner, braced := strings.CutPrefix(text, "{"); braced {
		name, _, braced = strings.Cut(inner, "}")
		if !braced {
			return "", 0, "has a ${ without }"
		}
		length = len(name) + 2
	} else {
		for length < len(text) && (text[length] == '_' || isName("x"+text[length:length+1])) {
			length++
		}
		name = text[:length]
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n <= e.re.NumSubexp() {
		return name, length, ""
	}
	if name != "" && e.re.SubexpIndex(name) >= 0 {
		return name, length, ""
	}
	return "", 0, "names the group " + quote(name) + ", which the regular expression does not have; write ${1} where text follows"
}
