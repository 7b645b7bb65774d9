package filters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sluice.dev/sluice/model/document"
)

// FieldError is what is wrong with one field of a filter spec.
type FieldError struct {
	Field   string // path in the spec, such as pools[0].timeout; "" for the whole
	Message string // what is wrong
	Mend    string // how to mend it; "" when the message says it
}

func (e *FieldError) Error() string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Mend != "" {
		text += "; " + e.Mend
	}
	return text
}

// fieldErrors unwraps what errors.Join made of FieldErrors; another error stands for the whole spec.
func fieldErrors(err error) []*FieldError {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*FieldError
		for _, e := range joined.Unwrap() {
			all = append(all, fieldErrors(e)...)
		}
		return all
	}
	var field *FieldError
	if errors.As(err, &field) {
		return []*FieldError{field}
	}
	return []*FieldError{{Message: err.Error()}}
}

// decode reads a JSON object into spec, a pointer to a struct that holds the defaults. Unknown fields and wrong types are
// FieldErrors, joined. Nothing at all, and null, leave the defaults.
func decode(raw []byte, spec any) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return &FieldError{Message: "this is no JSON object: " + err.Error()}
	}
	if _, ok := tree.(map[string]any); !ok {
		return &FieldError{Message: "an object with fields is wanted here"}
	}
	if errs := unknownFields("", tree, reflect.TypeOf(spec).Elem()); len(errs) > 0 {
		return errors.Join(errs...)
	}
	err := json.Unmarshal(raw, spec)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong):
		return &FieldError{Field: wrong.Field, Message: fmt.Sprintf("%s is no %s", wrong.Value, plainType(wrong.Type))}
	}
	return &FieldError{Message: err.Error()}
}

// unknownFields compares the fields of tree with those of t, in depth.
func unknownFields(path string, tree any, t reflect.Type) (errs []error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch value := tree.(type) {
	case map[string]any:
		return unknownMembers(path, value, t)
	case []any:
		if t.Kind() != reflect.Slice {
			return nil // a wrong type, which decoding itself reports
		}
		for i := range value {
			errs = append(errs, unknownFields(fmt.Sprintf("%s[%d]", path, i), value[i], t.Elem())...)
		}
	}
	return errs
}

func unknownMembers(path string, object map[string]any, t reflect.Type) (errs []error) {
	names := keys(object)
	if t.Kind() == reflect.Map {
		for _, name := range names {
			errs = append(errs, unknownFields(join(path, name), object[name], t.Elem())...)
		}
		return errs
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	known := jsonFields(t)
	for _, name := range names {
		field, ok := known[name]
		if !ok {
			errs = append(errs, &FieldError{
				Field: join(path, name), Message: "there is no such field", Mend: suggest(name, keys(known)),
			})
			continue
		}
		errs = append(errs, unknownFields(join(path, name), object[name], field)...)
	}
	return errs
}

func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = field.Type
		}
	}
	return fields
}

func plainType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "number of type " + t.String()
	case reflect.Slice:
		return "list"
	case reflect.Map, reflect.Struct:
		return "object"
	}
	return t.String()
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// suggest says which of the names was meant, or which there are.
func suggest(got string, names []string) string {
	if name := document.Nearest(got, names); name != "" {
		return fmt.Sprintf("did you mean %q?", name)
	}
	if len(names) == 0 {
		return "remove it"
	}
	return "there are " + strings.Join(names, ", ")
}
