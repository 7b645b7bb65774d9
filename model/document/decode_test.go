package document_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	sigsyaml "sigs.k8s.io/yaml"

	"sluice.dev/sluice/model/document"
)

type inner struct {
	Port  uint16 `json:"port"`
	Small int8   `json:"small"`
}

type meta struct {
	Name   string            `json:"name"`
	Kind   string            `json:"kind"`
	Labels map[string]string `json:"labels"`
}

type sample struct {
	meta     `json:",inline"`
	Enabled  bool             `json:"enabled"`
	Weight   float64          `json:"weight"`
	List     []*inner         `json:"list"`
	One      *inner           `json:"one"`
	Data     []byte           `json:"data"`
	Any      any              `json:"any"`
	Raw      json.RawMessage  `json:"raw"`
	ByNumber map[int]string   `json:"byNumber"`
	Inners   map[string]inner `json:"inners"`
	Hidden   string           `json:"-"`
	unseen   string
	Untagged string
}

// TestFieldErrors shows each mistake in a field with its line and path.
func TestFieldErrors(t *testing.T) {
	_ = sample{unseen: ""}
	cases := []struct{ name, in, want string }{
		{"none", "name: x\nenabled: yes\nweight: 1\nlist: [{port: 80}]\nUntagged: a\n", ""},
		{"unknown", "nam: x\n", `1 nam: unknown field "nam"; did you mean "name"?`},
		{"case", "Enabled: true\n", `1 Enabled: unknown field "Enabled"; did you mean "enabled"?`},
		{"not near", "zebra: true\n", `1 zebra: unknown field "zebra"`},
		{"hidden", "Hidden: a\nunseen: b\n", `1 Hidden: unknown field "Hidden" / 2 unseen: unknown field "unseen"`},
		{"nested", "list:\n- port: 80\n- port: 81\n  prot: 82\n", `4 list[1].prot: unknown field "prot"; did you mean "port"?`},
		{"in a map", "inners:\n  a.b:\n    prt: 1\n  c:\n    x: 1\n", `3 inners[a.b].prt: unknown field "prt"; did you mean "port"? / 5 inners.c.x: unknown field "x"`},
		{"twice", "name: x\none:\n  port: 1\nname: y\n", `4 name: "name" is given twice, on lines 1 and 4; remove one of them`},
		{"twice in a map", "labels:\n  a: b\n  a: c\n", `3 labels.a: "a" is given twice, on lines 2 and 3; remove one of them`},
		{"twice in any", "any:\n  a: b\n  a: c\n", `3 any.a: "a" is given twice, on lines 2 and 3; remove one of them`},
		{"twice in raw", "raw:\n  a: b\n  a: c\n", `3 raw.a: "a" is given twice, on lines 2 and 3; remove one of them`},
		{"number for text", "name: 8080\n", `1 name: must be text, not the number 8080; put it in quotes: "8080"`},
		{"bool for text", "labels: {a: true}\n", `1 labels.a: must be text, not true; put it in quotes: "true"`},
		{"list for text", "name: [a]\n", `1 name: must be text, not a list`},
		{"text for bool", "enabled: \"true\"\n", `1 enabled: must be true or false, not the text "true"`},
		{"text for number", "one:\n  port: eighty\n", `2 one.port: must be a whole number, not the text "eighty"`},
		{"quoted number", "one: {port: \"80\"}\n", `1 one.port: must be a whole number, not the text "80"; write it without quotes`},
		{"fraction", "one: {port: 80.5}\n", `1 one.port: must be a whole number, not the number 80.5`},
		{"range", "one:\n  port: 70000\n  small: -129\n", `2 one.port: 70000 is out of range: 0 to 65535 / 3 one.small: -129 is out of range: -128 to 127`},
		{"negative", "one: {port: -1}\n", `1 one.port: -1 is out of range: 0 to 65535`},
		{"huge", "one: {port: 99999999999999999999}\n", `1 one.port: must be a whole number, not the number 99999999999999999999`},
		{"infinite", "weight: .inf\n", `1 weight: must be a number, not the number .inf`},
		{"mapping for list", "list: {port: 80}\n", `1 list: must be a list, not a mapping; begin each item with "- "`},
		{"list for mapping", "one: [1]\n", `1 one: must be a mapping, not a list`},
		{"empty item", "list:\n-\n- port: 1\n", `2 list[0]: an empty item; remove it`},
		{"base64", "data: \"a b c\"\n", `1 data: is no base64: at input byte 0; encode it with base64, or, in a Secret, move it to stringData`},
		{"key", "? [a]\n: b\n", `1 : a key must be text, not a list`},
		{"tag", "any: !mine x\n", `1 any: the tag !mine is not known; remove it`},
		{"merge", "one: &a {port: 1}\ninners:\n  b:\n    <<: *a\n    port: 2\n    <<: x\n", `6 inners.b.<<: must be a mapping to merge, not the text "x"`},
		{"all of them", "x: 1\nname: 2\none: {y: 1}\n", `1 x: unknown field "x" / 2 name: must be text, not the number 2; put it in quotes: "2" / 3 one.y: unknown field "y"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, e := range decode(t, c.in, new(sample)) {
				got = append(got, fmt.Sprintf("%d %s: %s", e.Line, e.Path, strings.TrimPrefix(e.Error(), e.Path+": ")))
			}
			if joined := strings.Join(got, " / "); joined != c.want {
				t.Errorf("got  %s\nwant %s", joined, c.want)
			}
		})
	}
}

func decode(t *testing.T, in string, into any) []document.FieldError {
	t.Helper()
	docs, errs := document.Parse("in.yaml", []byte(in))
	if len(docs) != 1 || errs != nil {
		t.Fatalf("%d documents, %v", len(docs), errs)
	}
	return docs[0].Decode(into)
}

func TestValues(t *testing.T) {
	const in = `
name: 2024-01-01
kind: "80"
labels: &l {a: b, on: off}
enabled: off
weight: 1e3
list: [{port: 0x1F, small: -1_0}, {port: 1e3}]
one: {port: 65535}
data: aGVs
  bG8=
any: {a: [1, 2.5, yes, ~, 0x10], b: 2024-01-01, <<: {a: 1, c: d}}
raw: {b: 1, a: "é<"}
byNumber: {1: a}
inners:
  x: {<<: [{port: 7}, {port: 8, small: 3}], small: 2}
Untagged: |
  two
  lines
`
	var got sample
	if errs := decode(t, in, &got); errs != nil {
		t.Fatal(errs)
	}
	want := sample{
		meta:   meta{Name: "2024-01-01", Kind: "80", Labels: map[string]string{"a": "b", "on": "off"}},
		Weight: 1000, List: []*inner{{Port: 31, Small: -10}, {Port: 1000}}, One: &inner{Port: 65535}, Data: []byte("hello"),
		Any: map[string]any{"a": []any{json.Number("1"), json.Number("2.5"), "yes", nil, json.Number("16")}, "b": "2024-01-01", "c": "d"},
		Raw: json.RawMessage(`{"a":"é\u003c","b":1}`), ByNumber: map[int]string{1: "a"},
		Inners: map[string]inner{"x": {Port: 7, Small: 2}}, Untagged: "two\nlines\n",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(sample{}, meta{})); diff != "" {
		t.Error(diff)
	}
}

// TestAliases: a document of a few lines may stand for more values than memory has, or for itself.
func TestAliases(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		r := fmt.Sprintf("*a%d", i-1)
		laughs += fmt.Sprintf("a%d: &a%d [%s%s]\n", i, i, r, strings.Repeat(", "+r, 9))
	}
	cases := []struct{ name, in, want string }{
		{"laughs", "any:\n  " + strings.ReplaceAll(laughs, "\n", "\n  "), "the aliases of this document stand for more than"},
		{"itself", "any: &a [*a]\n", "nested deeper than 100 levels"},
		{"itself twice", "any: &a {b: *a, c: *a}\n", "nested deeper than 100 levels"},
		{"merges itself", "any: &a\n  <<: *a\n  c: d\n", "nested deeper than 100 levels"},
		{"raw", "raw: &a [*a]\n", "nested deeper than 100 levels"},
		{"deep", "any: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested deeper than 100 levels"},
	}
	for _, c := range cases {
		begin := time.Now()
		errs := decode(t, c.in, new(sample))
		if len(errs) == 0 || !strings.Contains(errs[0].Message, c.want) {
			t.Errorf("%s: %v", c.name, errs)
		}
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("%s took %s", c.name, took)
		}
	}
	if errs := decode(t, strings.Repeat("x: 1\n", 300), new(sample)); len(errs) != 101 {
		t.Errorf("%d mistakes, want them cut at 100 and said", len(errs))
	}
}

const kubernetes = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  namespace: shop
  creationTimestamp: 2024-05-06T07:08:09Z
  annotations: {nginx.ingress.kubernetes.io/x: "1"}
  managedFields:
  - {manager: kubectl, operation: Apply, fieldsV1: {"f:spec": {}}, time: "2024-05-06T07:08:09Z"}
spec:
  rules:
  - http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: a, port: {name: http}}}}
status: {loadBalancer: {ingress: [{ip: 10.0.0.1}]}}
---
apiVersion: v1
kind: Service
metadata: {name: a, creationTimestamp: null}
spec:
  ports:
  - {port: 80, targetPort: 8080}
  - {port: 81, targetPort: web, protocol: TCP}
---
apiVersion: v1
kind: Secret
metadata: {name: s}
type: kubernetes.io/tls
data: {tls.crt: aGVsbG8=}
stringData: {a: b}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: e}
addressType: IPv4
endpoints:
- addresses: [10.0.0.1]
  conditions: {ready: true, serving: ~}
  targetRef: {kind: Pod, name: p}
ports: [{port: 8080, name: ""}]
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 30
  containers:
  - name: c
    resources: {limits: {cpu: 500m, memory: 1Gi}, requests: {cpu: 1}}
    readinessProbe: {httpGet: {path: /, port: 80}}
`

// TestKubernetes holds the decoder against the one that Kubernetes uses.
func TestKubernetes(t *testing.T) {
	docs, errs := document.Parse("in.yaml", []byte(kubernetes))
	if errs != nil {
		t.Fatal(errs)
	}
	texts := strings.Split(kubernetes, "\n---\n")
	for i, into := range []func() any{
		func() any { return new(netv1.Ingress) }, func() any { return new(corev1.Service) }, func() any { return new(corev1.Secret) },
		func() any { return new(discoveryv1.EndpointSlice) }, func() any { return new(corev1.Pod) },
	} {
		got, want := into(), into()
		if errs := docs[i].Decode(got); errs != nil {
			t.Errorf("%s: %v", docs[i].Kind, errs)
		}
		if err := sigsyaml.UnmarshalStrict([]byte(texts[i]), want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", docs[i].Kind, diff)
		}
	}
}

func TestKubernetesMistakes(t *testing.T) {
	in := strings.NewReplacer("name: http}", "nme: http, number: http}", "2024-05-06T07:08:09Z\n", "yesterday\n", "pathType: Prefix", "pathtype: Prefix").Replace(kubernetes)
	docs, _ := document.Parse("in.yaml", []byte(in))
	var got []string
	for _, e := range docs[0].Decode(new(netv1.Ingress)) {
		got = append(got, fmt.Sprintf("%d %v", e.Line, e))
	}
	want := []string{
		`7 metadata.creationTimestamp: must be a time, not the text "yesterday"; write it as 2026-01-31T10:00:00Z`,
		`15 spec.rules[0].http.paths[0].pathtype: unknown field "pathtype"; did you mean "pathType"?`,
		`15 spec.rules[0].http.paths[0].backend.service.port.nme: unknown field "nme"; did you mean "name"?`,
		`15 spec.rules[0].http.paths[0].backend.service.port.number: must be a whole number, not the text "http"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestForeignTypes(t *testing.T) {
	cases := []struct {
		in   string
		into any
		want string
	}{
		{"spec: {ports: [{port: 80, targetPort: 1.5}]}", new(corev1.Service), "spec.ports[0].targetPort: must be a number or a name, not the number 1.5"},
		{"spec: {ports: [{port: 80, targetPort: [a]}]}", new(corev1.Service), "spec.ports[0].targetPort: must be a number or a name, not a list"},
		{"spec: {containers: [{resources: {limits: {cpu: lots}}}]}", new(corev1.Pod), `spec.containers[0].resources.limits.cpu: must be a quantity, not the text "lots"; write it as 500m, 2 or 1Gi`},
		{"data: {a: \"é\"}", new(corev1.Secret), "data.a: is no base64: at input byte 0; encode it with base64, or, in a Secret, move it to stringData"},
		{"data: {a: 12}", new(corev1.Secret), "data.a: must be base64 text, not the number 12"},
		{"metadata: {name: {{ .Values.name }}}", new(corev1.Secret), "metadata.name: must be text, not a template that was not filled in"},
	}
	for _, c := range cases {
		if errs := decode(t, c.in, c.into); len(errs) != 1 || errs[0].Error() != c.want {
			t.Errorf("%s: %v", c.in, errs)
		}
	}
}

func TestEncode(t *testing.T) {
	type value struct {
		Name  string            `json:"name"`
		Null  *int              `json:"null"`
		Words []string          `json:"words"`
		Ports []string          `json:"ports"`
		Map   map[string]string `json:"map"`
		Text  string            `json:"text"`
		Deep  []map[string]any  `json:"deep"`
		Long  []string          `json:"long"`
	}
	got, err := document.Encode(value{
		Name: "yes", Words: []string{"a", "true", "<b>"}, Ports: []string{"a:1"}, Map: map[string]string{"password": "x", "b": "1"}, Text: "a\nb\n",
		Deep: []map[string]any{{"a": []int{1, 2}}, {"a": map[string]int{"b": 1}}}, Long: []string{strings.Repeat("x", 60), strings.Repeat("y", 60)},
	}, func(key, value string) string {
		if key == "password" {
			return "hidden"
		}
		return value
	})
	want := `name: yes
words: [a, "true", <b>]
ports:
- a:1
map: {b: "1", password: hidden}
text: |
  a
  b
deep:
- {a: [1, 2]}
- a: {b: 1}
long:
- ` + strings.Repeat("x", 60) + "\n- " + strings.Repeat("y", 60) + "\n"
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	if _, err := document.Encode(func() {}, nil); err == nil {
		t.Error("a function has no YAML")
	}
}

func TestLineOf(t *testing.T) {
	docs, _ := document.Parse("in.yaml", []byte(kubernetes))
	for path, want := range map[string]int{
		"": 2, "kind": 3, "spec": 11, "spec.rules[0]": 13, "spec.rules[0].http.paths[0].backend": 15, "spec.rules[7].http": 12,
		"spec.tls[0].hosts": 11, "metadata.annotations[nginx.ingress.kubernetes.io/x]": 8, `metadata.annotations["nginx.ingress.kubernetes.io/x"]`: 8,
		"nothing": 2, "[": 2, "spec..rules": 11, "spec[": 11,
	} {
		if got := docs[0].LineOf(path); got != want {
			t.Errorf("LineOf(%q) is %d, want %d", path, got, want)
		}
	}
	if got := docs[1].LineOf("spec.ports[1].targetPort"); got != 24 {
		t.Errorf("in the second document: line %d, want 24", got)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"path", "pathPrefix", "pathRegexp", "methods", "backend", "backendPool", "clientMaxBodySize", "roundRobin", "leastRequest"}
	for name, want := range map[string]string{
		"pahts": "path", "pathprefix": "pathPrefix", "method": "methods", "backned": "backend", "maxBodySize": "clientMaxBodySize", "zzz": "", "": "", "b": "",
		"round-robin": "roundRobin", "leastRequests": "leastRequest", "pool": "backendPool", "pathRegex": "pathRegexp",
	} {
		if got := document.Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) is %q, want %q", name, got, want)
		}
	}
}
