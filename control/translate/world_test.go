package translate_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// world makes random objects of few names, so that they meet.
type world struct {
	t      testing.TB
	random *rand.Rand
	pairs  map[string][]byte
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 7)), pairs: map[string][]byte{}}
	for _, name := range []string{"one.crt", "one.key", "two.crt", "two.key", "wild.crt", "wild.key", "one-rsa.crt", "one-rsa.key"} {
		raw, err := os.ReadFile("ingress/testdata/pairs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		w.pairs[name] = raw
	}
	return w
}

func pick[T any](w *world, from ...T) T { return from[w.random.IntN(len(from))] }

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *world) namespace() string { return pick(w, "a", "b") }

func (w *world) host() string {
	return pick(w, "one.test", "two.test", "*.w.test", "a.w.test", "b.w.test", "*.test", "", "ONE.test", "bad..host")
}

func (w *world) backend() store.Backend {
	b := store.Backend{HasService: true, Service: pick(w, "s0", "s1", "s2")}
	switch w.random.IntN(10) {
	case 0:
		b.PortName = "http"
	case 1:
		b.PortName = "other"
	case 2:
		b.Port = 81
	case 3:
		return store.Backend{Resource: &store.Resource{Kind: "K", Name: "n"}}
	case 4:
		return store.Backend{}
	default:
		b.Port = 80
	}
	return b
}

func (w *world) ingress() *store.Ingress {
	in := &store.Ingress{Created: int64(w.random.IntN(4))}
	if w.chance(70) {
		in.Class, in.HasClass = pick(w, "pub", "pub", "other"), true
	} else if w.chance(50) {
		in.Annotations = map[string]string{store.ClassAnnotation: pick(w, "pub", "other")}
	}
	if w.chance(40) {
		if in.Annotations == nil {
			in.Annotations = map[string]string{}
		}
		in.Annotations["sluice.dev/ssl-redirect"] = pick(w, "true", "true", "false", "x")
	}
	if w.chance(30) {
		b := w.backend()
		in.Default = &b
	}
	for range w.random.IntN(4) {
		rule := store.Rule{Host: w.host()}
		for range w.random.IntN(4) {
			rule.HasHTTP = true
			rule.Paths = append(rule.Paths, store.Path{Path: pick(w, "/", "", "/x", "/x/", "/x/y", "/y", "bad"), Type: pick(w, "Prefix", "Exact", "ImplementationSpecific", "", "Other"), Backend: w.backend()})
		}
		in.Rules = append(in.Rules, rule)
	}
	for range w.random.IntN(3) {
		item := store.TLS{Secret: pick(w, "c0", "c1", "c2", "")}
		for range w.random.IntN(3) {
			item.Hosts = append(item.Hosts, w.host())
		}
		in.TLS = append(in.TLS, item)
	}
	return in
}

func (w *world) service() *store.Service {
	s := &store.Service{Type: pick(w, "", "", "", "ExternalName")}
	if w.chance(40) {
		s.ExternalName = pick(w, "x.test", "Y.test.", "localhost", "10.0.0.1", "10.0.0.2", "127.0.0.1", "-")
	}
	for range w.random.IntN(3) {
		s.Ports = append(s.Ports, store.ServicePort{Name: pick(w, "http", "x", ""), Protocol: pick(w, "TCP", "TCP", "UDP"), Port: pick(w, int32(80), 81), TargetPort: pick(w, int32(80), 8080), AppProtocol: pick(w, "", "", "http", "grpc")})
	}
	return s
}

func (w *world) slice() *store.EndpointSlice {
	s := &store.EndpointSlice{Service: pick(w, "s0", "s1", "s2"), AddressType: "IPv4"}
	for range w.random.IntN(3) {
		s.Ports = append(s.Ports, store.EndpointPort{Name: pick(w, "http", "x", ""), Protocol: "TCP", Port: pick(w, int32(80), 8080), HasPort: w.chance(90)})
	}
	for range w.random.IntN(4) {
		s.Endpoints = append(s.Endpoints, store.Endpoint{Address: pick(w, "10.0.0.1", "10.0.0.2", "10.0.0.3", "127.0.0.1", "x"), Ready: w.chance(70), Serving: w.chance(80), Terminating: w.chance(30)})
	}
	return s
}

