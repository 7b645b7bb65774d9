package store

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice.dev/sluice/model"
)

func TestDecodeIngress(t *testing.T) {
	o, problems := decodeOne(t, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: web
  creationTimestamp: "2026-01-02T03:04:05Z"
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: "{}"
    nginx.ingress.kubernetes.io/rewrite-target: /$1
    sluice.dev/ssl-redirect: "true"
spec:
  ingressClassName: sluice
  defaultBackend: {resource: {apiGroup: k8s.example.com, kind: Bucket, name: static}}
  tls: [{hosts: [a.test], secretName: a}]
  rules:
  - host: a.test
    http:
      paths:
      - path: /x
        pathType: Exact
        backend: {service: {name: web, port: {name: http}}}
  - host: b.test
`)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	want := &Object{
		Key: model.Key{Kind: "Ingress", Namespace: "default", Name: "web"}, File: "a.yaml", Line: 2,
		Value: &Ingress{
			Created: 1767323045, Class: "sluice", HasClass: true,
			Annotations: map[string]string{"nginx.ingress.kubernetes.io/rewrite-target": "", "sluice.dev/ssl-redirect": "true"},
			Default:     &Backend{Resource: &Resource{Group: "k8s.example.com", Kind: "Bucket", Name: "static"}},
			TLS:         []TLS{{Hosts: []string{"a.test"}, Secret: "a"}},
			Rules: []Rule{
				{Host: "a.test", HasHTTP: true, Paths: []Path{{Path: "/x", Type: "Exact", Backend: Backend{HasService: true, Service: "web", PortName: "http"}}}},
				{Host: "b.test"},
			},
		},
	}
	if diff := cmp.Diff(want, o, cmpopts.IgnoreUnexported(Object{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeServiceAndSlice(t *testing.T) {
	o, problems := decodeOne(t, `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  ipFamilies: [IPv6, IPv4]
  ports:
  - {name: a, port: 80, targetPort: 8080, appProtocol: http}
  - {name: b, port: 81, targetPort: web}
  - {name: c, port: 82, protocol: UDP}
`)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	wantService := &Service{IPFamily: "IPv6", Ports: []ServicePort{
		{Name: "a", Protocol: "TCP", AppProtocol: "http", Port: 80, TargetPort: 8080},
		{Name: "b", Protocol: "TCP", Port: 81, TargetName: "web"},
		{Name: "c", Protocol: "UDP", Port: 82, TargetPort: 82},
	}}
	if diff := cmp.Diff(wantService, o.Value); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o, problems = decodeOne(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: a, port: 8080}, {name: b}]
endpoints:
- {addresses: [10.0.0.1, 10.0.0.9]}
- {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}, targetRef: {kind: Pod, name: p}}
- {addresses: [10.0.0.3], conditions: {ready: false}}
`)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	wantSlice := &EndpointSlice{
		Service: "web", AddressType: "IPv4",
		Ports: []EndpointPort{{Name: "a", Protocol: "TCP", Port: 8080, HasPort: true}, {Name: "b", Protocol: "TCP"}},
		Endpoints: []Endpoint{
			{Address: "10.0.0.1", Ready: true, Serving: true},
			{Address: "10.0.0.2", Pod: "p", Serving: true, Terminating: true},
			{Address: "10.0.0.3"},
		},
	}
	if diff := cmp.Diff(wantSlice, o.Value); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeSecretAndClass(t *testing.T) {
	o, _ := decodeOne(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/tls\ndata: {tls.crt: Yg==, other: eHg=}\nstringData: {tls.key: k}\n")
	if diff := cmp.Diff(&Secret{Type: "kubernetes.io/tls", Chain: []byte("b"), Key: []byte("k")}, o.Value); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	o, problems := decodeOne(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {tls.crt: '*'}\n")
	if o == nil || len(problems) != 1 || problems[0].Severity != model.Error {
		t.Errorf("a Secret with bad base64 gives %v, %v; want it kept with an error", o, problems)
	}
	o, _ = decodeOne(t, "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: a, namespace: x, annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}}\nspec: {controller: c}\n")
	if diff := cmp.Diff(&IngressClass{Controller: "c", Default: true}, o.Value); diff != "" || o.Key.Namespace != "" {
		t.Errorf("key %v (-want +got):\n%s", o.Key, diff)
	}
}

func TestDecodeMistakes(t *testing.T) {
	ingress := "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\n"
	for _, c := range []struct {
		name, text string
		used       bool
		want       string // in the first problem
	}{
		{"unknown field", ingress + "spec: {rulez: []}\n", true, `Ingress default/web spec.rulez: unknown field "rulez"; did you mean "rules"?`},
		{"wrong type", ingress + "spec: {rules: {}}\n", false, "spec.rules: must be a list"},
		{"bad name", "apiVersion: v1\nkind: Service\nmetadata: {name: a/b}\n", false, "metadata.name"},
		{"no name", "apiVersion: v1\nkind: Service\n", false, "has no name"},
		{"bad namespace", "apiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: X}\n", false, "metadata.namespace"},
		{"bad name of a Secret", "apiVersion: v1\nkind: Secret\nmetadata: {name: A}\n", false, "metadata.name"},
		{"old version", "apiVersion: networking.k8s.io/v1beta1\nkind: Ingress\nmetadata: {name: web}\n", false, "write apiVersion: networking.k8s.io/v1"},
		{"older version", "apiVersion: extensions/v1beta1\nkind: Ingress\nmetadata: {name: web}\n", false, "write apiVersion: networking.k8s.io/v1"},
		{"no version", "kind: Ingress\nmetadata: {name: web}\n", false, "write apiVersion: networking.k8s.io/v1"},
		{"foreign kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n", false, "kind Deployment of apps/v1 is not used"},
		{"foreign group", "apiVersion: example.com/v1\nkind: Ingress\nmetadata: {name: web}\n", false, "is not used"},
		{"own kind", "kind: Pipeline\nname: p\nfilterz: []\n", false, "did you mean"},
		{"no kind at all", "kind: Nonsense\nname: p\n", false, "Nonsense"},
	} {
		o, problems := decodeOne(t, c.text)
		if (o != nil) != c.used || len(problems) == 0 || !strings.Contains(problems[0].String(), c.want) {
			t.Errorf("%s: used %v, problems %v; want used %v and %q", c.name, o != nil, problems, c.used, c.want)
		}
	}
}

func TestDecodeOwnKind(t *testing.T) {
	o, problems := decodeOne(t, "kind: Pipeline\nname: p\nfilters: [{name: f, kind: Proxy, pools: [{servers: [{url: 'http://127.0.0.1:1'}]}]}]\n")
	if o == nil || len(problems) > 0 {
		t.Fatalf("%v %v", o, problems)
	}
	if _, ok := o.Value.(*model.Pipeline); !ok || o.Key != (model.Key{Kind: "Pipeline", Name: "p"}) {
		t.Errorf("%T %v", o.Value, o.Key)
	}
}

// TestDecodeValues keeps what can serve of an object, and names each value that cannot.
func TestDecodeValues(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}, {port: 0}, {port: -5}, {port: 65536}]}\n", []string{
			`Service default/a spec.ports[1].port: 0 is no port; use 1 to 65535`,
			`Service default/a spec.ports[2].port: -5 is no port; use 1 to 65535`,
			`Service default/a spec.ports[3].port: 65536 is no port; use 1 to 65535`,
		}},
		{"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: ipv4\nports: [{port: 0}, {name: any}]\nendpoints: [{addresses: [10.0.0.1]}, {addresses: [web]}, {addresses: [\"fe80::1%eth0\"]}, {addresses: []}]\n", []string{
			`EndpointSlice default/a addressType: "ipv4" is no addressType; did you mean "IPv4"?`,
			`EndpointSlice default/a ports[0].port: 0 is no port; use 1 to 65535`,
			`EndpointSlice default/a endpoints[1].addresses: "web" is no IP address; write the address of a Pod, without port`,
			`EndpointSlice default/a endpoints[2].addresses: "fe80::1%eth0" is no IP address; write the address of a Pod, without port`,
			`EndpointSlice default/a endpoints[3].addresses: "" is no IP address; write the address of a Pod, without port`,
		}},
		{"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: FQDN\nendpoints: [{addresses: [web.test]}]\n", nil},
	} {
		o, problems := decodeOne(t, c.text)
		if o == nil {
			t.Errorf("%s: no object", c.text)
		}
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, diff)
		}
	}
	o, problems := decodeOne(t, "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nendpoints: ["+strings.Repeat("{addresses: [x]}, ", 5000)+"]\n")
	if o == nil || len(problems) != maxValueProblems {
		t.Errorf("%d problems", len(problems))
	}
}

