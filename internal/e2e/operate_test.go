package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
)

// slowBackend answers /slow when it is told to, and everything else at once.
func slowBackend(t *testing.T) (port int, begun <-chan struct{}, finish func()) {
	started, release := make(chan struct{}, 16), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			started <- struct{}{}
			<-release
		}
		fmt.Fprintln(w, "done")
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().(*net.TCPAddr).Port, started, func() { close(release) }
}

// exitCode waits for the end.
func (s *sluice) exitCode() int {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(60 * time.Second):
		s.t.Fatal("sluice did not end")
	}
	var exit *exec.ExitError
	if errors.As(s.exit, &exit) {
		return exit.ExitCode()
	}
	return 0
}

// TestDrain: unready at once, still serving through the delay, a request in flight finishes, exit 0.
func TestDrain(t *testing.T) {
	t.Parallel()
	port, begun, finish := slowBackend(t)
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("web", port)+ingressYAML("web", "d.test", "/", "web", 80))
	s := serve(t, "--manifests", f.dir)
	slow := make(chan answer, 1)
	go func() { slow <- s.get("d.test", "/slow") }()
	<-begun
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 3*time.Second, "/readyz answers 503", func() bool { return s.status("http://"+s.api+"/readyz", "") == 503 })
	if got := s.get("d.test", "/"); got.code != 200 {
		t.Errorf("a request in the drain delay got %d %s", got.code, got.body)
	}
	testkit.Eventually(t, 15*time.Second, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", s.http)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	finish()
	if got := <-slow; got.code != 200 {
		t.Errorf("the request in flight got %d %s", got.code, got.body)
	}
	if code := s.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestASecondSignalEndsAtOnce, and says with its exit code that somebody was cut off.
func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	port, begun, finish := slowBackend(t)
	defer finish()
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("web", port)+ingressYAML("web", "d.test", "/", "web", 80))
	s := serve(t, "--manifests", f.dir)
	go s.get("d.test", "/slow")
	<-begun
	begin := time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	s.await("the drain began", func() bool { return s.status("http://"+s.api+"/readyz", "") == 503 })
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	if code := s.exitCode(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestAPortInUse: that server alone says so, the others serve, and it listens when the port is free.
func TestAPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	a := testkit.NewBackend(t, "a")
	f := newFolder(t)
	free := testkit.FreePort(t)
	server := func(name string, port int) string {
		return fmt.Sprintf("---\nkind: HTTPServer\nname: %s\naddress: 127.0.0.1\nport: %d\nrules: [{paths: [{backend: p}]}]\n", name, port)
	}
	f.put("in.yaml", server("taken", taken.Addr().(*net.TCPAddr).Port)+server("free", free)+
		fmt.Sprintf("---\nkind: Pipeline\nname: p\nfilters: [{name: proxy, kind: Proxy, pools: [{servers: [{url: \"http://127.0.0.1:%d\"}]}]}]\n", a.Port))
	s := launch(t, "--manifests", f.dir)
	s.await("the free one serves", func() bool { return s.status(fmt.Sprintf("http://127.0.0.1:%d/", free), "") == 200 })
	s.await("the log names the port", func() bool {
		return strings.Contains(s.log.String(), "address already in use") && strings.Contains(s.log.String(), "taken")
	})
	at := taken.Addr().String()
	taken.Close()
	s.await("the other one serves", func() bool { return s.status("http://"+at+"/", "") == 200 })
}