func (w *world) secret() *store.Secret {
	name := pick(w, "one", "two", "wild", "one-rsa")
	s := &store.Secret{Type: pick(w, "kubernetes.io/tls", "kubernetes.io/tls", "Opaque", "x"), Chain: w.pairs[name+".crt"], Key: w.pairs[name+".key"]}
	if w.chance(10) {
		s.Key = w.pairs["two.key"]
	}
	if w.chance(5) {
		s.Chain = nil
	}
	return s
}

func (w *world) own(kind, name string) any {
	var text string
	switch kind {
	case model.KindPipeline:
		text = fmt.Sprintf("kind: Pipeline\nname: %s\nfilters: [{name: p, kind: Proxy, pools: [{service: \"a/%s:%s\", loadBalance: {policy: %s}}]}]\n", name, pick(w, "s0", "s1"), pick(w, "80", "http"), pick(w, "roundRobin", "random"))
	case model.KindHTTPServer:
		text = fmt.Sprintf("kind: HTTPServer\nname: %s\nport: %s\nrouterKind: %s\nrules: [{host: %s, paths: [{path: /a, backend: %s}, {backendPool: {service: \"b/s1:80\"}}]}]\n", name, pick(w, "9000", "9001", "80"), pick(w, "Host", "Ordered"), pick(w, "one.test", "two.test"), pick(w, "p0", "p1", "none"))
	default:
		text = fmt.Sprintf("kind: IngressController\nname: %s\ningressClass: %s\nallowExternalNameServices: %s\ndefaultBackend: %s/s0:80\ndefaultCertificate: a/c0\nhttpServer: {port: %s}\nhttpsServer: {port: 8443}\n", name, pick(w, "pub", "other"), pick(w, "true", "true", "false"), pick(w, "a", "b", "default"), pick(w, "8080", "9000"))
	}
	docs, errs := document.Parse("own.yaml", []byte(text))
	if len(errs) > 0 {
		w.t.Fatal(errs)
	}
	o, problems := store.Decode(docs[0])
	if o == nil {
		w.t.Fatal(problems)
	}
	return o.Value
}

// apiServer is one of the objects by which the API server says where it is.
func (w *world) apiServer() *store.Object {
	if w.chance(50) {
		s := w.service()
		s.ClusterIPs = []string{pick(w, "10.0.0.1", "10.0.0.9")}
		return store.NewObject(store.KindService, "default", "kubernetes", s)
	}
	s := w.slice()
	s.Service = pick(w, "kubernetes", "kubernetes", "s0")
	return store.NewObject(store.KindEndpointSlice, "default", pick(w, "kubernetes", "kubernetes", "forged"), s)
}

// object is a random object and whether it is to be deleted instead.
func (w *world) object() (o *store.Object, gone bool) {
	gone = w.chance(20)
	n := w.random.IntN(100)
	switch {
	case n < 45:
		o = store.NewObject(store.KindIngress, w.namespace(), pick(w, "i0", "i1", "i2", "i3"), w.ingress())
	case n < 48:
		o = w.apiServer()
	case n < 60:
		o = store.NewObject(store.KindService, w.namespace(), pick(w, "s0", "s1", "s2"), w.service())
	case n < 75:
		o = store.NewObject(store.KindEndpointSlice, w.namespace(), pick(w, "e0", "e1", "e2"), w.slice())
	case n < 87:
		o = store.NewObject(store.KindSecret, w.namespace(), pick(w, "c0", "c1", "c2"), w.secret())
	case n < 90:
		o = store.NewObject(store.KindIngressClass, "", pick(w, "pub", "other"), &store.IngressClass{Controller: pick(w, model.ControllerName, "x", model.LegacyControllerName), Default: w.chance(30)})
	case n < 94:
		name := pick(w, "p0", "p1")
		o = store.NewObject(model.KindPipeline, "", name, w.own(model.KindPipeline, name))
	case n < 98:
		name := pick(w, "h0", "h1")
		o = store.NewObject(model.KindHTTPServer, "", name, w.own(model.KindHTTPServer, name))
	default:
		gone = gone || w.chance(40)
		name := pick(w, "k0", "k1")
		o = store.NewObject(model.KindIngressController, "", name, w.own(model.KindIngressController, name))
	}
	if w.chance(5) {
		o.Problems = []model.Problem{{Origin: model.Origin{Key: o.Key}, Reason: "Odd", Message: "odd"}}
	}
	return o, gone
}
