package document_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/model/document"
)

// TestSyntax shows what a broken file says, and that its other documents are found.
func TestSyntax(t *testing.T) {
	const good = "---\nkind: Good\nname: after\n"
	cases := []struct {
		name, in string
		line     int
		want     string
	}{
		{"tab", "kind: A\nspec:\n\tname: x\n", 3, "a tab in the indentation"},
		{"tab first", "\tkind: A\n", 1, "a tab in the indentation"},
		{"indentation", "kind: A\nspec:\n  a: 1\n b: 2\n", 4, "indentation"},
		{"two colons", "kind: A\nname: b: c\n", 2, `": " where no key can stand`},
		{"no colon", "kind: A\nname b\nport: 80\n", 2, ""},
		{"open quote", "kind: A\nname: \"b\nport: 80\nx: y\n", 2, "a quote is not closed"},
		{"open quote first", "name: 'a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\n", 1, "a quote is not closed"},
		{"open bracket", "kind: A\nhosts: [a, b\nport: 80\n", 2, "bracket"},
		{"reserved", "kind: A\nname: @b\n", 2, "reserves"},
		{"reserved first", "@kind: A\n", 1, "reserves"},
		{"anchor", "kind: A\nname: *b\n", 2, "unknown anchor"},
		{"template", "kind: A\nname: {{ .Values.x }}\nport: {{ .Values.y }\n", 3, ""},
		{"control", "kind: A\nname: a\x01\n", 2, "UTF-8"},
		{"utf-8", "kind: A\nname: a\nx: \xff\xfe\n", 3, "UTF-8"},
		{"list", "- a\n- b\n", 1, "must be a mapping that begins with kind, not a list"},
		{"text", "hello\n", 1, `not the text "hello"`},
		{"json", "{\n \"kind\": \"A\",\n \"name\" \"b\"\n}\n", 3, "no valid JSON"},
		{"json end", "{\"kind\": \"A\",\n\"name\": [1,\n", 2, "no valid JSON"},
		{"list items", "kind: List\nitems: {a: b}\n", 1, "items of kind List must be a list"},
		{"list item", "kind: List\nitems:\n- kind: A\n- 7\n", 4, "not the number 7"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, before := range []string{"", "kind: Good\nname: before\n---\n", "# note\n\n---\nkind: Good\n...\n# end\n"} {
				offset := strings.Count(before, "\n")
				docs, errs := document.Parse("dir/in.yaml", []byte(before+c.in+good))
				if len(errs) != 1 || errs[0].Line != offset+c.line || !strings.Contains(errs[0].Message, c.want) {
					t.Errorf("after %q: got %v, want line %d and %q", before, errs, offset+c.line, c.want)
				}
				if n := len(docs); n == 0 || docs[n-1].Name != "after" || before != "" && docs[0].Kind != "Good" {
					t.Errorf("after %q: the other documents are not all there: %v", before, docs)
				}
			}
		})
	}
}

func TestDocuments(t *testing.T) {
	cases := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"comments", "# a\n---\n# b\n--- # c\n\n", ""},
		{"null", "---\nnull\n---\n~\n", ""},
		{"bom and crlf", "\ufeffkind: A\r\nname: x\r\n---\r\nkind: B\r\nname: y\r\n", "1 A x, 4 B y"},
		{"directive", "%YAML 1.2\n---\nkind: A\nname: x\n...\n%YAML 1.2\n---\nkind: B\n", "3 A x, 8 B "},
		{"same line", "--- {kind: A, name: x}\n--- {kind: B}\n", "1 A x, 2 B "},
		{"separator in text", "kind: A\nname: x\ntext: |\n  ---\n  a\n---\nkind: B\n", "1 A x, 7 B "},
		{"dashes", "kind: A\n---a: 1\n----: 2\n", "1 A "},
		{"metadata", "kind: A\nname: not\nmetadata: {name: x, namespace: ns}\n", "1 A ns/x"},
		{"no kind", "name: x\n", "1  x"},
		{"list", "kind: List\nitems:\n- kind: A\n  metadata: {name: x}\n-\n  kind: B\n  name: y\n", "3 A x, 6 B y"},
		{"typed list", "apiVersion: v1\nkind: SecretList\nitems:\n- metadata: {name: x}\n- {kind: B, name: y}\n", "4 Secret x, 5 B y"},
		{"list in list", "kind: List\nitems:\n- kind: List\n  items:\n  - kind: A\n", "5 A "},
		{"empty list", "kind: List\nitems:\n---\nkind: List\nitems: []\n", ""},
		{"no list", "kind: AllowList\nname: x\n", "1 AllowList x"},
		{"anchors", "kind: List\nitems:\n- &a\n  kind: A\n- *a\n", "3 A , 3 A "},
		{"json", "{\"kind\": \"A\",\n\"name\": \"\\ud83d\\ude00\"}\n{\"kind\": \"B\"}\n", "1 A 😀, 3 B "},
		{"flow yaml", "{\"kind\": A, name: x,}\n", "1 A x"},
		{"json after separator", "---\n{\"kind\": \"A\"}\n---\n{\n\t\"kind\": \"B\"\n}", "2 A , 4 B "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			docs, errs := document.Parse("in.yaml", []byte(c.in))
			if errs != nil {
				t.Fatal(errs)
			}
			var got []string
			for _, d := range docs {
				name := d.Name
				if d.Namespace != "" {
					name = d.Namespace + "/" + name
				}
				got = append(got, fmt.Sprintf("%d %s %s", d.Line, d.Kind, name))
			}
			if joined := strings.Join(got, ", "); joined != c.want {
				t.Errorf("got %q, want %q", joined, c.want)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	cases := []struct{ name, in string }{
		{"size", string(make([]byte, 64<<20+1))},
		{"utf-16", "\xff\xfek\x00i\x00"},
		{"deep list in a list", strings.Repeat("{kind: List, items: [", 9) + strings.Repeat("]}", 9)},
	}
	for _, c := range cases {
		if docs, errs := document.Parse("in.yaml", []byte(c.in)); len(docs) != 0 || len(errs) != 1 {
			t.Errorf("%s: %d documents, %v", c.name, len(docs), errs)
		}
	}
}
