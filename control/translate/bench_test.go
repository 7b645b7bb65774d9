package translate_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// many is an Ingress with host, Service and EndpointSlice of its own, as text.
const many = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web-%[1]d, namespace: shop}
spec:
  rules:
  - host: host-%[1]d.example.com
    http:
      paths:
      - path: %[2]s
        pathType: Exact
        backend: {service: {name: svc-%[1]d, port: {number: 80}}}
---
apiVersion: v1
kind: Service
metadata: {name: svc-%[1]d, namespace: shop}
spec:
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: svc-%[1]d, namespace: shop, labels: {kubernetes.io/service-name: svc-%[1]d}}
addressType: IPv4
ports: [{name: "", port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.%[3]d.%[4]d], conditions: {ready: true}}
---
`

func textOf(i int, path string) string { return fmt.Sprintf(many, i, path, i/250, i%250+1) }

func decoded(t testing.TB, text string) []*store.Object {
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
	return objects
}

// fill puts n Ingresses into a store, from files of a hundred each.
func fill(t testing.TB, n int) *store.Store {
	t.Helper()
	s := store.New("files")
	for first := 0; first < n; first += 100 {
		var text strings.Builder
		for i := first; i < min(first+100, n); i++ {
			text.WriteString(textOf(i, "/"))
		}
		s.ReplaceFile("files", fmt.Sprintf("%05d.yaml", first), decoded(t, text.String()))
	}
	return s
}

func live() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

func options() translate.Options {
	c := controller()
	c.Any, c.Classes, c.DefaultBackend = true, nil, ""
	return translate.Options{Controllers: []*model.IngressController{c}}
}

const manyIngresses = 10_000

func BenchmarkTranslate(b *testing.B) {
	empty := live()
	s := fill(b, manyIngresses)
	view, _ := s.Take()
	stored := live()
	for b.Loop() {
		translate.Translate(view, options())
	}
	translator := translate.New(options())
	config, report := translator.Update(view, nil)
	b.ReportMetric(stored-empty, "MB-store")
	b.ReportMetric(live()-stored, "MB-translated")
	runtime.KeepAlive([]any{s, translator, config, report})
}

func benchmarkUpdate(b *testing.B, change func(i int) *store.Object) {
	s := fill(b, manyIngresses)
	translator := translate.New(options())
	view, _ := s.Take()
	translator.Update(view, nil)
	for i := 0; b.Loop(); i++ {
		s.Apply("kube", []*store.Object{change(i)}, nil)
		view, keys := s.Take()
		translator.Update(view, keys)
	}
}

func BenchmarkUpdateIngress(b *testing.B) {
	objects := [][]*store.Object{decoded(b, textOf(7_000_000, "/a")), decoded(b, textOf(7_000_000, "/b"))}
	benchmarkUpdate(b, func(i int) *store.Object {
		o := *objects[i%2][0]
		return &o
	})
}

func BenchmarkUpdateEndpoints(b *testing.B) {
	benchmarkUpdate(b, func(i int) *store.Object {
		return store.NewObject(store.KindEndpointSlice, "shop", "more", &store.EndpointSlice{
			Service: "svc-77", AddressType: "IPv4", Ports: []store.EndpointPort{{Protocol: "TCP", Port: 8080, HasPort: true}},
			Endpoints: []store.Endpoint{{Address: fmt.Sprintf("10.9.0.%d", i%250+1), Ready: true, Serving: true}},
		})
	})
}