// run runs the binary to its end.
func run(t *testing.T, name string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// The contents of the ConfigMap of the guide to Easegress as an ingress controller, as they stand there.
const (
	seedServer = `name: ingress-easegress
cluster-name: easegress-ingress-controller
api-addr: 0.0.0.0:2381
data-dir: /opt/easegress/data
log-dir: /opt/easegress/log
`
	seedController = `kind: IngressController
name: ingress-controller
namespaces: ["default"]
ingressClass: easegress
httpServer:
  port: 8080
  https: false
  keepAlive: true
`
	seedIngress = `apiVersion: v1
kind: Service
metadata:
  name: hello-service
spec:
  selector:
    app: hello
  ports:
  - name: v1
    port: 60001
    targetPort: 50001
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: hello-ingress
spec:
  ingressClassName: easegress
  rules:
  - host: www.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend:
          service:
            name: hello-service
            port:
              number: 60001
`
)

func writeSeed(t *testing.T, server, controller string) (serverFile, controllerFile string) {
	t.Helper()
	dir := t.TempDir()
	serverFile, controllerFile = filepath.Join(dir, "easegress-server.yaml"), filepath.Join(dir, "controller.yaml")
	for path, text := range map[string]string{serverFile: server, controllerFile: controller} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return serverFile, controllerFile
}

// TestSeedFilesAreAccepted verbatim, under both names of the binary.
func TestSeedFilesAreAccepted(t *testing.T) {
	server, controller := writeSeed(t, seedServer, seedController)
	if code, out := run(t, binary, "serve", "--check", "-f", server, "--initial-object-config-files", controller); code != 0 {
		t.Errorf("sluice serve --check: %d\n%s", code, out)
	}
	legacy := filepath.Join(t.TempDir(), "easegress-server")
	if err := os.Symlink(binary, legacy); err != nil {
		t.Fatal(err)
	}
	if code, out := run(t, legacy, "--check", "-f", server, "--initial-object-config-files", controller); code != 0 {
		t.Errorf("easegress-server --check: %d\n%s", code, out)
	}
}

// TestSeedServes runs the seed's controller and Ingress with manifests in the place of a cluster, and ports that are free.
func TestSeedServes(t *testing.T) {
	t.Parallel()
	hello := testkit.NewBackend(t, "hello")
	port, api := testkit.FreePort(t), testkit.FreePort(t)
	logs := t.TempDir()
	server, controller := writeSeed(t,
		strings.NewReplacer("0.0.0.0:2381", fmt.Sprintf("127.0.0.1:%d", api), "/opt/easegress/log", logs).Replace(seedServer),
		strings.Replace(seedController, "8080", itoa(port), 1))
	f := newFolder(t)
	f.put("hello.yaml", seedIngress+fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hello-1, namespace: default, labels: {kubernetes.io/service-name: hello-service}}
addressType: IPv4
ports: [{name: v1, port: %d, protocol: TCP}]
endpoints: [{addresses: [127.0.0.1], conditions: {ready: true}}]
`, hello.Port)+strings.NewReplacer("hello-ingress", "other", "easegress", "nginx", "www.example.com", "other.test").Replace(seedIngress[strings.Index(seedIngress, "---"):]))
	cmd := exec.Command(binary, "serve", "-f", server, "--initial-object-config-files", controller, "--manifests", f.dir)
	s := &sluice{t: t, cmd: cmd, http: fmt.Sprintf("127.0.0.1:%d", port), api: fmt.Sprintf("127.0.0.1:%d", api), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.exit = cmd.Wait(); close(s.done) }()
	t.Cleanup(s.stop)
	s.await("hello answers", func() bool { return s.get("www.example.com", "/").code == 200 })
	if got := s.get("other.test", "/"); got.code != 404 {
		t.Errorf("an Ingress of another class answers %d", got.code)
	}
	if entries, err := os.ReadDir(logs); err != nil || len(entries) == 0 {
		t.Errorf("nothing in the log folder: %v", err)
	}
}

// TestWrongUsage exits with 2 and says what, where and how to mend it.
func TestWrongUsage(t *testing.T) {
	server, controller := writeSeed(t, strings.Replace(seedServer, "api-addr", "api-adr", 1), strings.Replace(seedController, "ingressClass", "ingresClass", 1))
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"serve"}, []string{"--manifests"}},
		{[]string{"serve", "-f", server}, []string{"easegress-server.yaml:3", "api-adr", "api-addr"}},
		{[]string{"serve", "--check", "--initial-object-config-files", controller}, []string{"controller.yaml:4", "ingresClass", "ingressClass"}},
		{[]string{"serve", "--manifests", ".", "--http", "nonsense"}, []string{"--http", "nonsense"}},
		{[]string{"serve", "--manifests", ".", "--access-log", "xml"}, []string{"combined", "json"}},
		{[]string{"serve", "--manifest", "."}, []string{"--manifest"}},
		{[]string{"nonsense"}, []string{"nonsense"}},
		{[]string{"check"}, []string{"PATH"}},
		{[]string{"check", "/does/not/exist"}, []string{"/does/not/exist"}},
	} {
		code, out := run(t, binary, c.args...)
		if code != 2 && (code == 0 || c.args[0] != "serve" || c.args[1] != "--check") {
			t.Errorf("%v: exit code %d\n%s", c.args, code, out)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, out)
			}
		}
	}
}

// TestHelpFitsTwoScreens of 24 lines and 100 columns.
func TestHelpFitsTwoScreens(t *testing.T) {
	code, out := run(t, binary, "serve", "--help")
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if code != 0 || len(lines) > 48 {
		t.Errorf("exit code %d, %d lines", code, len(lines))
	}
	for _, line := range lines {
		if len([]rune(line)) > 100 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}

// TestG5_SecretsStaySecret: no key of a Secret in the log, the running config, explain or metrics (G5).
func TestG5_SecretsStaySecret(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	ca := testkit.NewAuthority(t)
	chain, key := ca.Issue(t, time.Now().Add(time.Hour), "s.test")
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("a", back.Port)+secretYAML("s", chain, key)+strings.Replace(ingressYAML("s", "s.test", "/", "a", 80), "spec:\n", "spec:\n  tls: [{hosts: [s.test], secretName: s}]\n", 1))
	s := serve(t, "--manifests", f.dir)
	body := strings.Split(strings.TrimSpace(string(key)), "\n")[1]
	for _, page := range []string{"/debug/config", "/debug/problems", "/metrics", "/explain?url=https://s.test/"} {
		got := s.ask("GET", "http://"+s.api+page, "")
		if strings.Contains(got.body, body[:20]) || strings.Contains(got.body, "PRIVATE") {
			t.Errorf("%s shows the key", page)
		}
		if page != "/debug/problems" && got.code != 200 {
			t.Errorf("%s: %d", page, got.code)
		}
	}
	if strings.Contains(s.log.String(), body[:20]) {
		t.Error("the log has the key")
	}
}

// TestRawConnections asks over one connection, byte for byte.
func TestRawConnections(t *testing.T) {
	back := testkit.NewBackend(t, "a")
	f := newFolder(t)
	f.put("in.yaml", serviceYAML("a", back.Port)+ingressYAML("r", "r.test", "/", "a", 80))
	s := serve(t, "--manifests", f.dir)
	two := s.raw("GET /1 HTTP/1.1\r\nHost: r.test\r\n\r\nGET /2 HTTP/1.1\r\nHost: r.test\r\nConnection: close\r\n\r\n")
	if strings.Count(two, "HTTP/1.1 200") != 2 || strings.Index(two, "GET /1") > strings.Index(two, "GET /2") {
		t.Errorf("pipelined:\n%s", two)
	}
	for text, want := range map[string]string{
		"POST / HTTP/1.1\r\nHost: r.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": "HTTP/1.1 400",
		"POST / HTTP/1.1\r\nHost: r.test\r\nTransfer-Encoding: chunked\r\n\r\nZ\r\n":                          "HTTP/1.1 400",
		"POST / HTTP/1.1\r\nHost: r.test\r\nTransfer-Encoding: gzip\r\n\r\n":                                  "HTTP/1.1 501",
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                                        "HTTP/1.1 400",
		"GET / HTTP/1.1\r\nHost: r.test\r\nExpect: x\r\n\r\n":                                                 "HTTP/1.1 417",
		"CONNECT r.test:80 HTTP/1.1\r\nHost: r.test\r\n\r\n":                                                  "HTTP/1.1 405",
		"GET / HTTP/1.0\r\n\r\n": "HTTP/1.1 404",
		"GET http://r.test/x HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n": "HTTP/1.1 200",
	} {
		if got := s.raw(text); !strings.HasPrefix(got, want) {
			t.Errorf("%q:\n%.300s\nwant %s", text, got, want)
		}
	}
}