// TestDecodeMisspeltKind tells a slip from a kind that is used elsewhere.
func TestDecodeMisspeltKind(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: networking.k8s.io/v1\nkind: ingress\n":           `did you mean "Ingress"?`,
		"apiVersion: networking.k8s.io/v1\nkind: Ingresses\n":         `did you mean "Ingress"?`,
		"apiVersion: networking.k8s.io/v1\nkind: Ingres\n":            `did you mean "Ingress"?`,
		"apiVersion: networking.k8s.io/v1\nkind: IngressClas\n":       `did you mean "IngressClass"?`,
		"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlices\n":     `did you mean "EndpointSlice"?`,
		"apiVersion: v1\nkind: secret\n":                              `did you mean "Secret"?`,
		"apiVersion: networking.k8s.io/v1\nmetadata: {name: a}\n":     "add kind: Ingress, or kind: IngressClass",
		"apiVersion: v1\nmetadata: {name: a}\n":                       "add kind: Service, or kind: Secret",
		"metadata: {name: a}\n":                                       "begin it with kind: HTTPServer, kind: Pipeline, kind: IngressController, or with the apiVersion",
		"apiVersion: v1\nkind: ServiceAccount\n":                      "",
		"apiVersion: v1\nkind: Endpoints\n":                           "",
		"apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n":     "",
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n": "",
	} {
		_, problems := decodeOne(t, text)
		if len(problems) != 1 || !strings.Contains(problems[0].Mend, want) || (want == "") != (problems[0].Severity == model.Warning) {
			t.Errorf("%q: %v", text, problems)
		}
	}
}
