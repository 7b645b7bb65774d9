package document

import (
	"bytes"
	"fmt"
	"iter"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	maxFile  = 64 << 20 // bytes of one file
	maxDepth = 100      // levels of nesting
	maxLists = 4        // lists inside lists
	maxAlias = 100_000  // values that the aliases of one document may stand for
)

// Document is one object as it stands in a file: a mapping, mostly with a kind.
type Document struct {
	File       string
	Line       int // where it begins, from 1
	APIVersion string
	Kind       string // "" when it has none
	Namespace  string // metadata.namespace
	Name       string // metadata.name, or name

	root   *yaml.Node
	offset int // lines of the file before the text that root was parsed from
	plans  *plans
}

// Error is a mistake that makes a document unreadable.
type Error struct {
	File    string
	Line    int // from 1
	Message string
}

func (e Error) Error() string { return fmt.Sprintf("%s:%d %s", e.File, e.Line, e.Message) }

// Parse returns the documents of a file in order, a list's items each on its own, and what keeps others from being read.
// Empty documents are skipped. The file name only serves messages.
func Parse(file string, data []byte) ([]*Document, []Error) {
	var docs []*Document
	var errs []Error
	for doc, err := range All(file, data) {
		if err != nil {
			errs = append(errs, *err)
		} else {
			docs = append(docs, doc)
		}
	}
	return docs, errs
}

// All is Parse one document at a time, for files that are large: of each pair either the document or the error is set.
func All(file string, data []byte) iter.Seq2[*Document, *Error] { return Some(file, data, nil) }

// Some is All for a caller that may know parts of the file already: skip gets the text of each part, which begins and ends where documents do,
// and its first line, and says whether it is to be left out. The documents of a part come before the next is asked about.
func Some(file string, data []byte, skip func(text []byte, line int) bool) iter.Seq2[*Document, *Error] {
	return func(yield func(*Document, *Error) bool) {
		f := &reading{file: file, plans: &plans{}, yield: yield}
		if problem := unreadable(data); problem != "" {
			f.fail(1, problem)
			return
		}
		for part := range split(bytes.TrimPrefix(data, []byte("\ufeff"))) {
			if skip != nil && skip(part.text, part.line) {
				continue
			}
			if !f.part(part) {
				return
			}
		}
	}
}

func unreadable(data []byte) string {
	switch {
	case len(data) > maxFile:
		return fmt.Sprintf("the file has %d MiB, more than %d: split it", len(data)>>20, maxFile>>20)
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return "the file is UTF-16: save it as UTF-8"
	}
	return ""
}

// part is the text between two separators.
type part struct {
	text []byte
	line int // of its first line, from 1
}

// split cuts at lines that are --- or ..., which YAML allows nowhere inside a document. The line --- stays with what follows.
func split(data []byte) iter.Seq[part] {
	return func(yield func(part) bool) {
		start, line := 0, 1
		for at, n := 0, 1; at < len(data); n++ {
			end := len(data)
			if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
				end = at + i + 1
			}
			switch mark := marker(data[at:end]); {
			case mark == "---" && !onlyDirectives(data[start:at]):
				if !yield(part{data[start:at], line}) {
					return
				}
				start, line = at, n
			case mark == "...":
				if !yield(part{data[start:at], line}) {
					return
				}
				start, line = end, n+1
			}
			at = end
		}
		yield(part{data[start:], line})
	}
}

func marker(line []byte) string {
	if len(line) < 3 || len(line) > 3 && !bytes.ContainsRune([]byte(" \t\r\n"), rune(line[3])) {
		return ""
	}
	switch s := string(line[:3]); s {
	case "---", "...":
		return s
	}
	return ""
}

// onlyDirectives reports whether text is %YAML or %TAG lines, which belong to the document after them.
func onlyDirectives(text []byte) bool {
	directives := false
	for line := range bytes.Lines(text) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0 || line[0] == '#':
		case line[0] == '%':
			directives = true
		default:
			return false
		}
	}
	return directives
}

