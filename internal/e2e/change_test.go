package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
)

// TestRouteFlip flips the backend of a route every 200 ms, 200 times, under load: every answer is a 200 from one of the two.
func TestRouteFlip(t *testing.T) {
	t.Parallel()
	a, b := testkit.NewBackend(t, "a"), testkit.NewBackend(t, "b")
	f := newFolder(t)
	f.put("services.yaml", serviceYAML("a", a.Port)+serviceYAML("b", b.Port))
	f.put("route.yaml", ingressYAML("flip", "flip.test", "/", "a", 80))
	s := serve(t, "--manifests", f.dir)

	var asked, fromA, fromB atomic.Int64
	var wrong sync.Map
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
			for {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				request, _ := http.NewRequest("GET", "http://"+s.http+"/x", nil)
				request.Host = "flip.test"
				response, err := client.Do(request)
				if err != nil {
					wrong.Store(err.Error(), true)
					continue
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				asked.Add(1)
				switch from := response.Header.Get("X-Backend"); {
				case response.StatusCode != 200:
					wrong.Store(fmt.Sprint(response.StatusCode), true)
				case from == "a":
					fromA.Add(1)
				case from == "b":
					fromB.Add(1)
				default:
					wrong.Store("from "+from, true)
				}
			}
		})
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for i := range 200 {
		<-tick.C
		f.put("route.yaml", ingressYAML("flip", "flip.test", "/", []string{"b", "a"}[i%2], 80))
	}
	close(stop)
	group.Wait()
	wrong.Range(func(what, _ any) bool {
		t.Errorf("a request got %v", what)
		return true
	})
	t.Logf("%d requests, %d from a, %d from b", asked.Load(), fromA.Load(), fromB.Load())
	if fromA.Load() < 100 || fromB.Load() < 100 {
		t.Errorf("the flips were not served: %d from a, %d from b", fromA.Load(), fromB.Load())
	}
}

// TestChangeIsLiveWithin100ms measures from the moment the file is whole; the median of 20 counts, so that a busy machine does
// not fail it.
func TestChangeIsLiveWithin100ms(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	f := newFolder(t)
	f.put("service.yaml", serviceYAML("a", back.Port))
	f.put("route.yaml", ingressYAML("r", "r.test", "/0", "a", 80))
	s := serve(t, "--manifests", f.dir)
	late := 0
	for i := 1; i <= 20; i++ {
		path := fmt.Sprintf("/%d", i)
		f.put("route.yaml", ingressYAML("r", "r.test", path, "a", 80))
		begin := time.Now()
		s.await(path+" is live", func() bool { return s.get("r.test", path).code == 200 })
		if time.Since(begin) > 100*time.Millisecond {
			late++
		}
	}
	if late > 10 {
		t.Errorf("%d of 20 changes took longer than 100 ms", late)
	}
}

// TestG9_OneBadApple puts every kind of broken object among 500 good hosts; the good ones answer all the while, and a later
// change is still applied.
func TestG9_OneBadApple(t *testing.T) {
	t.Parallel()
	back := testkit.NewBackend(t, "good")
	f := newFolder(t)
	f.put("service.yaml", serviceYAML("good", back.Port))
	var good strings.Builder
	for i := range 500 {
		good.WriteString(ingressYAML(fmt.Sprintf("good-%d", i), fmt.Sprintf("good-%d.test", i), "/", "good", 80))
	}
	f.put("good.yaml", good.String())
	s := serve(t, "--manifests", f.dir)
	checkGood := func(after string) {
		t.Helper()
		for i := range 500 {
			if got := s.get(fmt.Sprintf("good-%d.test", i), "/"); got.code != 200 {
				t.Fatalf("after %s good-%d.test answers %d %s", after, i, got.code, got.body)
			}
		}
	}
	checkGood("the start")
	for i, bad := range badObjects() {
		f.put(fmt.Sprintf("bad-%02d.yaml", i), bad.text)
		marker := fmt.Sprintf("/after-%d", i)
		f.put("marker.yaml", ingressYAML("marker", "marker.test", marker, "good", 80))
		s.await("a change after "+bad.name+" is live", func() bool { return s.get("marker.test", marker).code == 200 })
		if i%6 == 5 {
			checkGood(bad.name)
		}
	}
	checkGood("every bad object")
	if metrics := s.ask("GET", "http://"+s.api+"/metrics", "").body; !strings.Contains(metrics, "sluice_") {
		t.Errorf("no metrics: %.200s", metrics)
	}
}

