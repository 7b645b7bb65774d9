package document

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scalar decodes text, numbers and booleans.
func (w *walker) scalar(n *yaml.Node, v reflect.Value, p *plan) {
	switch p.form {
	case formString:
		w.text(n, v)
	case formBool:
		if b, ok := boolean(n); ok {
			v.SetBool(b)
		} else {
			w.wrong(n, "true or false", "")
		}
	case formInt:
		w.integer(n, v)
	case formUint:
		w.unsigned(n, v)
	case formFloat:
		if f, ok := number(n); ok {
			v.SetFloat(f)
		} else {
			w.wrong(n, "a number", "")
		}
	case formBytes:
		w.bytes(n, v)
	}
}

func isText(n *yaml.Node) bool {
	switch n.Tag {
	case "!!str", "!!timestamp", "!!binary", "!!merge":
		return n.Kind == yaml.ScalarNode
	}
	return false
}

func (w *walker) text(n *yaml.Node, v reflect.Value) {
	switch {
	case isText(n):
		v.SetString(n.Value)
	case n.Kind == yaml.ScalarNode:
		w.wrong(n, "text", fmt.Sprintf("put it in quotes: %q", shorten(n.Value)))
	default:
		w.wrong(n, "text", "")
	}
}

// boolean takes the words of YAML 1.1 too, which Kubernetes does.
func boolean(n *yaml.Node) (value, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	}
	return false, false
}

func (w *walker) integer(n *yaml.Node, v reflect.Value) {
	i, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil {
		f, ok := whole(n)
		if !ok {
			w.wrong(n, "a whole number", unquote(n))
			return
		}
		i = int64(f)
	}
	if v.OverflowInt(i) {
		bits := v.Type().Bits()
		w.fail(n, BadValue, fmt.Sprintf("%s is out of range: %d to %d", n.Value, int64(-1)<<(bits-1), int64(math.MaxInt64)>>(64-bits)), "")
		return
	}
	v.SetInt(i)
}

func (w *walker) unsigned(n *yaml.Node, v reflect.Value) {
	u, err := strconv.ParseUint(n.Value, 10, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil {
		f, ok := whole(n)
		if !ok {
			w.wrong(n, "a whole number", unquote(n))
			return
		}
		if f < 0 {
			u = math.MaxUint64
		} else {
			u = uint64(f)
		}
	}
	if v.OverflowUint(u) || u == math.MaxUint64 {
		w.fail(n, BadValue, fmt.Sprintf("%s is out of range: 0 to %d", n.Value, uint64(math.MaxUint64)>>(64-v.Type().Bits())), "")
		return
	}
	v.SetUint(u)
}

func unquote(n *yaml.Node) string {
	if _, err := strconv.ParseInt(n.Value, 10, 64); err == nil && n.Tag == "!!str" {
		return "write it without quotes"
	}
	return ""
}

// whole returns a number without fraction that is not written in plain digits, such as 0x1F, 1_000 or 1e3.
func whole(n *yaml.Node) (float64, bool) {
	f, ok := number(n)
	return f, ok && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

func number(n *yaml.Node) (float64, bool) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" && n.Tag != "!!float" {
		return 0, false
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, false
	}
	return f, true
}

func (w *walker) bytes(n *yaml.Node, v reflect.Value) {
	if !isText(n) {
		w.wrong(n, "base64 text", "")
		return
	}
	text := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, n.Value)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		w.fail(n, BadValue, "is no base64: "+strings.TrimPrefix(err.Error(), "illegal base64 data "), "encode it with base64, or, in a Secret, move it to stringData")
		return
	}
	v.SetBytes(raw)
}

// any returns n as the values of encoding/json: map, slice, string, bool, json.Number, nil.
func (w *walker) any(n *yaml.Node) (any, bool) {
	n, ok := w.enter(n)
	if !ok {
		return nil, false
	}
	defer w.leave()
	switch n.Kind {
	case yaml.MappingNode:
		return w.anyMap(n)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			w.path = append(w.path, step{index: i, item: true})
			x, ok := w.any(item)
			w.path = w.path[:len(w.path)-1]
			if !ok {
				return nil, false
			}
			list = append(list, x)
		}
		return list, true
	}
	return w.anyScalar(n)
}

func (w *walker) anyMap(n *yaml.Node) (any, bool) {
	pairs, merged := w.pairs(n)
	made := make(map[string]any, len(pairs)/2)
	lines := make(map[string]int, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		key := pairs[i]
		if !w.isKey(key) {
			return nil, false
		}
		w.path = append(w.path, step{key: key.Value})
		var x any
		ok := true
		switch line := lines[key.Value]; {
		case line != 0 && i < merged:
			w.twice(key, line)
		case line == 0:
			lines[key.Value] = key.Line
			x, ok = w.any(pairs[i+1])
			made[key.Value] = x
		}
		w.path = w.path[:len(w.path)-1]
		if !ok {
			return nil, false
		}
	}
	return made, true
}

func (w *walker) anyScalar(n *yaml.Node) (any, bool) {
	switch n.Tag {
	case "!!null":
		return nil, true
	case "!!bool":
		b, ok := boolean(n)
		return b, ok
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return json.Number(n.Value), true
		}
		f, ok := number(n)
		if !ok {
			w.fail(n, BadValue, shorten(n.Value)+" is no number that JSON has", "put it in quotes if it is text")
			return nil, false
		}
		return json.Number(strconv.FormatFloat(f, 'f', -1, 64)), true
	}
	if !isText(n) {
		w.fail(n, BadValue, "the tag "+shorten(n.Tag)+" is not known", "remove it")
		return nil, false
	}
	return n.Value, true
}
