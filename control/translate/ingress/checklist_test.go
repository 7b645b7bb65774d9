package ingress_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
)

func TestG1_TextIsNeverAPattern(t *testing.T) {
	runCase(t, "testdata/paths/text.txtar")
	runCase(t, "testdata/paths/implementation-specific.txtar")
	runCase(t, "testdata/hosts/invalid.txtar")
}

func TestG2_NamesThatCouldCollide(t *testing.T) {
	runCase(t, "testdata/objects/names-that-could-collide.txtar")
	runCase(t, "testdata/field/a04-name-collisions.txtar")
}

func TestG4_AddressesNobodyMaySendTo(t *testing.T) {
	runCase(t, "testdata/endpoints/addresses-from-api.txtar")
	runCase(t, "testdata/endpoints/addresses-from-files.txtar")
	runCase(t, "testdata/backends/external-name.txtar")
	runCase(t, "testdata/backends/external-name-allowed.txtar")
	runCase(t, "testdata/endpoints/api-server.txtar")
}

// TestG9_OneBrokenObject adds every kind of broken object to good ones, which must not even be built anew.
func TestG9_OneBrokenObject(t *testing.T) {
	for _, name := range []string{"backends/broken", "backends/missing", "backends/resource", "tls/broken", "tls/bad-hosts", "hosts/invalid", "paths/invalid", "endpoints/bad-ports", "objects/empty", "annotations/unknown"} {
		broken := load(t, "testdata/"+name+".txtar")
		good, _ := decode(t, []byte(goodObjects))
		options := broken.settings.options()
		translator := translate.New(options)
		before, _ := translator.Update(viewOf(good), nil)
		after, report := translator.Update(viewOf(append(good, broken.objects...)), nil)
		for host, rule := range before.RuleSets["sluice/ingress"].Hosts.All() {
			if now, _ := after.RuleSets["sluice/ingress"].Hosts.Get(host); now != rule {
				t.Errorf("%s: host %s was rebuilt", name, host)
			}
		}
		for upstream, u := range before.Upstreams.All() {
			if now, _ := after.Upstreams.Get(upstream); now != u {
				t.Errorf("%s: upstream %s was rebuilt", name, upstream)
			}
		}
		if len(report.Problems()) == 0 {
			t.Errorf("%s: nothing is said", name)
		}
		again, last := translator.Update(viewOf(good), nil)
		if string(model.Dump(again)) != string(model.Dump(before)) || len(last.Problems()) != 0 {
			t.Errorf("%s: something is left after the broken objects are gone: %v", name, last.Problems())
		}
	}
}

const goodObjects = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: good, namespace: fine}
spec: {rules: [{host: good.one, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: good, port: {number: 80}}}}]}},
  {host: good.two, http: {paths: [{path: /x, pathType: Exact, backend: {service: {name: good, port: {number: 80}}}}]}}]}
---
apiVersion: v1
kind: Service
metadata: {name: good, namespace: fine}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: good, namespace: fine, labels: {kubernetes.io/service-name: good}}
addressType: IPv4
ports: [{port: 80}]
endpoints: [{addresses: [10.0.0.1]}]
`

func TestD5_ServerThatWasToKnowItsClients(t *testing.T) {
	c := (&settings{}).options().Controllers[0]
	c.HTTPSServer.CACertBase64 = "garbage"
	config, report := translate.Translate(viewOf(nil), translate.Options{Controllers: []*model.IngressController{c}})
	for _, s := range config.Servers {
		if s.HTTPS {
			t.Errorf("server %s listens without asking clients for certificates", s.Name)
		}
	}
	if e := report.Get(c.Origin.Key); e == nil || !strings.Contains(e.Problems[0].String(), "caCertBase64") {
		t.Errorf("the report is %v", e)
	}
}

func TestD6_BrokenCertificates(t *testing.T) {
	runCase(t, "testdata/tls/broken.txtar")
	runCase(t, "testdata/tls/no-hosts-broken.txtar")
	runCase(t, "testdata/tls/mismatch.txtar")
}

// TestG9_HugeObjects has objects at which a step for each pair of their parts would not end in the time of the test.
func TestG9_HugeObjects(t *testing.T) {
	const n = 20_000
	same, many, tls := &store.Ingress{}, &store.Ingress{}, &store.Ingress{Rules: []store.Rule{{Host: "h.test"}}}
	service := &store.Service{}
	for i := range n {
		host := fmt.Sprintf("h%d.test", i)
		backend := store.Backend{HasService: true, Service: "web", PortName: fmt.Sprintf("no%d", i)}
		same.Rules = append(same.Rules, store.Rule{Host: "h.test", HasHTTP: true, Paths: []store.Path{{Path: "/", Type: "Prefix", Backend: backend}}})
		many.Rules = append(many.Rules, store.Rule{Host: host, HasHTTP: true, Paths: []store.Path{{Path: "/", Type: "Prefix", Backend: backend}}})
		tls.TLS = append(tls.TLS, store.TLS{Hosts: []string{host, "h.test"}, Secret: fmt.Sprintf("s%d", i)})
	}
	for i := range 1000 {
		service.Ports = append(service.Ports, store.ServicePort{Name: fmt.Sprintf("p%d", i), Protocol: "TCP", Port: int32(i + 1)})
	}
	options := (&settings{}).options()
	for name, in := range map[string]*store.Ingress{"same": same, "many": many, "tls": tls} {
		view := viewOf([]*store.Object{store.NewObject(store.KindIngress, "shop", name, in), store.NewObject(store.KindService, "shop", "web", service)})
		_, report := translate.Translate(view, options)
		e := report.Get(model.Key{Kind: store.KindIngress, Namespace: "shop", Name: name})
		if e == nil || len(e.Problems) != 101 || e.Problems[100].Reason != "TooManyProblems" {
			t.Errorf("%s: the report has no 100 problems and a rest", name)
		}
	}
}