// withoutVersion blanks the line %YAML, of which the parser knows only 1.1.
func withoutVersion(text []byte) []byte {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("%YAML ")) {
		return text
	}
	text = bytes.Clone(text)
	at := bytes.IndexByte(text, '%')
	for i := at; i < len(text) && text[i] != '\n'; i++ {
		text[i] = ' '
	}
	return text
}

// reading is one run over a file.
type reading struct {
	file  string
	plans *plans
	yield func(*Document, *Error) bool
}

func (f *reading) fail(line int, message string) bool {
	return f.yield(nil, &Error{File: f.file, Line: line, Message: message})
}

// part reports false when the caller wants no more.
func (f *reading) part(p part) bool {
	if text := bytes.TrimSpace(p.text); len(text) == 0 || string(text) == "---" {
		return true
	}
	roots, line, problem := parse(p.text)
	for _, root := range roots {
		if !f.root(root, Document{offset: p.line - 1}, maxLists) {
			return false
		}
	}
	return problem == "" || f.fail(p.line-1+line, problem)
}

// parse returns the values of one part, or the line and what is wrong there. JSON is read by rules of its own: YAML is stricter
// about escapes, and a file may hold several JSON objects one after the other.
func parse(text []byte) (roots []*yaml.Node, line int, problem string) {
	var jsonLine int
	var jsonProblem string
	jsonText, jsonLike := asJSON(text)
	if jsonLike {
		if roots, jsonLine, jsonProblem = parseJSON(jsonText); jsonProblem == "" {
			return roots, 0, ""
		}
	}
	var root yaml.Node
	if err := yaml.Unmarshal(withoutVersion(text), &root); err != nil {
		if jsonLike {
			return nil, jsonLine, jsonProblem
		}
		line, problem = locate(text, err)
		return nil, line, problem
	}
	if len(root.Content) == 0 {
		return nil, 0, ""
	}
	return root.Content[:1], 0, ""
}

// root yields the document or, for a list, its items. Base says what they have in common.
func (f *reading) root(n *yaml.Node, base Document, lists int) bool {
	d := base
	d.File, d.plans, d.Line, d.root = f.file, f.plans, n.Line+base.offset, n
	if isNull(n) {
		return true
	}
	if n.Kind != yaml.MappingNode {
		return f.fail(d.Line, "a document must be a mapping that begins with kind, not "+describe(n))
	}
	d.peek()
	items := child(n, "items")
	if items == nil || !strings.HasSuffix(d.Kind, "List") {
		return f.yield(&d, nil)
	}
	if lists == 0 || items.Kind != yaml.SequenceNode {
		return isNull(items) || f.fail(d.Line, "items of kind "+d.Kind+" must be a list of objects")
	}
	common := Document{offset: base.offset}
	if d.Kind != "List" {
		common.Kind, common.APIVersion = strings.TrimSuffix(d.Kind, "List"), d.APIVersion
	}
	for _, item := range items.Content {
		if !f.root(resolved(item), common, lists-1) {
			return false
		}
	}
	return true
}

// peek fills in what names the object, as far as it is text.
func (d *Document) peek() {
	set := func(field *string, n *yaml.Node) {
		if n != nil && n.Kind == yaml.ScalarNode && !isNull(n) {
			*field = n.Value
		}
	}
	set(&d.Kind, child(d.root, "kind"))
	set(&d.APIVersion, child(d.root, "apiVersion"))
	set(&d.Name, child(d.root, "name"))
	if meta := child(d.root, "metadata"); meta != nil {
		set(&d.Name, child(meta, "name"))
		set(&d.Namespace, child(meta, "namespace"))
	}
}

// child returns the value of a mapping's key, nil when it has none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key && n.Content[i].Kind == yaml.ScalarNode {
			return resolved(n.Content[i+1])
		}
	}
	return nil
}

// resolved follows an alias; an anchor never stands on an alias, so one step is enough.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// describe names a value for messages.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode:
		return "a template that was not filled in"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	case n.Tag == "!!int" || n.Tag == "!!float":
		return "the number " + shorten(n.Value)
	case n.Tag == "!!bool":
		return shorten(n.Value)
	}
	return fmt.Sprintf("the text %q", shorten(n.Value))
}

// shorten keeps messages readable.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
