package route

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"sluice.dev/sluice/canon"
)

// literals are the segments of a path without parameters.
func literals(path string) []segment {
	var all []segment
	for text := range strings.SplitSeq(path[1:], "/") {
		all = append(all, segment{text: text})
	}
	return all
}

// parsePattern parses a pattern of kind RadixTree.
func parsePattern(pattern string) ([]segment, error) {
	if pattern[0] != '/' {
		return nil, errors.New("does not start with a slash")
	}
	texts, err := splitPattern(pattern[1:])
	if err != nil {
		return nil, err
	}
	names := map[string]bool{wildcardName: true}
	var all []segment
	for i, text := range texts {
		s, err := parseSegment(text, names)
		if err != nil {
			return nil, err
		}
		if s.rank == wildcard && i < len(texts)-1 {
			return nil, errors.New("has a * that is not at its end")
		}
		all = append(all, s)
	}
	return all, nil
}

// splitPattern splits at slashes outside braces.
func splitPattern(pattern string) ([]string, error) {
	var texts []string
	depth, start := 0, 0
	for i := range len(pattern) {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '/':
			if depth == 0 {
				texts = append(texts, pattern[start:i])
				start = i + 1
			}
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return nil, errors.New("has braces that do not pair")
	}
	return append(texts, pattern[start:]), nil
}

// parseSegment parses one segment and adds the names of its parameters to names.
func parseSegment(text string, names map[string]bool) (segment, error) {
	if text == "." || text == ".." {
		return segment{}, errors.New("has a dot segment beside parameters, which no path has")
	}
	p := segmentParser{names: names}
	for rest := text; rest != ""; {
		var err error
		if rest, err = p.piece(rest); err != nil {
			return segment{}, err
		}
	}
	return p.segment()
}

// segmentParser gathers the pieces of one segment.
type segmentParser struct {
	names      map[string]bool
	source     strings.Builder // as an expression
	key        strings.Builder // as written, without names
	text       string          // the literal text, as long as there are no parameters
	parameters int
	restricted bool
	star       bool
	only       string // the name, when the segment is just one {name}
}

// piece takes one parameter, or the text before the next, off rest.
func (p *segmentParser) piece(rest string) (string, error) {
	if rest[0] != '{' {
		end := strings.IndexByte(rest, '{')
		if end < 0 {
			end = len(rest)
		}
		return rest[end:], p.literal(rest[:end], end == len(rest))
	}
	depth, end := 0, 0
	for ; end < len(rest); end++ {
		if rest[end] == '{' {
			depth++
		} else if rest[end] == '}' {
			if depth--; depth == 0 {
				break
			}
		}
	}
	name, expression, restricted := strings.Cut(rest[1:end], ":")
	switch {
	case !isName(name):
		return "", fmt.Errorf("has a parameter %s whose name is not letters, digits and _", quote(rest[:end+1]))
	case p.names[name]:
		return "", fmt.Errorf("has the parameter name %s twice, or it is %s", quote(name), wildcardName)
	}
	p.names[name] = true
	p.parameters++
	p.only = name
	p.restricted = p.restricted || restricted
	if restricted {
		if _, err := expressionOf(expression); err != nil {
			return "", fmt.Errorf("parameter %s: %w", name, err)
		}
	} else {
		expression = "[^/]+?"
	}
	p.source.WriteString("(?P<" + name + ">" + expression + ")")
	p.key.WriteString("{" + expression + "}")
	return rest[end+1:], nil
}

func (p *segmentParser) literal(text string, last bool) error {
	if text, p.star = strings.CutSuffix(text, "*"); p.star && (!last || p.parameters > 0) {
		return errors.New("has a * beside a parameter in one segment")
	}
	if strings.Contains(text, "*") {
		return errors.New("has a * that is not at its end; write %2A for the character")
	}
	clean, ok := canon.RuleText(text)
	if !ok {
		return errors.New("has a NUL character")
	}
	p.text += clean
	p.source.WriteString(regexp.QuoteMeta(clean))
	p.key.WriteString(clean)
	return nil
}

func (p *segmentParser) segment() (segment, error) {
	switch {
	case p.star:
		return segment{rank: wildcard, text: p.text}, nil
	case p.parameters == 0:
		return segment{rank: literal, text: p.text}, nil
	case p.parameters == 1 && p.text == "" && !p.restricted:
		return segment{rank: parameter, name: p.only}, nil
	}
	e, err := pathExpression("^(?:" + p.source.String() + ")$")
	if err != nil {
		return segment{}, err
	}
	s := segment{rank: mixed, text: p.key.String(), re: e.re}
	if p.restricted {
		s.rank = restricted
	}
	return s, nil
}

func isName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