type badObject struct{ name, text string }

// badObjects is every kind of broken object that the project claims to survive.
func badObjects() []badObject {
	ingress := func(spec string) string {
		return "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: bad, namespace: default}\nspec: " + spec + "\n"
	}
	secret := func(data string) string {
		return "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: bad, namespace: default}\ndata: " + data + "\n" +
			"---\n" + ingress(`{tls: [{hosts: [bad-tls.test], secretName: bad}], rules: [{host: bad-tls.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: good, port: {number: 80}}}}]}}]}`)
	}
	return []badObject{
		{"no YAML", "{{{{ not yaml"},
		{"a tab", "kind: Ingress\n\tname: x\n"},
		{"binary", "\x00\x01\x02\xff\xfe"},
		{"an empty file", ""},
		{"a list of nothing", "apiVersion: v1\nkind: List\nitems: [null, 3, text]\n"},
		{"a nil backend", ingress(`{rules: [{host: bad.test, http: {paths: [{path: /, pathType: Prefix}]}}]}`)},
		{"a nil service and resource", ingress(`{defaultBackend: {}, rules: [{host: bad.test, http: {paths: [{path: /, pathType: Prefix, backend: {}}]}}]}`)},
		{"a resource backend", ingress(`{defaultBackend: {resource: {kind: Bucket, name: x, apiGroup: a.b}}}`)},
		{"port 0", ingress(`{rules: [{host: bad.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: good, port: {number: 0}}}}]}}]}`)},
		{"a port out of range", ingress(`{rules: [{host: bad.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: good, port: {number: 99999999}}}}]}}]}`)},
		{"a missing service", ingress(`{rules: [{host: bad.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: nobody, port: {number: 80}}}}]}}]}`)},
		{"wrong types", ingress(`{rules: {host: 3}}`)},
		{"unknown fields", ingress(`{rulez: [], rules: [{host: bad.test, hots: x}]}`)},
		{"no pathType", ingress(`{rules: [{host: bad.test, http: {paths: [{path: /, backend: {service: {name: good, port: {number: 80}}}}]}}]}`)},
		{"a bad host", ingress(`{rules: [{host: "*.*.te st..", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: good, port: {number: 80}}}}]}}]}`)},
		{"a relative path", ingress(`{rules: [{host: bad.test, http: {paths: [{path: "no/slash/../..%00", pathType: Exact, backend: {service: {name: good, port: {number: 80}}}}]}}]}`)},
		{"a stolen path", ingress(`{rules: [{host: good-1.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: nobody, port: {number: 80}}}}]}}]}`)},
		{"a 1 MB annotation", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: bad, namespace: default, annotations: {sluice.dev/x: " + strings.Repeat("a", 1<<20) + "}}\nspec: {rules: [{host: bad.test}]}\n"},
		{"an injection", "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: bad, namespace: default, annotations: {sluice.dev/ssl-redirect: \"true; } server { $(id) {{.}} `x`\"}}\nspec: {rules: [{host: bad.test}]}\n"},
		{"bad base64", secret("{tls.crt: '!!!', tls.key: '###'}")},
		{"bad PEM", secret("{tls.crt: aGVsbG8=, tls.key: aGVsbG8=}")},
		{"an empty Secret", secret("{}")},
		{"a slice without an address", "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: bad, namespace: default, labels: {kubernetes.io/service-name: bad}}\naddressType: IPv4\nports: null\nendpoints: [{addresses: []}, {addresses: ['not an ip']}]\n"},
		{"a service without ports", "apiVersion: v1\nkind: Service\nmetadata: {name: bad, namespace: default}\nspec: {}\n"},
		{"an alias bomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"},
		{"a regexp bomb", "kind: HTTPServer\nname: bomb\nport: 1\nrules: [{paths: [{pathRegexp: '((((((a{0,1000}){0,1000}){0,1000})))))', backend: nobody}]}]\n"},
		{"a pipeline of nothing", "kind: Pipeline\nname: bad\nflow: [{filter: nobody, jumpIf: {x: y}}]\nfilters: [{name: p, kind: Prox}]\n"},
		{"a duplicate key", "kind: Ingress\nkind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: {name: bad}\n"},
		{"a deep nest", strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000)},
		{"a foreign kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {}\n"},
		{"no kind", "hello: world\n"},
	}
}
