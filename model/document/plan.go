package document

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// form is how a value of a Go type is decoded.
type form uint8

const (
	formOther form = iota // by way of encoding/json
	formNode              // Unmarshaler
	formJSON              // json.Unmarshaler
	formText              // encoding.TextUnmarshaler
	formPointer
	formStruct
	formMap
	formSlice
	formBytes
	formString
	formBool
	formInt
	formUint
	formFloat
	formAny
)

// plan is what reflection says of a type, asked once.
type plan struct {
	typ    reflect.Type
	form   form
	elem   *plan // of pointers, maps and slices
	fields map[string]*field
}

type field struct {
	index []int
	nth   int // in its struct, to tell duplicates
	plan  *plan
}

// plans are shared by the documents of one file. They may be used from several goroutines.
type plans struct {
	mu    sync.Mutex
	known map[reflect.Type]*plan
}

func (p *plans) of(t reflect.Type) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil {
		p.known = map[reflect.Type]*plan{}
	}
	return p.build(t)
}

func (p *plans) build(t reflect.Type) *plan {
	if made := p.known[t]; made != nil {
		return made
	}
	made := &plan{typ: t, form: formOf(t)}
	p.known[t] = made
	switch made.form {
	case formPointer, formMap, formSlice:
		made.elem = p.build(t.Elem())
	case formStruct:
		made.fields = map[string]*field{}
		p.addFields(made, t, nil)
	}
	return made
}

// addFields takes fields by the rules of encoding/json as far as API types use them: a tag's name counts, an embedded struct
// without a name lends its fields, an outer field hides an inner one.
func (p *plans) addFields(made *plan, t reflect.Type, index []int) {
	var embedded []reflect.StructField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			embedded = append(embedded, f)
			continue
		case name == "":
			name = f.Name
		}
		if made.fields[name] == nil {
			at := append(append([]int(nil), index...), i)
			made.fields[name] = &field{index: at, nth: len(made.fields), plan: p.build(f.Type)}
		}
	}
	for _, f := range embedded {
		p.addFields(made, f.Type, append(append([]int(nil), index...), f.Index...))
	}
}

func formOf(t reflect.Type) form {
	switch pointer := reflect.PointerTo(t); {
	case t.Kind() == reflect.Pointer:
		return formPointer
	case pointer.Implements(reflect.TypeFor[Unmarshaler]()):
		return formNode
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return formJSON
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return formText
	}
	switch t.Kind() {
	case reflect.Struct:
		return formStruct
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return formMap
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return formBytes
		}
		return formSlice
	case reflect.String:
		return formString
	case reflect.Bool:
		return formBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return formInt
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return formUint
	case reflect.Float32, reflect.Float64:
		return formFloat
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return formAny
		}
	}
	return formOther
}

// names lists the fields that a mapping for this type may have.
func (p *plan) names() []string {
	names := make([]string, 0, len(p.fields))
	for name := range p.fields {
		names = append(names, name)
	}
	return names
}
