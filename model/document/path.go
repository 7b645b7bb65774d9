package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// step is one step of a field path: the key of a mapping or the index of a list.
type step struct {
	key   string
	index int
	item  bool
}

// render writes a path as Kubernetes does: a.b[0].c, and a[k.e/y] for a key that is no plain name.
func render(path []step) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s.item:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plainName(s.key):
			b.WriteString("[" + shorten(s.key) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

func plainName(s string) bool {
	return s != "" && !strings.ContainsAny(s, ".[]/ \"\n")
}

// LineOf returns the line of the field that a path leads to, as FieldError and model.Origin write it. Where the document
// lacks a part of the path, it is the line of the last one that is there.
func (d *Document) LineOf(path string) int {
	n, line := d.root, d.root.Line
	for path != "" {
		var name string
		name, path = nextStep(path)
		next, at := find(n, name)
		if next == nil {
			break
		}
		n, line = next, at
	}
	return line + d.offset
}

// nextStep cuts the first step off: a name, or what stands in brackets.
func nextStep(path string) (name, rest string) {
	path = strings.TrimPrefix(path, ".")
	if strings.HasPrefix(path, "[") {
		if end := strings.IndexByte(path, ']'); end > 0 {
			return strings.Trim(path[1:end], `"`), path[end+1:]
		}
		return path[1:], ""
	}
	if end := strings.IndexAny(path, ".["); end > 0 {
		return path[:end], path[end:]
	}
	return path, ""
}

// find returns the value of a key or an index and the line where it begins.
func find(n *yaml.Node, name string) (*yaml.Node, int) {
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(n.Content) {
			return resolved(n.Content[i]), n.Content[i].Line
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				return resolved(n.Content[i+1]), n.Content[i].Line
			}
		}
	}
	return nil, 0
}
