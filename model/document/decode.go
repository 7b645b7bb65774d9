package document

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// The reasons of field errors.
const (
	UnknownField = "UnknownField"
	DuplicateKey = "DuplicateKey"
	WrongType    = "WrongType"
	BadValue     = "BadValue"
)

// FieldError is a mistake in one field of a document.
type FieldError struct {
	Path    string // such as spec.rules[0].http.paths[1].pathType; "" is the document
	Line    int    // in the file, from 1
	Reason  string // one of the reasons above
	Message string // what is wrong
	Mend    string // how to mend it; "" when the message says it

	Field   string       // UnknownField: its name
	Nearest string       // UnknownField: the known name that was probably meant
	In      reflect.Type // UnknownField: the struct that has no such field
	Empty   bool         // UnknownField: its value is nothing, false, 0 or empty
}

func (e FieldError) Error() string {
	s := e.Message
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	if e.Mend != "" {
		s += "; " + e.Mend
	}
	return s
}

// maxErrors is how many mistakes of one document are listed.
const maxErrors = 100

// Decode fills in the value that into points to and returns every mistake, in the order of lines: fields that the type has not,
// keys given twice, values of the wrong type or out of range. What could be read is in the value nevertheless. Names
// compare case-sensitively, as Kubernetes does.
func (d *Document) Decode(into any) []FieldError {
	v := reflect.ValueOf(into)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		panic("document: Decode needs a pointer that is not nil")
	}
	w := &walker{doc: d, aliasBudget: maxAlias}
	w.value(d.root, v.Elem(), d.plans.of(v.Type().Elem()))
	slices.SortStableFunc(w.errs, func(a, b FieldError) int { return cmp.Compare(a.Line, b.Line) })
	return w.errs
}

// walker goes through the nodes of one document and a Go value side by side.
type walker struct {
	doc         *Document
	path        []step
	errs        []FieldError
	inAlias     int
	aliasBudget int
	stop        bool // the document is not worth going on with
}

// errorAt notes a mistake in what path leads to.
func (w *walker) errorAt(n *yaml.Node, e FieldError) {
	if w.stop {
		return
	}
	e.Path, e.Line = render(w.path), n.Line+w.doc.offset
	w.errs = append(w.errs, e)
	if len(w.errs) == maxErrors {
		w.errs = append(w.errs, FieldError{Line: e.Line, Reason: BadValue, Message: fmt.Sprintf("more than %d mistakes; the rest is not listed", maxErrors)})
		w.stop = true
	}
}

func (w *walker) fail(n *yaml.Node, reason, message, mend string) {
	w.errorAt(n, FieldError{Reason: reason, Message: message, Mend: mend})
}

// wrong notes that n is not what is wanted.
func (w *walker) wrong(n *yaml.Node, want, mend string) {
	w.fail(n, WrongType, "must be "+want+", not "+describe(n), mend)
}

