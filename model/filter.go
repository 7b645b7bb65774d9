package model

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sluice.dev/sluice/model/document"
)

// naming is the part of a filter that all kinds have.
type naming struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// UnmarshalNode reads a filter from a document, so that mistakes inside a Proxy have their place.
func (f *Filter) UnmarshalNode(n document.Node) {
	head, rest := n.Split("name", "kind")
	var names naming
	head.Decode(&names)
	*f = Filter{Name: names.Name, Kind: names.Kind}
	if f.Kind == KindProxy {
		f.Proxy = new(Proxy)
		rest.Decode(f.Proxy)
		return
	}
	f.Raw = rest.JSON()
}

// UnmarshalJSON reads a filter from JSON.
func (f *Filter) UnmarshalJSON(raw []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return fmt.Errorf("read a filter: %w", err)
	}
	var names naming
	if err := json.Unmarshal(raw, &names); err != nil {
		return fmt.Errorf("read name and kind of a filter: %w", err)
	}
	*f = Filter{Name: names.Name, Kind: names.Kind}
	if f.Kind == KindProxy {
		f.Proxy = new(Proxy)
		return json.Unmarshal(raw, f.Proxy)
	}
	delete(fields, "name")
	delete(fields, "kind")
	var err error
	f.Raw, err = json.Marshal(fields)
	return err
}

// MarshalJSON writes name and kind first, then the fields of the kind.
func (f Filter) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(naming{f.Name, f.Kind})
	if err != nil {
		return nil, err
	}
	rest := f.Raw
	if f.Proxy != nil {
		if rest, err = json.Marshal(f.Proxy); err != nil {
			return nil, err
		}
	}
	rest = bytes.TrimSpace(rest)
	if len(rest) < 2 || rest[0] != '{' {
		return head, nil
	}
	if rest = bytes.TrimSpace(rest[1:]); rest[0] == '}' {
		return head, nil
	}
	return append(append(head[:len(head)-1], ','), rest...), nil
}
