package route

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// rank orders what can stand at the same place of a path in a pattern, the most specific first.
type rank uint8

const (
	literal    rank = iota
	restricted      // has a {name:regexp}
	mixed           // text and {name}
	parameter       // {name}
	wildcard        // text and a final *, over all that follows
	elements        // end of a pathElementPrefix: nothing or more elements
)

// wildcardName is the name that a rewrite target has for what the * matched.
const wildcardName = "EG_WILDCARD"

// segment is what a pattern asks of one segment of the path, or, at its end, of all the rest.
type segment struct {
	rank rank
	text string         // literal and wildcard: the text; restricted and mixed: as written, without the names
	re   *regexp.Regexp // restricted and mixed: with a group for each name
	name string         // parameter
}

// branch is a node of the tree of patterns: what their first segments have in common.
type branch struct {
	first     int32 // lowest order below
	literals  map[string]*branch
	regexps   []edge // restricted, then mixed
	parameter *branch
	leaves    []*matcher // the pattern ends here
	wildcards *node      // by the text before the *
	elements  []*matcher
}

type edge struct {
	segment segment
	to      *branch
}

func (b *branch) add(segments []segment, m *matcher) {
	if b.empty() || m.order < b.first {
		b.first = m.order
	}
	if len(segments) == 0 {
		b.leaves = insert(b.leaves, m)
		return
	}
	s := segments[0]
	switch s.rank {
	case elements:
		b.elements = insert(b.elements, m)
	case wildcard:
		if b.wildcards == nil {
			b.wildcards = &node{}
		}
		b.wildcards.at(s.text).add(m, prefixPath)
	default:
		b.child(s).add(segments[1:], m)
	}
}

func (b *branch) empty() bool {
	return b.literals == nil && b.regexps == nil && b.parameter == nil && b.leaves == nil && b.wildcards == nil && b.elements == nil
}

// child returns the branch behind a segment, made if need be.
func (b *branch) child(s segment) *branch {
	switch s.rank {
	case literal:
		if b.literals == nil {
			b.literals = map[string]*branch{}
		}
		if b.literals[s.text] == nil {
			b.literals[s.text] = &branch{}
		}
		return b.literals[s.text]
	case parameter:
		if b.parameter == nil {
			b.parameter = &branch{}
		}
		return b.parameter
	}
	at := len(b.regexps)
	for i, e := range b.regexps {
		if e.segment.rank == s.rank && e.segment.text == s.text {
			return e.to
		}
		if e.segment.rank > s.rank {
			at = i
			break
		}
	}
	to := &branch{}
	b.regexps = slices.Insert(b.regexps, at, edge{s, to})
	return to
}

// search offers every matcher below b that fits the rest of the path. Each branch is reached by one way only, so the cost is
// bounded by the tree. more is false at the end of the path.
func (b *branch) search(s *search, rest string, more bool) {
	if s.best != nil && b.first >= s.best.order {
		return
	}
	s.offer(b.elements)
	if !more {
		s.offer(b.leaves)
		return
	}
	text, behind, goesOn := strings.Cut(rest, "/")
	if to := b.literals[text]; to != nil {
		to.search(s, behind, goesOn)
	}
	for i := 0; text != "" && i < len(b.regexps); i++ {
		if e := &b.regexps[i]; (s.best == nil || e.to.first < s.best.order) && e.segment.re.MatchString(text) {
			e.to.search(s, behind, goesOn)
		}
	}
	if b.parameter != nil && text != "" {
		b.parameter.search(s, behind, goesOn)
	}
	if b.wildcards != nil {
		b.wildcards.walk(s, rest, false)
	}
}

// visit yields the matchers below b, the most specific first.
func (b *branch) visit(yield func(*matcher)) {
	each := func(list []*matcher) {
		for _, m := range list {
			yield(m)
		}
	}
	each(b.leaves)
	for _, text := range slices.Sorted(maps.Keys(b.literals)) { // no two of them fit the same path
		b.literals[text].visit(yield)
	}
	for _, e := range b.regexps {
		e.to.visit(yield)
	}
	if b.parameter != nil {
		b.parameter.visit(yield)
	}
	if b.wildcards != nil {
		b.wildcards.visit(yield)
	}
	each(b.elements)
}

// specificFirst puts the paths of one rule in the order that RadixTree prefers them in: patterns and prefixes by their
// segments, then regular expressions, then paths without a pattern; where that says nothing, in file order.
func specificFirst(paths []compiledPath) {
	tree := &branch{}
	var ordered, rest []compiledPath
	for i, p := range paths {
		if p.m.order = int32(i); p.m.terms.segments != nil {
			tree.add(p.m.terms.segments, p.m)
		} else {
			rest = append(rest, p)
		}
	}
	tree.visit(func(m *matcher) { ordered = append(ordered, paths[m.order]) })
	slices.SortStableFunc(rest, func(a, b compiledPath) int { return lastOf(a.m) - lastOf(b.m) })
	copy(paths, append(ordered, rest...))
}

func lastOf(m *matcher) int {
	switch m.kind {
	case regexpPath:
		return 0
	case anyPath:
		return 1
	}
	return 2
}

// matchSegments matches a path against a pattern and hands what its parameters took to capture, which may be nil.
func matchSegments(segments []segment, path string, capture func(name, value string)) bool {
	rest, more := strings.CutPrefix(path, "/")
	if !more {
		return false
	}
	for i := range segments {
		s := &segments[i]
		if s.rank == elements {
			return true
		}
		if !more {
			return false
		}
		if s.rank == wildcard {
			after, found := strings.CutPrefix(rest, s.text)
			if found && capture != nil {
				capture(wildcardName, after)
			}
			return found
		}
		var text string
		text, rest, more = strings.Cut(rest, "/")
		if !s.matches(text, capture) {
			return false
		}
	}
	return !more
}

func (s *segment) matches(text string, capture func(name, value string)) bool {
	switch {
	case s.rank == literal:
		return text == s.text
	case text == "":
		return false
	case s.rank == parameter:
		if capture != nil {
			capture(s.name, text)
		}
		return true
	case capture == nil:
		return s.re.MatchString(text)
	}
	values := s.re.FindStringSubmatch(text)
	for i, value := range values {
		if name := s.re.SubexpNames()[i]; name != "" {
			capture(name, value)
		}
	}
	return values != nil
}
