package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxLine is how long a mapping or list of plain values may be to stand in one line.
const maxLine = 100

// Encode writes a value as one YAML document the way a person would: its JSON form, with the fields in that order, without those that
// are null, and what is short and not deep in one line. Redact, which may be nil, replaces text that must not
// be shown.
func Encode(v any, redact func(key, value string) string) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a document: %w", err)
	}
	roots, _, problem := parseJSON(raw)
	if problem != "" || len(roots) != 1 {
		return nil, fmt.Errorf("encode a document: %s", problem)
	}
	tidy(roots[0], "", redact)
	roots[0].Style = 0
	var b bytes.Buffer
	out := yaml.NewEncoder(&b)
	out.SetIndent(2)
	out.CompactSeqIndent()
	if err := out.Encode(roots[0]); err != nil {
		return nil, fmt.Errorf("encode a document: %w", err)
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("encode a document: %w", err)
	}
	return b.Bytes(), nil
}

// tidy drops nulls and chooses styles. It returns the length of n in one line, or more than maxLine.
func tidy(n *yaml.Node, key string, redact func(key, value string) string) int {
	n.Line, n.Style = 0, 0
	switch n.Kind {
	case yaml.ScalarNode:
		if redact != nil && n.Tag == "!!str" {
			n.Value = redact(key, n.Value)
		}
		if strings.Contains(n.Value, "\n") {
			n.Style = yaml.LiteralStyle
			return maxLine + 1
		}
		return len(n.Value)
	case yaml.MappingNode:
		n.Content = withoutNulls(n.Content)
	}
	length, plain := 0, true
	for i, item := range n.Content {
		inner := key
		if n.Kind == yaml.MappingNode {
			inner = ""
			if i%2 == 1 {
				inner = n.Content[i-1].Value
			}
		}
		length += tidy(item, inner, redact) + 2
		plain = plain && (item.Kind == yaml.ScalarNode || item.Kind == yaml.SequenceNode && item.Style == yaml.FlowStyle && n.Kind == yaml.MappingNode)
	}
	if n.Kind == yaml.SequenceNode {
		plain = plain && !slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return strings.Contains(item.Value, ":") }) // would be quoted
	}
	if !plain || length > maxLine {
		return maxLine + 1
	}
	n.Style = yaml.FlowStyle
	return length
}

func withoutNulls(pairs []*yaml.Node) []*yaml.Node {
	kept := pairs[:0]
	for i := 0; i+1 < len(pairs); i += 2 {
		if !isNull(pairs[i+1]) {
			kept = append(kept, pairs[i], pairs[i+1])
		}
	}
	return kept
}
