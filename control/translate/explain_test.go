package translate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

const explained = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i, namespace: shop}
spec:
  ingressClassName: pub
  defaultBackend: {service: {name: gone, port: {number: 80}}}
  rules:
  - host: h
    http:
      paths:
      - {path: /a, pathType: Prefix, backend: {service: {name: web, port: {number: 8080}}}}
      - {path: /b, pathType: Prefix, backend: {service: {name: web, port: {name: htpp}}}}
      - {path: /ok, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}
      - {path: /idle, pathType: Prefix, backend: {service: {name: idle, port: {number: 80}}}}
      - {path: /r, pathType: Prefix, backend: {resource: {kind: Bucket, name: b}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: foreign, namespace: shop}
spec:
  ingressClassName: nginx
  rules: [{host: "*.w.test", http: {paths: [{path: /x/, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {ports: [{name: http, port: 80, targetPort: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: idle, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8000}]
endpoints:
- {addresses: [10.0.0.1]}
- {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.0.0.3], conditions: {ready: false}}
---
kind: HTTPServer
name: own
port: 9000
rules: [{paths: [{path: /pool, backendPool: {service: "shop/web:81"}}, {path: /flow, backend: flow}, {path: /servers, backendPool: {servers: [{url: "http://127.0.0.1:1"}]}}]}]
fallback: flow
---
kind: Pipeline
name: flow
filters: [{name: proxy, kind: Proxy, pools: [{service: "shop/web:http"}]}]
`

func viewOf(t testing.TB, text string) store.View {
	t.Helper()
	docs, errs := document.Parse("in.yaml", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var objects []*store.Object
	for _, doc := range docs {
		o, problems := store.Decode(doc)
		if o == nil {
			t.Fatal(problems)
		}
		objects = append(objects, o)
	}
	s := store.New("files")
	s.Replace("files", objects)
	view, _ := s.Take()
	return view
}

func controller() *model.IngressController {
	c := &model.IngressController{Meta: model.Meta{Name: "sluice"}, Classes: []string{"pub"}, DefaultBackend: "shop/wep:80", HTTPServer: &model.HTTPServer{Port: 80}}
	c.SetDefaults()
	c.Origin = model.Origin{Key: model.Key{Kind: model.KindIngressController, Name: "sluice"}}
	return c
}

func TestExplain(t *testing.T) {
	view := viewOf(t, explained)
	options := translate.Options{Controllers: []*model.IngressController{controller()}}
	const ingress = "Ingress shop/i "
	for _, c := range []struct {
		name    string
		request translate.ExplainRequest
		stages  string // the last one failed when it ends in !
		last    string // in the last step
	}{
		{"port missing", translate.ExplainRequest{Route: ingress + "spec.rules[0].http.paths[0]"}, "class service port!", `Service "web" has no port 8080; its ports are http (80) | Ingress shop/i spec.rules[0].http.paths[0].backend.service.port | name one of them`},
		{"port misspelt", translate.ExplainRequest{Route: ingress + "spec.rules[0].http.paths[1]"}, "class service port!", `did you mean "http"?`},
		{"all well", translate.ExplainRequest{Route: ingress + "spec.rules[0].http.paths[2]"}, "class service port endpoints", `1 ready, 1 on their way out, 1 not ready, in 1 EndpointSlice`},
		{"no endpoints", translate.ExplainRequest{Route: ingress + "spec.rules[0].http.paths[3]"}, "class service port endpoints!", `add an EndpointSlice with the label kubernetes.io/service-name: idle`},
		{"resource", translate.ExplainRequest{Route: ingress + "spec.rules[0].http.paths[4]"}, "class service!", `a resource (Bucket b) cannot be a backend`},
		{"default backend", translate.ExplainRequest{Route: ingress + "spec.defaultBackend"}, "class service!", `there is no Service "gone" in namespace "shop" | Ingress shop/i spec.defaultBackend.service.name`},
		{"default backend of the controller", translate.ExplainRequest{Route: "IngressController sluice defaultBackend"}, "service!", `there is no Service "wep"`},
		{"class of another", translate.ExplainRequest{Host: "a.w.test", Path: "/x/y"}, "class!", `Ingress shop/foreign is not served by controller sluice: its class is "nginx" | Ingress shop/foreign spec.ingressClassName | set spec.ingressClassName to pub`},
		{"nobody's host", translate.ExplainRequest{Host: "b.a.w.test", Path: "/x/y"}, "", ""},
		{"nobody's path", translate.ExplainRequest{Host: "a.w.test", Path: "/xy"}, "", ""},
		{"pool of a server", translate.ExplainRequest{Route: "HTTPServer own rules[0].paths[0]"}, "service port!", `HTTPServer own rules[0].paths[0].backendPool.service`},
		{"pipeline of a server", translate.ExplainRequest{Route: "HTTPServer own rules[0].paths[1]"}, "service port endpoints", "1 ready"},
		{"servers of a server", translate.ExplainRequest{Route: "HTTPServer own rules[0].paths[2]"}, "", ""},
		{"fallback of a server", translate.ExplainRequest{Route: "HTTPServer own fallback"}, "service port endpoints", "1 ready"},
		{"object that is gone", translate.ExplainRequest{Route: "Ingress shop/none spec.rules[0].http.paths[0]"}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			steps := translate.Explain(view, options, c.request)
			var stages []string
			last := ""
			for _, s := range steps {
				mark := "!"
				if s.OK {
					mark = ""
				}
				stages = append(stages, s.Stage+mark)
				last = s.Text + " | " + s.Origin + " | " + s.Mend
			}
			if diff := cmp.Diff(c.stages, strings.Join(stages, " ")); diff != "" {
				t.Errorf("stages (-want +got):\n%s", diff)
			}
			if !strings.Contains(last, c.last) {
				t.Errorf("the last step is %q, want %q in it", last, c.last)
			}
		})
	}
}

func TestUnserved(t *testing.T) {
	view := viewOf(t, explained)
	found := translate.Unserved(view, translate.Options{Controllers: []*model.IngressController{controller()}})
	if len(found) != 1 || found[0].String() != `Ingress shop/foreign spec.ingressClassName: no controller serves the Ingress: its class is "nginx"; set spec.ingressClassName to pub` {
		t.Errorf("%v", found)
	}
	every := controller()
	every.Any = true
	if found := translate.Unserved(view, translate.Options{Controllers: []*model.IngressController{controller(), every}}); len(found) > 0 {
		t.Errorf("another controller serves it: %v", found)
	}
	if found := translate.Unserved(view, translate.Options{}); len(found) > 0 {
		t.Errorf("without controllers: %v", found)
	}
}

// TestExplainPortOfSlice misspells the port of a slice, which is none of the Pods' readiness.
func TestExplainPortOfSlice(t *testing.T) {
	view := viewOf(t, strings.ReplaceAll(explained, "ports: [{name: http, port: 8000}]", "ports: [{name: htpp, port: 9000}]"))
	steps := translate.Explain(view, translate.Options{Controllers: []*model.IngressController{controller()}}, translate.ExplainRequest{Route: "Ingress shop/i spec.rules[0].http.paths[2]"})
	last := steps[len(steps)-1]
	if last.OK || !strings.Contains(last.Mend, `it is not in web-1, which has "htpp" (9000/TCP)`) {
		t.Errorf("%+v", last)
	}
}
