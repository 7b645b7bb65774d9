package document

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxLocate is the text up to which the line of a mistake is searched for. The parser itself names the line where
// the surrounding mapping begins, and nothing at all for the first one.
const maxLocate = 64 << 10

// locate returns the line of a YAML mistake, from 1, and says it in plain words.
func locate(text []byte, err error) (int, string) {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, found := strings.CutPrefix(message, "line "); found {
		if number, after, found := strings.Cut(rest, ": "); found {
			if n, err := strconv.Atoi(number); err == nil {
				line, message = n, after
			}
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if len(text) <= maxLocate {
		if bad := firstBad(lines); bad > line || strings.Contains(message, "unexpected end of stream") {
			line = bad
		}
	}
	line = min(line, len(lines))
	return line, plain(message, string(lines[line-1]))
}

// firstBad is the line after the longest start of the text that can be parsed. A start that ends inside brackets or quotes
// cannot, though the text is right: so a few lines more are tried after each that fails.
func firstBad(lines [][]byte) int {
	const ahead = 8
	good, bad := 0, len(lines)
	for good+1 < bad {
		mid := (good + bad) / 2
		for n := mid; n < min(mid+ahead, bad); n++ {
			if parses(lines[:n]) {
				good = n
				break
			}
		}
		if good < mid {
			bad = mid
		}
	}
	return good + 1
}

func parses(lines [][]byte) bool {
	var n yaml.Node
	return yaml.Unmarshal(bytes.Join(lines, nil), &n) == nil
}

// plain turns a message of the parser into one that says what to do.
func plain(message, line string) string {
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case strings.Contains(indent, "\t"):
		return "a tab in the indentation: YAML is indented with spaces"
	case strings.Contains(message, "cannot start any token"):
		return fmt.Sprintf("text here begins with a character that YAML reserves (%s): put it in quotes", message)
	case strings.Contains(message, "mapping values are not allowed"):
		return `": " where no key can stand: put text that has ": " in quotes, or mend the indentation`
	case strings.Contains(message, "did not find expected key"), strings.Contains(message, "did not find expected '-' indicator"):
		return "the indentation is not that of the lines before, or a \":\" or \"-\" is missing"
	case strings.Contains(message, "could not find expected ':'"):
		return `a key without ":"`
	case strings.Contains(message, "unexpected end of stream"), strings.Contains(message, "unexpected document indicator"):
		return "a quote is not closed"
	case strings.Contains(message, "did not find expected ',' or"):
		return "a bracket is not closed, or a comma is missing"
	case strings.Contains(message, "UTF-8"), strings.Contains(message, "control characters"):
		return "characters that no text has: save the file as UTF-8 text"
	}
	return "no valid YAML: " + message
}
