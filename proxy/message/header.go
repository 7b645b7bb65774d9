package message

import (
	"iter"
	"strings"
)

// Field is one header or trailer field. Name keeps the case it came with. The strings are valid for ever.
type Field struct {
	Name  string
	Value string
	ID    ID // the known name, or Other
}

// Header is an ordered list of fields (RFC 9110 §5.3). The fields that frame a message or concern one connection only
// (Host, Content-Length, Transfer-Encoding, Connection and what it names, Trailer, TE, Upgrade, Expect) never stand in it: they are typed
// members of Request and Response. The zero value is empty.
type Header struct {
	fields []Field
}

// HeaderOver returns an empty Header that fills the given array before it allocates one.
func HeaderOver(array []Field) Header { return Header{fields: array[:0]} }

// Len is the number of fields.
func (h *Header) Len() int { return len(h.fields) }

// At returns field i, to be read, or changed in place.
func (h *Header) At(i int) *Field { return &h.fields[i] }

// Fields returns the array behind h, for codecs that reuse it. It is valid until h is changed.
func (h *Header) Fields() []Field { return h.fields }

// All yields the fields in order.
func (h *Header) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for i := range h.fields {
			if !yield(h.fields[i].Name, h.fields[i].Value) {
				return
			}
		}
	}
}

// Get returns the value of the first field of that name, in any case, or "".
func (h *Header) Get(name string) string {
	id := Lookup(name)
	for i := range h.fields {
		if h.fields[i].is(id, name) {
			return h.fields[i].Value
		}
	}
	return ""
}

// Value returns the value of the first field with a known name, and whether there is one.
func (h *Header) Value(id ID) (string, bool) {
	for i := range h.fields {
		if h.fields[i].ID == id {
			return h.fields[i].Value, true
		}
	}
	return "", false
}

// Values returns the values of all fields of that name, in order.
func (h *Header) Values(name string) []string {
	id := Lookup(name)
	var values []string
	for i := range h.fields {
		if h.fields[i].is(id, name) {
			values = append(values, h.fields[i].Value)
		}
	}
	return values
}

// Has reports whether a field of that name is there.
func (h *Header) Has(name string) bool {
	id := Lookup(name)
	for i := range h.fields {
		if h.fields[i].is(id, name) {
			return true
		}
	}
	return false
}

// Add appends a field.
func (h *Header) Add(name, value string) {
	h.fields = append(h.fields, Field{Name: name, Value: value, ID: Lookup(name)})
}

// AddField appends a field whose ID is already known.
func (h *Header) AddField(f Field) { h.fields = append(h.fields, f) }

// Set makes value the only one of name, in the place of the first field of that name, or at the end.
func (h *Header) Set(name, value string) {
	id := Lookup(name)
	for i := range h.fields {
		if h.fields[i].is(id, name) {
			h.fields[i].Value = value
			h.deleteFrom(i+1, id, name)
			return
		}
	}
	h.fields = append(h.fields, Field{Name: name, Value: value, ID: id})
}

// Del removes every field of that name.
func (h *Header) Del(name string) { h.deleteFrom(0, Lookup(name), name) }

// DelFunc removes the fields for which drop reports true.
func (h *Header) DelFunc(drop func(*Field) bool) {
	kept := h.fields[:0]
	for i := range h.fields {
		if !drop(&h.fields[i]) {
			kept = append(kept, h.fields[i])
		}
	}
	clear(h.fields[len(kept):])
	h.fields = kept
}

// Reset empties h and keeps its array.
func (h *Header) Reset() {
	clear(h.fields)
	h.fields = h.fields[:0]
}

// Clone returns a copy with an array of its own.
func (h *Header) Clone() Header {
	return Header{fields: append([]Field(nil), h.fields...)}
}

func (h *Header) deleteFrom(start int, id ID, name string) {
	kept := h.fields[:start]
	for i := start; i < len(h.fields); i++ {
		if !h.fields[i].is(id, name) {
			kept = append(kept, h.fields[i])
		}
	}
	clear(h.fields[len(kept):])
	h.fields = kept
}

func (f *Field) is(id ID, name string) bool {
	return f.ID == id && (id != Other || strings.EqualFold(f.Name, name))
}
