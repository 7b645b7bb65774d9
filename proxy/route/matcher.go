package route

import (
	"regexp"
	"slices"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
)

// kind says how a matcher looks at the path.
type kind uint8

const (
	anyPath     kind = iota
	exactPath        // text is the path
	prefixPath       // text begins the path
	elementPath      // text, without its final slash, is the path's first elements
	regexpPath       // expression matches somewhere in the path
	patternPath      // segments match the path's
	nowherePath      // the pattern is so broken that nobody can say what it matches
	unknownPath      // broken, but what it matches begins with text
)

// matcher is what one path of a rule asks of a request.
type matcher struct {
	order  int32 // precedence among the entries; lower is better
	kind   kind
	broken bool   // matches nothing, and what nothing else matches and it might have is answered with 500
	plain  bool   // asks for a path only
	clean  string // exact path or prefix in canonical form
	terms  *terms // never nil; most paths share the empty one
}

// terms are what few paths have.
type terms struct {
	expression *expression
	segments   []segment
	methods    []string
	allow      string // methods, joined
	headers    conditions
	queries    conditions
	rewrite    rewrite
}

// conditions are those on header fields or on query parameters.
type conditions struct {
	list []condition
	all  bool // all must hold; else one
}

type condition struct {
	key    string
	values []string
	re     *regexp.Regexp
}

func (c *condition) holds(value string) bool {
	return slices.Contains(c.values, value) || c.re != nil && c.re.MatchString(value)
}

// matchesPath is the plain meaning of a matcher's pattern. The index answers the same question for many at once; this one is for
// Explain, for broken matchers and as the word that the index is tested against.
func (m *matcher) matchesPath(path string) bool {
	switch m.kind {
	case anyPath:
		return true
	case exactPath:
		return path == m.clean
	case prefixPath, unknownPath:
		return strings.HasPrefix(path, m.clean)
	case elementPath:
		rest, found := strings.CutPrefix(path, m.clean)
		return found && (rest == "" && m.clean != "" || strings.HasPrefix(rest, "/"))
	case regexpPath:
		return m.terms.expression.re.MatchString(path)
	case patternPath:
		return matchSegments(m.terms.segments, path, nil)
	}
	return false
}

func (m *matcher) allowsMethod(method string) bool {
	return len(m.terms.methods) == 0 || slices.Contains(m.terms.methods, method)
}

// compiler compiles paths and gathers what is wrong with them.
type compiler struct {
	radix    bool  // Exact is a pattern
	terms    terms // of the path that is being compiled
	problems []model.Problem
	before   map[string]*expression // of the last table, by text; may be nil
	now      map[string]*expression // nil: do not gather
}

func (c *compiler) add(at model.Origin, reason, message, mend string) {
	c.problems = append(c.problems, model.Problem{Origin: at, Reason: reason, Message: message, Mend: mend, Severity: model.Error})
}

// path compiles one path. What is wrong with it becomes a problem and makes the matcher broken.
func (c *compiler) path(at spot) *matcher {
	before, path := len(c.problems), at.path
	t := &c.terms
	*t = terms{methods: path.Methods, allow: joinMethods(path.Methods)}
	m := &matcher{terms: t}
	c.pattern(m, at)
	t.headers = conditions{c.conditions(path.Headers, "headers", at), path.MatchAllHdr}
	t.queries = conditions{c.conditions(path.Queries, "queries", at), path.MatchAllQuery}
	m.plain = len(t.methods) == 0 && len(t.headers.list) == 0 && len(t.queries.list) == 0
	if m.kind != nowherePath && m.kind != unknownPath && path.RewriteTarget != "" {
		var wrong string
		if t.rewrite, wrong = newRewrite(m, path.RewriteTarget); wrong != "" {
			c.add(at.origin("rewriteTarget"), "InvalidRewrite", "rewriteTarget "+quote(path.RewriteTarget)+" "+wrong, "")
		}
	}
	m.broken = len(c.problems) > before
	if m.plain && t.segments == nil && t.expression == nil && path.RewriteTarget == "" {
		m.terms = &noTerms
	} else {
		kept := *t
		m.terms = &kept
	}
	return m
}

// noTerms is shared and never changed.
var noTerms terms

