package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
	"sluice.dev/sluice/proxy/engine"
	"sluice.dev/sluice/proxy/filters"
)

// TestJoin orders the steps of both halves.
func TestJoin(t *testing.T) {
	step := func(text string) model.Step {
		stage, what, _ := strings.Cut(text, " ")
		return model.Step{Stage: stage, OK: what != "fails", Text: what}
	}
	steps := func(texts ...string) (all []model.Step) {
		for _, text := range texts {
			all = append(all, step(text))
		}
		return all
	}
	cases := []struct {
		name                  string
		running, objects, all []model.Step
	}{
		{
			"all is well",
			steps("listener", "host", "path", "filters", "endpoints pool", "answer"), steps("class", "service", "port", "endpoints slices"),
			steps("listener", "host", "path", "class", "filters", "service", "port", "endpoints slices", "answer"),
		},
		{
			"the objects say why there is no endpoint",
			steps("host", "path", "filters", "endpoints fails", "answer fails"), steps("class", "service", "port fails"),
			steps("host", "path", "class", "filters", "service", "port fails", "answer fails"),
		},
		{
			"only the pool knows that there is none",
			steps("host", "path", "filters", "endpoints fails", "answer fails"), steps("class", "service", "port", "endpoints slices"),
			steps("host", "path", "class", "filters", "service", "port", "endpoints slices", "endpoints fails", "answer fails"),
		},
		{
			"a filter keeps it out",
			steps("host", "path", "filters fails", "answer fails"), steps("class", "service"),
			steps("host", "path", "class", "filters fails", "service", "answer fails"),
		},
		{
			"a filter answers", steps("host", "path", "filters", "answer"), steps("class", "service fails"),
			steps("host", "path", "class", "filters", "answer"),
		},
		{"no rule", steps("host fails", "answer fails"), steps("class fails"), steps("host fails", "class fails", "answer fails")},
		{"no objects", steps("host", "path", "filters", "endpoints", "answer"), nil, steps("host", "path", "filters", "endpoints", "answer")},
	}
	for _, c := range cases {
		if diff := cmp.Diff(c.all, join(c.running, c.objects)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// explainer runs objects on servers that nobody can connect to.
func explainer(t *testing.T, text string, controllers ...*model.IngressController) *Explainer {
	t.Helper()
	docs, broken := document.Parse("in.yaml", []byte(text))
	if len(broken) > 0 {
		t.Fatal(broken)
	}
	var objects []*store.Object
	for _, doc := range docs {
		o, problems := store.Decode(doc)
		if o == nil {
			t.Fatal(problems)
		}
		objects = append(objects, o)
	}
	s := store.New("test")
	s.Replace("test", objects)
	view, _ := s.Take()
	options := translate.Options{Controllers: controllers, CheckPipeline: filters.Check}
	config, report := translate.Translate(view, options)
	e := engine.New(engine.Settings{Log: slog.New(slog.DiscardHandler), Listen: silent})
	t.Cleanup(e.Close)
	outcome := e.Apply(config)
	return &Explainer{
		Engine: e, View: func() store.View { return view }, Options: options,
		Problems: func() []model.Problem { return append(report.Problems(), outcome.Problems...) },
	}
}

type silence struct {
	net.Listener
	closed chan struct{}
}

func silent(context.Context, string, string) (net.Listener, error) {
	return &silence{closed: make(chan struct{})}, nil
}

func (s *silence) Accept() (net.Conn, error) { <-s.closed; return nil, errors.New("closed") }
func (s *silence) Close() error              { close(s.closed); return nil }
func (s *silence) Addr() net.Addr            { return &net.TCPAddr{} }

const twoServers = `
kind: HTTPServer
name: a
port: 1001
rules: [{host: a.test, paths: [{path: /x, backend: nobody}, {path: /y, backend: flow}]}]
---
kind: HTTPServer
name: b
port: 1002
rules: [{host: b.test, paths: [{pathPrefix: /, backend: flow}]}]
---
kind: Pipeline
name: flow
filters: [{name: p, kind: Proxy, pools: [{servers: [{url: "http://127.0.0.1:1"}]}]}]
`

func TestTheServerIsTheOneThatIsMeant(t *testing.T) {
	e := explainer(t, twoServers)
	for raw, want := range map[string]string{
		"http://a.test/y":      "server a ",
		"http://b.test/":       "server b ",
		"http://b.test:80/":    "server b ",
		"http://b.test:1001/":  "server a ",
		"http://c.test/":       "server a ",
		"http://c.test:1002/":  "server b ",
		"https://a.test/":      "no server takes TLS",
		"https://a.test:1001/": "no server takes TLS",
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		steps := e.Explain(&Question{Method: "GET", URL: u})
		if len(steps) == 0 || !strings.Contains(steps[0].Text, want) {
			t.Errorf("%s: %+v, want %q", raw, steps, want)
		}
	}
}

func TestTheAnswerSaysWhatToMend(t *testing.T) {
	e := explainer(t, twoServers)
	for raw, want := range map[string]model.Step{
		"http://a.test/x":  {Text: "503", Origin: "HTTPServer a rules[0].paths[0]", Mend: "nobody"},
		"http://a.test/z":  {Text: "404", Origin: "", Mend: "/z"},
		"http://c.test/":   {Text: "404", Origin: "", Mend: "c.test"},
		"https://a.test/":  {Text: "no connection", Mend: "no server takes TLS"},
		"http://a.test/%0": {Text: "", Mend: ""},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			u = &url.URL{Scheme: "http", Host: "a.test", Path: "/\x00"}
			want = model.Step{Text: "400", Mend: "no object is at fault"}
		}
		steps := e.Explain(&Question{Method: "GET", URL: u})
		answer := steps[len(steps)-1]
		if answer.Stage != "answer" || answer.OK || !strings.HasPrefix(answer.Text, want.Text) || !strings.HasPrefix(answer.Origin, want.Origin) || !strings.Contains(answer.Mend, want.Mend) {
			t.Errorf("%s: %+v, want %+v", raw, answer, want)
		}
	}
	u, _ := url.Parse("http://a.test/y")
	if steps := e.Explain(&Question{Method: "GET", URL: u}); slices.ContainsFunc(steps, func(s model.Step) bool { return !s.OK }) {
		t.Errorf("%+v", steps)
	}
}

// TestHostField asks as with curl -H Host: of an address.
func TestHostField(t *testing.T) {
	e := explainer(t, twoServers)
	for _, c := range []struct{ url, host, want string }{
		{"http://127.0.0.1:1001/y", "a.test", "what the endpoint answers"},
		{"http://127.0.0.1:1001/y", "b.test", "404"},
		{"http://127.0.0.1/z", "b.test", "what the endpoint answers"},
		{"http://a.test/y", "a,b", "400"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		steps := e.Explain(&Question{Method: "GET", URL: u, Header: [][2]string{{"host", c.host}}})
		if answer := steps[len(steps)-1]; !strings.HasPrefix(answer.Text, c.want) {
			t.Errorf("%s with Host %s: %+v, want %s", c.url, c.host, answer, c.want)
		}
	}
}

const redirecting = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i, namespace: d, annotations: {sluice.dev/ssl-redirect: "true"}}
spec:
  tls: [{hosts: [a.test]}, {hosts: [b.test]}]
  rules:
  - {host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}]}}
  - {host: b.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}]}}
