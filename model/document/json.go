package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// asJSON returns text with separator and comments before the value blanked, and whether that value is an object with quoted
// keys, as JSON has them.
func asJSON(text []byte) ([]byte, bool) {
	start := 0
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) == 0 || trimmed[0] == '#' || string(trimmed) == "---" {
			start += len(line)
			continue
		}
		break
	}
	rest := bytes.TrimSpace(bytes.TrimPrefix(text[start:], []byte("---")))
	if len(rest) < 2 || rest[0] != '{' {
		return nil, false
	}
	if next := bytes.TrimSpace(rest[1:]); len(next) == 0 || next[0] != '"' && next[0] != '}' {
		return nil, false
	}
	start = len(text) - len(bytes.TrimLeft(bytes.TrimPrefix(text[start:], []byte("---")), " \t\r\n"))
	blank := bytes.Repeat([]byte("\n"), bytes.Count(text[:start], []byte("\n")))
	return append(blank, text[start:]...), true
}

// parseJSON reads objects that follow one another into the nodes that YAML would have given.
func parseJSON(text []byte) (roots []*yaml.Node, line int, problem string) {
	r := &jsonReader{text: text, tokens: json.NewDecoder(bytes.NewReader(text)), line: 1}
	r.tokens.UseNumber()
	for {
		root, err := r.value(0)
		switch {
		case errors.Is(err, io.EOF):
			return roots, 0, ""
		case err != nil:
			return nil, r.lineAt(r.failedAt(err)), "no valid JSON: " + err.Error()
		}
		roots = append(roots, root)
	}
}

type jsonReader struct {
	text   []byte
	tokens *json.Decoder
	at     int64 // up to where lines were counted
	line   int
}

// lineAt is the line of an offset; offsets must not go back.
func (r *jsonReader) lineAt(offset int64) int {
	if offset > int64(len(r.text)) {
		offset = int64(len(r.text))
	}
	if offset > r.at {
		r.line += bytes.Count(r.text[r.at:offset], []byte("\n"))
		r.at = offset
	}
	return r.line
}

func (r *jsonReader) failedAt(err error) int64 {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && int(syntax.Offset) < len(r.text) {
		return syntax.Offset
	}
	return int64(len(bytes.TrimSpace(r.text)) + len(r.text) - len(bytes.TrimLeft(r.text, " \t\r\n"))) // the end came too early
}

// value returns io.EOF only where no value begins at the outermost level.
func (r *jsonReader) value(depth int) (*yaml.Node, error) {
	token, err := r.tokens.Token()
	if err != nil {
		if depth > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxDepth)
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.lineAt(r.tokens.InputOffset())}
	switch token := token.(type) {
	case json.Delim:
		return n, r.fill(n, token, depth)
	case string:
		n.Tag, n.Value, n.Style = "!!str", token, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = "!!int", token.String()
		if bytes.ContainsAny([]byte(n.Value), ".eE") {
			n.Tag = "!!float"
		}
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(token)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

// fill reads the rest of an object or an array.
func (r *jsonReader) fill(n *yaml.Node, open json.Delim, depth int) error {
	n.Kind, n.Tag = yaml.MappingNode, "!!map"
	if open == '[' {
		n.Kind, n.Tag = yaml.SequenceNode, "!!seq"
	}
	for r.tokens.More() {
		// The tokens of an object are its keys and values in turn; the decoder sees to it that keys are strings.
		item, err := r.value(depth + 1)
		if err != nil {
			return err
		}
		n.Content = append(n.Content, item)
	}
	_, err := r.tokens.Token()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}
