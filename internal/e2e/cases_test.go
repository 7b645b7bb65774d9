package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/sluice/internal/testkit"
)

// The field cases, each over the wire: reports about programs of this kind, and the right answer. Those that are a transcript stand
// in testdata/case-*.txtar.

func runCase(t *testing.T, id string) {
	t.Parallel()
	files, err := filepath.Glob("testdata/case-" + id + "-*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcript of case %s: %v", id, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { newTranscript(t, file).run() })
	}
}

func TestCase_A01_SliceWithoutPort(t *testing.T) { runCase(t, "A01") }

func TestCase_A02_UdpAndTcp(t *testing.T) { runCase(t, "A02") }

func TestCase_A03_MissingPort(t *testing.T) { runCase(t, "A03") }

func TestCase_A04_NamesThatJoinAlike(t *testing.T) { runCase(t, "A04") }

func TestCase_A05_TlsForOneHost(t *testing.T) { runCase(t, "A05") }

func TestCase_A09_FinalDot(t *testing.T) { runCase(t, "A09") }

func TestCase_A11_DefaultBackendWithRules(t *testing.T) { runCase(t, "A11") }

func TestCase_A12_PublicPort(t *testing.T) { runCase(t, "A12") }

func TestCase_A13_OneHostTwoNamespaces(t *testing.T) { runCase(t, "A13") }

// TestCase_A03_CheckAndExplain: both name the Service that is there, its ports, the field, and the port that was meant.
func TestCase_A03_CheckAndExplain(t *testing.T) {
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("web", 9)+ingressYAML("a03", "h", "/a", "web", 8080)+
		"      - {path: /b, pathType: Prefix, backend: {service: {name: web, port: {name: htpp}}}}\n")
	code, out := run(t, binary, "check", f.dir)
	for _, want := range []string{
		"in.yaml:", "Ingress default/a03 spec.rules[0].http.paths[0].backend.service.port", "spec.rules[0].http.paths[1].backend.service.port",
		`Service "web" has no port 8080`, "http (80)", `did you mean "http"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("check says nothing of %q:\n%s", want, out)
		}
	}
	if code == 0 {
		t.Error("check exits with 0")
	}
	for _, path := range []string{"/a", "/b"} {
		_, out := run(t, binary, "explain", "--manifests", f.dir, "http://h"+path)
		if !strings.Contains(out, "ok    service") || !strings.Contains(out, "FAIL  port") || !strings.Contains(out, "503") {
			t.Errorf("explain %s does not end at the port:\n%s", path, out)
		}
	}
}

// TestCase_A10_CountersOfEveryHost: what an Ingress served is counted under its rules, whatever host the client named; unknown hosts
// count together.
func TestCase_A10_CountersOfEveryHost(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("a", back.Port)+ingressYAML("m", "a.test", "/", "a", 80)+`  - host: b.test
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}
  - host: "*.w.test"
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}
  - http: {paths: [{path: /hostless, pathType: Prefix, backend: {service: {name: a, port: {number: 80}}}}]}