---
kind: IngressController
name: c
ingressClass: c
watchIngressWithoutClass: true
httpServer: {port: 80}
httpsServer: {port: 443, https: true}
`

func TestRedirectIsExplained(t *testing.T) {
	e := explainer(t, redirecting)
	ask := func(raw string, header ...[2]string) (stages string, answer model.Step) {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		steps := e.Explain(&Question{Method: "GET", URL: u, Header: header})
		for _, s := range steps {
			stages += s.Stage + " "
		}
		return stages, steps[len(steps)-1]
	}
	stages, answer := ask("http://a.test/x?y")
	if !answer.OK || answer.Text != "308 Permanent Redirect (reason redirect) to https://a.test/x?y" || answer.Origin != "Ingress d/i spec.rules[0].http.paths[0]" || !strings.Contains(answer.Mend, "sluice.dev/ssl-redirect") {
		t.Errorf("%+v", answer)
	}
	if stages != "listener host path class filters answer " {
		t.Errorf("the steps are %s", stages)
	}
	if _, answer = ask("https://a.test/x"); !strings.HasPrefix(answer.Text, "503 ") {
		t.Errorf("with TLS: %+v", answer)
	}
	if _, answer = ask("https://a.test/x", [2]string{"Host", "b.test"}); !strings.HasPrefix(answer.Text, "421 ") {
		t.Errorf("with the Host of another entry: %+v", answer)
	}
}
