package document

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Unmarshaler is a type that takes its value apart itself, so that mistakes inside still have their path and line.
type Unmarshaler interface {
	UnmarshalNode(n Node)
}

// Node is a value of a document while that is being decoded.
type Node struct {
	w *walker
	n *yaml.Node
}

// Decode is Document.Decode for this value; mistakes go to the list of the document.
func (n Node) Decode(into any) {
	v := reflect.ValueOf(into).Elem()
	n.w.value(n.n, v, n.w.doc.plans.of(v.Type()))
}

// JSON returns the value as JSON with sorted keys, nil when it has none.
func (n Node) JSON() []byte {
	raw, _ := n.w.json(n.n)
	return raw
}

// Split returns two mappings: the given keys with their values, and the rest. What is no mapping is returned as both.
func (n Node) Split(keys ...string) (chosen, rest Node) {
	if n.n.Kind != yaml.MappingNode {
		return n, n
	}
	a, b := *n.n, *n.n
	a.Content, b.Content = nil, nil
	pairs, _ := n.w.pairs(n.n)
	for i := 0; i+1 < len(pairs); i += 2 {
		if slices.Contains(keys, pairs[i].Value) {
			a.Content = append(a.Content, pairs[i], pairs[i+1])
		} else {
			b.Content = append(b.Content, pairs[i], pairs[i+1])
		}
	}
	return Node{n.w, &a}, Node{n.w, &b}
}