// enter follows an alias and keeps depth and expansion in bounds; leave must be called when it reports true.
func (w *walker) enter(n *yaml.Node) (*yaml.Node, bool) {
	if w.stop {
		return nil, false
	}
	if len(w.path) > maxDepth {
		w.fail(n, BadValue, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
		w.stop = true
		return nil, false
	}
	if n.Kind == yaml.AliasNode || w.inAlias > 0 {
		if w.aliasBudget--; w.aliasBudget < 0 {
			w.fail(n, BadValue, fmt.Sprintf("the aliases of this document stand for more than %d values", maxAlias), "write the values out")
			w.stop = true
			return nil, false
		}
		w.inAlias++
	}
	return resolved(n), true
}

func (w *walker) leave() {
	if w.inAlias > 0 {
		w.inAlias--
	}
}

func (w *walker) value(n *yaml.Node, v reflect.Value, p *plan) {
	n, ok := w.enter(n)
	if !ok {
		return
	}
	defer w.leave()
	if isNull(n) {
		return // as in JSON: the field is not set
	}
	switch p.form {
	case formPointer:
		if v.IsNil() {
			v.Set(reflect.New(p.elem.typ))
		}
		w.value(n, v.Elem(), p.elem)
	case formNode:
		v.Addr().Interface().(Unmarshaler).UnmarshalNode(Node{w, n})
	case formStruct:
		w.structure(n, v, p)
	case formMap:
		w.mapping(n, v, p)
	case formSlice:
		w.list(n, v, p)
	case formAny:
		if x, ok := w.any(n); ok && x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case formJSON, formText, formOther:
		w.foreign(n, v, p)
	default:
		w.scalar(n, v, p)
	}
}

// structure decodes a mapping by the fields of a struct.
func (w *walker) structure(n *yaml.Node, v reflect.Value, p *plan) {
	if n.Kind != yaml.MappingNode {
		w.wrong(n, "a mapping", "")
		return
	}
	first := make([]int, len(p.fields)) // line of each field that was seen
	pairs, merged := w.pairs(n)
	for i := 0; i+1 < len(pairs) && !w.stop; i += 2 {
		key := pairs[i]
		if !w.isKey(key) {
			continue
		}
		f := p.fields[key.Value]
		w.path = append(w.path, step{key: key.Value})
		switch {
		case f == nil:
			w.unknown(key, pairs[i+1], p)
		case first[f.nth] != 0 && i >= merged:
			// A key of a merged mapping: the mapping's own counts.
		case first[f.nth] != 0:
			w.twice(key, first[f.nth])
		default:
			first[f.nth] = key.Line
			w.value(pairs[i+1], fieldOf(v, f), f.plan)
		}
		w.path = w.path[:len(w.path)-1]
	}
}

func (w *walker) isKey(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		w.fail(n, WrongType, "a key must be text, not "+describe(resolved(n)), "")
	}
	return n.Kind == yaml.ScalarNode
}

// fieldOf is faster than FieldByIndex for the usual field.
func fieldOf(v reflect.Value, f *field) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	return v.FieldByIndex(f.index)
}

func (w *walker) unknown(key, value *yaml.Node, p *plan) {
	e := FieldError{Reason: UnknownField, Field: key.Value, In: p.typ, Empty: isEmpty(resolved(value))}
	e.Message = fmt.Sprintf("unknown field %q", shorten(key.Value))
	if e.Nearest = Nearest(key.Value, p.names()); e.Nearest != "" {
		e.Mend = fmt.Sprintf("did you mean %q?", e.Nearest)
	}
	w.errorAt(key, e)
}

func isEmpty(n *yaml.Node) bool {
	if n.Kind != yaml.ScalarNode {
		return len(n.Content) == 0
	}
	return isNull(n) || n.Value == "" || n.Tag == "!!bool" && n.Value == "false" || n.Tag == "!!int" && n.Value == "0"
}

func (w *walker) twice(key *yaml.Node, line int) {
	w.fail(key, DuplicateKey, fmt.Sprintf("%q is given twice, on lines %d and %d", shorten(key.Value), line+w.doc.offset, key.Line+w.doc.offset), "remove one of them")
}

// pairs returns the keys and values of a mapping, those that << merges into it last, from index merged on.
func (w *walker) pairs(n *yaml.Node) (pairs []*yaml.Node, merged int) {
	merge := -1
	for i := 0; i+1 < len(n.Content) && merge < 0; i += 2 {
		if n.Content[i].Tag == "!!merge" {
			merge = i
		}
	}
	if merge < 0 {
		return n.Content, len(n.Content)
	}
	var sources []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag == "!!merge" {
			sources = append(sources, n.Content[i+1])
		} else {
			pairs = append(pairs, n.Content[i], n.Content[i+1])
		}
	}
	merged = len(pairs)
	for _, source := range sources {
		pairs = w.merge(pairs, source)
	}
	return pairs, merged
}

