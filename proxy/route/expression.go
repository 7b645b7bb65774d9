package route

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"sluice.dev/sluice/canon"
)

// The caps on a regular expression: matching costs at most their product with the length of the text.
const (
	maxExpression = 4096 // bytes
	maxProgram    = 5000 // instructions
)

// expression is a compiled regular expression on paths.
type expression struct {
	re     *regexp.Regexp
	prefix string // what every match begins with; "" when it may match anywhere
}

// expressionOf compiles a regular expression (RE2) within the caps.
func expressionOf(text string) (*regexp.Regexp, error) {
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	return compile(text, parsed)
}

// hostExpression is expressionOf for hosts: they compare in any case.
func hostExpression(text string) (*regexp.Regexp, error) {
	if _, err := parse(text); err != nil { // by itself, so that the brackets below cannot mend it
		return nil, err
	}
	return expressionOf("(?i:" + text + ")")
}

// pathExpression is expressionOf for paths: its literal text is put in the canonical form that paths have.
func pathExpression(text string) (*expression, error) {
	parsed, err := parse(text)
	if err != nil {
		return nil, err
	}
	canonical := text
	if canonicalize(parsed) {
		canonical = parsed.String()
	}
	re, err := compile(text, parsed)
	if err == nil && canonical != text {
		re, err = regexp.Compile(canonical)
	}
	if err != nil {
		return nil, err
	}
	return &expression{re: re, prefix: anchored(parsed)}, nil
}

func parse(text string) (*syntax.Regexp, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("%s is %d bytes long, more than %d; split it into several rules", quote(text), len(text), maxExpression)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		return parsed, nil
	}
	var wrong *syntax.Error
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("%s is no regular expression (RE2): %s: %s", quote(text), wrong.Code, quote(wrong.Expr))
	}
	return nil, fmt.Errorf("%s is no regular expression (RE2): %w", quote(text), err)
}

func compile(text string, parsed *syntax.Regexp) (*regexp.Regexp, error) {
	if n := size(parsed); n > maxProgram {
		return nil, fmt.Errorf("%s makes a program of about %d instructions, more than %d; repeat less", quote(text), n, maxProgram)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("%s is no regular expression (RE2): %w", quote(text), err)
	}
	return re, nil
}

// size estimates the instructions of a program without making it: making it is what costs.
func size(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass:
		return 1 + len(re.Rune)/64
	case syntax.OpCapture:
		n = 2
	}
	for _, sub := range re.Sub {
		n += size(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) + 1
	}
	return min(n, 1<<40)
}

// canonicalize puts the literals of re in the canonical form of paths and reports whether that changed any.
func canonicalize(re *syntax.Regexp) bool {
	changed := false
	for _, sub := range re.Sub {
		changed = canonicalize(sub) || changed
	}
	if re.Op != syntax.OpLiteral {
		return changed
	}
	was := string(re.Rune)
	var out strings.Builder
	for rest := was; rest != ""; {
		_, n := utf8.DecodeRuneInString(rest)
		if rest[0] == '%' {
			if len(rest) >= 3 && isHex(rest[1]) && isHex(rest[2]) {
				n = 3
			} else { // its digits may follow in another form, such as a class
				out.WriteByte('%')
				rest = rest[1:]
				continue
			}
		}
		clean, ok := canon.RuleText(rest[:n])
		if !ok {
			clean = rest[:n]
		}
		out.WriteString(clean)
		rest = rest[n:]
	}
	if out.String() == was {
		return changed
	}
	re.Rune = []rune(out.String())
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

// anchored returns the literal text that a match must begin with at the start of the path, "" for none.
func anchored(re *syntax.Regexp) string {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op != syntax.OpConcat || len(re.Sub) < 2 || re.Sub[0].Op != syntax.OpBeginText {
		return ""
	}
	literal := re.Sub[1]
	if literal.Op != syntax.OpLiteral || literal.Flags&syntax.FoldCase != 0 {
		return ""
	}
	return string(literal.Rune)
}

// literalStart guesses, for a broken expression, what its matches would have begun with.
func literalStart(text string) string {
	rest, found := strings.CutPrefix(text, "^")
	if !found || strings.Contains(rest, "|") {
		return ""
	}
	end := strings.IndexAny(rest, `\.+*?()[]{}^$`)
	if end < 0 {
		return rest
	}
	if end > 0 && strings.IndexByte("*?{", rest[end]) >= 0 {
		end-- // what it repeats may be missing
	}
	return rest[:end]
}
