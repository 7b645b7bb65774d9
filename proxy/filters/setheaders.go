package filters

import (
	"errors"
	"fmt"
	"strings"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// Headers sets header fields of a request. It is immutable; nil sets none.
type Headers struct{ fields []setField }

type setField struct {
	name  string
	id    message.ID
	value template
}

// NewHeaders compiles what a path sets: by field name the value, with variables; an empty value removes the field. Host sets
// the Host that is forwarded. Its errors are joined FieldErrors. The result is nil when nothing is to be set.
func NewHeaders(set map[string]string) (*Headers, error) {
	if len(set) == 0 {
		return nil, nil
	}
	h := &Headers{}
	var errs []error
	for _, name := range keys(set) {
		if err := settable(name); err != nil {
			errs = append(errs, err)
			continue
		}
		value, err := parseTemplate(set[name])
		if err != nil {
			errs = append(errs, &FieldError{name, err.Error(), ""})
			continue
		}
		h.fields = append(h.fields, setField{name, message.Lookup(name), value})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return h, nil
}

// Apply sets the fields. All values are computed before the first is set, so that none sees another.
func (h *Headers) Apply(x *filter.Exchange) {
	if h == nil {
		return
	}
	var array [8]string
	values := array[:0]
	for i := range h.fields {
		values = append(values, h.fields[i].value.expand(x))
	}
	for i := range h.fields {
		switch f := &h.fields[i]; {
		case f.id == message.Host:
			if values[i] != "" {
				x.Request.Authority = values[i]
			}
		case len(f.value) == 0:
			x.Request.Header.Del(f.name)
		default:
			x.Request.Header.Set(f.name, values[i])
		}
	}
}

// settable refuses the fields that frame a message or belong to one connection (RFC 9110 §7.6.1).
func settable(name string) error {
	if !token(name) {
		return &FieldError{name, fmt.Sprintf("%q is no field name", name), "use letters, digits and -"}
	}
	id := message.Lookup(name)
	switch id {
	case message.Connection, message.ContentLength, message.TransferEncoding, message.Upgrade, message.Expect, message.Trailer,
		message.TE, message.KeepAlive, message.ProxyConnection, message.HTTP2Settings:
		return &FieldError{name, id.Name() + " frames the message or concerns one connection and cannot be set", "remove it"}
	}
	return nil
}

func token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}
