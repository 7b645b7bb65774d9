package document_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"

	"sluice.dev/sluice/model/document"
)

// FuzzDecode: no file makes the decoder panic, and every mistake has a line that the file has.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(kubernetes))
	f.Add([]byte("a: &a [*a]\n---\n<<: {a: 1}\n"))
	f.Add([]byte("{\"kind\": \"List\", \"items\": [{\"kind\": null}, 7]}{}"))
	f.Add([]byte("kind: A\n\tname: \"x\n...\n%YAML 1.2\n---\n? [a]\n: !!binary x\n"))
	f.Add([]byte("one: {port: 0b1_1, small: .inf}\nname: !!int x\nany: 0o7\nraw: 1_000\nlist: [~, [], {}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := 2
		for _, c := range data {
			if c == '\n' || c == '\r' {
				lines++
			}
		}
		docs, errs := document.Parse("in.yaml", data)
		for _, e := range errs {
			if e.Line < 1 || e.Line > lines || e.Message == "" {
				t.Errorf("%v in a file of %d lines", e, lines)
			}
		}
		for _, d := range docs {
			for _, into := range []any{new(sample), new(netv1.Ingress), new(corev1.Secret)} {
				for _, e := range d.Decode(into) {
					if e.Line < 1 || e.Message == "" || d.LineOf(e.Path) < 1 {
						t.Errorf("mistake %+v", e)
					}
				}
			}
		}
	})
}