`)
	s := serve(t, "--manifests", f.dir)
	for i := range 10 {
		for host, path := range map[string]string{"a.test": "/", "b.test": "/", fmt.Sprintf("x%d.w.test", i): "/", "other.test": "/hostless"} {
			if got := s.get(host, path); got.code != 200 {
				t.Fatalf("%s: %d", host, got.code)
			}
		}
		s.get(fmt.Sprintf("unknown-%d.test", i), "/")
	}
	metrics := s.ask("GET", "http://"+s.api+"/metrics", "").body
	sum, series := 0, 0
	for _, line := range strings.Split(metrics, "\n") {
		if strings.HasPrefix(line, "sluice_origin_requests_total{") && strings.Contains(line, "Ingress default/m") {
			var n int
			if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &n); err != nil {
				t.Fatal(err)
			}
			sum, series = sum+n, series+1
		}
		if strings.Contains(line, "unknown-") || strings.Contains(line, "x1.w.test") || strings.Contains(line, "other.test") {
			t.Errorf("a client's host is a label: %s", line)
		}
	}
	if sum != 40 || series != 4 {
		t.Errorf("the counters of the Ingress are %d series and sum to %d, want 4 and 40", series, sum)
	}
	if !strings.Contains(metrics, `reason="host_not_found"`) && !strings.Contains(metrics, `reason="route_not_found"`) {
		t.Error("unknown hosts are not counted")
	}
}

// TestLoadBalancing: a hundred requests reach ten endpoints ten times each.
func TestLoadBalancing(t *testing.T) {
	f := newFolder(t)
	var ports []int
	for i := range 10 {
		ports = append(ports, testkit.NewBackend(t, fmt.Sprintf("b%d", i)).Port)
	}
	f.put("in.yaml", serviceYAML("ten", ports...)+ingressYAML("lb", "lb.test", "/", "ten", 80))
	s := serve(t, "--manifests", f.dir)
	count := map[string]int{}
	for range 100 {
		count[s.get("lb.test", "/").header.Get("X-Backend")]++
	}
	for name, n := range count {
		if n != 10 || len(count) != 10 {
			t.Errorf("%s answered %d of 100, by %d endpoints", name, n, len(count))
		}
	}
}

// TestE4_OneFormOfThePath: the path that was matched is the one that is forwarded, logged and explained, whatever form it came in.
func TestE4_OneFormOfThePath(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("a", back.Port)+ingressYAML("e", "e.test", "/a/b", "a", 80))
	s := serve(t, "--manifests", f.dir)
	for target, canonical := range map[string]string{
		"/a/b": "/a/b", "/a/./b": "/a/b", "/x/../a/b": "/a/b", "/%61/b": "/a/b", "/a/b/%7E": "/a/b/~", "/a/b/%2f": "/a/b/%2F", "/a/b/%5c..": "/a/b/%5C..", "/a/b//": "/a/b//",
	} {
		got := s.raw("GET " + target + " HTTP/1.1\r\nHost: e.test\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 200") || !strings.Contains(got, "GET "+canonical+" HTTP/1.1") {
			t.Errorf("%s: want 200 and %s at the backend:\n%s", target, canonical, got)
		}
		if _, out := run(t, binary, "explain", "--api-addr", s.api, "http://e.test"+target); !strings.Contains(out, `"`+canonical+`"`) || !strings.Contains(out, "ok    answer") {
			t.Errorf("explain %s:\n%s", target, out)
		}
	}
}

// TestE7_NoFieldChangesTheMethod that rules see.
func TestE7_NoFieldChangesTheMethod(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	f := newFolder(t)
	port := testkit.FreePort(t)
	f.put("in.yaml", fmt.Sprintf(`kind: Pipeline
name: p
filters: [{name: proxy, kind: Proxy, pools: [{servers: [{url: "http://127.0.0.1:%d"}]}]}]
---
kind: HTTPServer
name: s
address: 127.0.0.1
port: %d
rules: [{paths: [{pathPrefix: /, methods: [GET], backend: p}]}]
`, back.Port, port))
	s := launch(t, "--manifests", f.dir)
	s.http = fmt.Sprintf("127.0.0.1:%d", port)
	s.await("it serves", func() bool { return s.get("x.test", "/").code == 200 })
	for _, head := range []string{"GET / HTTP/1.1\r\nX-HTTP-Method-Override: DELETE", "GET / HTTP/1.1\r\nX-Method-Override: DELETE"} {
		if got := s.raw(head + "\r\nHost: x.test\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%q: %.100s", head, got)
		}
	}
	got := s.raw("DELETE / HTTP/1.1\r\nX-HTTP-Method-Override: GET\r\nHost: x.test\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 405") || !strings.Contains(got, "Allow: GET") {
		t.Errorf("DELETE said to be GET: %.200s", got)
	}
}

// TestG1_MetacharactersAreData: what would be code to a template, a shell or an expression is matched as text, or refused.
func TestG1_MetacharactersAreData(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	f := newFolder(t)
	text := serviceYAML("a", back.Port)
	for i, path := range []string{"/$(id)", "/{{.x}}", "/a`b", "/a.b+c*", "/[a-z]+", `/q"q`, "/;return 200;"} {
		text += ingressYAML(fmt.Sprintf("g%d", i), fmt.Sprintf("g%d.test", i), path, "a", 80)
	}
	f.put("in.yaml", text)
	s := serve(t, "--manifests", f.dir)
	for host, paths := range map[string][2]string{ // what matches, and what an expression would match too
		"g0.test": {"/$(id)", "/root"}, "g1.test": {"/%7B%7B.x%7D%7D", "/x"}, "g2.test": {"/a%60b", "/ab"}, "g3.test": {"/a.b+c*", "/aXbbc"},
		"g4.test": {"/%5Ba-z%5D+", "/abc"}, "g5.test": {"/q%22q", "/qq"}, "g6.test": {"/;return%20200;", "/"},
	} {
		for i, want := range []string{"HTTP/1.1 200", "HTTP/1.1 404"} {
			if got := s.raw("GET " + paths[i] + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, want) {
				t.Errorf("%s%s: %.60s, want %s", host, paths[i], got, want)
			}
		}
	}
}