// pattern fills in the path pattern of m.
func (c *compiler) pattern(m *matcher, at spot) {
	path := at.path
	type way struct {
		name, text string
		compile    func(c *compiler, m *matcher, text string) (wrong, mend string)
	}
	exact := way{"path", path.Exact, (*compiler).exact}
	if c.radix {
		exact.compile = (*compiler).segmented
	}
	set := false
	for _, w := range []way{
		exact,
		{"pathPrefix", path.Prefix, (*compiler).prefix},
		{"pathElementPrefix", path.ElementPrefix, (*compiler).elements},
		{"pathRegexp", path.Regexp, (*compiler).regexp},
	} {
		if w.text == "" {
			continue
		}
		if set {
			c.add(at.origin(w.name), "InvalidPath", w.name+" is set beside another pattern of the same path",
				"set one of path, pathPrefix, pathElementPrefix and pathRegexp")
			continue
		}
		set = true
		if wrong, mend := w.compile(c, m, w.text); wrong != "" {
			reason := "InvalidPath"
			if w.name == "pathRegexp" {
				reason = "InvalidRegexp"
			}
			c.add(at.origin(w.name), reason, w.name+" "+quote(w.text)+" "+wrong, mend)
		}
	}
}

const noSlash, startWithSlash = "does not start with a slash or has a NUL character", "write a path such as /a/b"

func (c *compiler) exact(m *matcher, text string) (wrong, mend string) {
	clean, ok := canon.RulePath(text)
	if !ok {
		m.kind = nowherePath
		return noSlash, startWithSlash
	}
	m.kind, m.clean = exactPath, clean
	return "", ""
}

// segmented compiles a pattern of kind RadixTree.
func (c *compiler) segmented(m *matcher, text string) (wrong, mend string) {
	if !strings.ContainsAny(text, "{}*") {
		wrong, mend = c.exact(m, text)
		if wrong == "" {
			m.kind, m.terms.segments = patternPath, literals(m.clean)
		}
		return wrong, mend
	}
	segments, err := parsePattern(text)
	if err != nil {
		m.kind, m.clean = unknownPath, text[:strings.IndexAny(text, "{}*")]
		return err.Error(), "write segments such as name, {name}, {name:regexp}, and * at the end"
	}
	m.kind, m.terms.segments = patternPath, segments
	return "", ""
}

func (c *compiler) prefix(m *matcher, text string) (wrong, mend string) {
	clean, ok := canon.RulePrefix(text)
	if !ok {
		m.kind = nowherePath
		return noSlash, startWithSlash
	}
	m.kind, m.clean = prefixPath, clean
	if c.radix {
		m.terms.segments = literals(clean)
		m.terms.segments[len(m.terms.segments)-1].rank = wildcard
	}
	return "", ""
}

func (c *compiler) elements(m *matcher, text string) (wrong, mend string) {
	clean, ok := canon.RulePath(text)
	if !ok {
		m.kind = nowherePath
		return noSlash, startWithSlash
	}
	m.kind, m.clean = elementPath, strings.TrimSuffix(clean, "/")
	if c.radix {
		if m.clean != "" {
			m.terms.segments = literals(m.clean)
		}
		m.terms.segments = append(m.terms.segments, segment{rank: elements})
	}
	return "", ""
}

func (c *compiler) regexp(m *matcher, text string) (wrong, mend string) {
	e, found := c.before[text]
	if !found {
		var err error
		if e, err = pathExpression(text); err != nil {
			m.kind, m.clean = unknownPath, literalStart(text)
			return err.Error(), ""
		}
	}
	if c.now != nil {
		c.now[text] = e
	}
	m.kind, m.clean, m.terms.expression = regexpPath, e.prefix, e
	return "", ""
}

func (c *compiler) conditions(matches []model.Match, name string, at spot) []condition {
	var list []condition
	for i, match := range matches {
		one := condition{key: match.Key, values: match.Values}
		field := item(name, i)
		switch {
		case match.Key == "":
			c.add(at.origin(field+".key"), "InvalidMatch", "the condition has no key", "name the header field or query parameter")
		case len(match.Values) == 0 && match.Regexp == "":
			c.add(at.origin(field), "InvalidMatch", "the condition on "+quote(match.Key)+" has neither values nor regexp",
				"set one of them; regexp: .* takes every value")
		}
		if match.Regexp != "" {
			re, err := expressionOf(match.Regexp)
			if err != nil {
				c.add(at.origin(field+".regexp"), "InvalidRegexp", "regexp "+err.Error(), "")
			}
			one.re = re
		}
		list = append(list, one)
	}
	return list
}

func joinMethods(methods []string) string {
	if len(methods) == 0 {
		return ""
	}
	sorted := slices.Clone(methods)
	slices.Sort(sorted)
	return strings.Join(slices.Compact(sorted), ", ")
}