func (w *walker) merge(pairs []*yaml.Node, source *yaml.Node) []*yaml.Node {
	n, ok := w.enter(source)
	if !ok {
		return pairs
	}
	defer w.leave()
	w.path = append(w.path, step{key: "<<"})
	defer func() { w.path = w.path[:len(w.path)-1] }()
	switch n.Kind {
	case yaml.MappingNode:
		inner, _ := w.pairs(n)
		return append(pairs, inner...)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			pairs = w.merge(pairs, item)
		}
	default:
		w.wrong(n, "a mapping to merge", "")
	}
	return pairs
}

// mapping decodes into a map with text keys.
func (w *walker) mapping(n *yaml.Node, v reflect.Value, p *plan) {
	if n.Kind != yaml.MappingNode {
		w.wrong(n, "a mapping", "")
		return
	}
	pairs, merged := w.pairs(n)
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(p.typ, len(pairs)/2))
	}
	lines := make(map[string]int, len(pairs)/2)
	for i := 0; i+1 < len(pairs) && !w.stop; i += 2 {
		key := pairs[i]
		if !w.isKey(key) {
			continue
		}
		w.path = append(w.path, step{key: key.Value})
		switch line := lines[key.Value]; {
		case line != 0 && i < merged:
			w.twice(key, line)
		case line == 0:
			lines[key.Value] = key.Line
			item := reflect.New(p.elem.typ).Elem()
			w.value(pairs[i+1], item, p.elem)
			v.SetMapIndex(reflect.ValueOf(key.Value).Convert(p.typ.Key()), item)
		}
		w.path = w.path[:len(w.path)-1]
	}
}

func (w *walker) list(n *yaml.Node, v reflect.Value, p *plan) {
	if n.Kind != yaml.SequenceNode {
		w.wrong(n, "a list", "begin each item with \"- \"")
		return
	}
	made := reflect.MakeSlice(p.typ, len(n.Content), len(n.Content))
	v.Set(made)
	for i, item := range n.Content {
		w.path = append(w.path, step{index: i, item: true})
		if isNull(resolved(item)) {
			w.fail(item, BadValue, "an empty item", "remove it")
		}
		w.value(item, made.Index(i), p.elem)
		w.path = w.path[:len(w.path)-1]
	}
}

// foreign decodes a type that knows its JSON or text form.
func (w *walker) foreign(n *yaml.Node, v reflect.Value, p *plan) {
	raw, ok := w.json(n)
	if !ok {
		return
	}
	var err error
	switch target := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		err = target.UnmarshalJSON(raw)
	default:
		err = json.Unmarshal(raw, target)
	}
	if err == nil {
		return
	}
	reason, message, mend := explain(n, p.typ, err)
	w.fail(n, reason, message, mend)
}

// explain says what a foreign decoder's error means.
func explain(n *yaml.Node, t reflect.Type, err error) (reason, message, mend string) {
	switch t.Name() {
	case "Time", "MicroTime":
		return BadValue, "must be a time, not " + describe(n), "write it as 2026-01-31T10:00:00Z"
	case "IntOrString":
		return WrongType, "must be a number or a name, not " + describe(n), ""
	case "Quantity":
		return BadValue, "must be a quantity, not " + describe(n), "write it as 500m, 2 or 1Gi"
	}
	return BadValue, err.Error(), ""
}

// json returns n as JSON.
func (w *walker) json(n *yaml.Node) ([]byte, bool) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		return appendJSON(nil, n.Value), true
	}
	x, ok := w.any(n)
	if !ok {
		return nil, false
	}
	raw, err := json.Marshal(x)
	if err != nil {
		w.fail(n, BadValue, err.Error(), "")
		return nil, false
	}
	return raw, true
}

func appendJSON(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			raw, _ := json.Marshal(s) // text always has a JSON form
			return append(b, raw...)
		}
	}
	return strconv.AppendQuote(b, s)
}
