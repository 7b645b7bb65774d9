// Package e2e runs the built binary as a user would: manifests in, traffic out. The binary is built with the race detector, and
// a race that it reports fails the test that ran it.
package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-e2e")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "sluice")
	if out, err := exec.Command("go", "build", "-race", "-o", binary, "sluice.dev/sluice/cmd/sluice").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building sluice: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // the system clears its temporary folder too
	os.Exit(code)
}

// sluice is a running binary.
type sluice struct {
	t                *testing.T
	cmd              *exec.Cmd
	http, https, api string
	log              lockedBuffer
	done             chan struct{}
	exit             error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts `sluice serve` on free loopback ports with the given flags and waits until it is ready.
func serve(t *testing.T, flags ...string) *sluice {
	t.Helper()
	s := launch(t, flags...)
	s.await("/readyz answers 200", func() bool { return s.status("http://"+s.api+"/readyz", "") == 200 })
	return s
}

// launch is serve without the wait.
func launch(t *testing.T, flags ...string) *sluice {
	t.Helper()
	at := func() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t))) }
	s := &sluice{t: t, http: at(), https: at(), api: at(), done: make(chan struct{})}
	s.cmd = exec.Command(binary, append([]string{"serve", "--http", s.http, "--https", s.https, "--api-addr", s.api, "--log-level", "debug"}, flags...)...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.exit = s.cmd.Wait(); close(s.done) }()
	t.Cleanup(s.stop)
	return s
}

func (s *sluice) stop() {
	again := time.NewTicker(20 * time.Millisecond) // the second signal ends the drain, and two at once are one
	defer again.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-s.done:
		case <-again.C:
			if time.Now().Before(deadline) {
				continue
			}
			s.t.Errorf("sluice did not end after a second SIGTERM")
			_ = s.cmd.Process.Kill()
			<-s.done
		}
		break
	}
	if log := s.log.String(); strings.Contains(log, "DATA RACE") || strings.Contains(log, "panic") {
		s.t.Errorf("sluice reported a race or a panic:\n%s", log)
	} else if s.t.Failed() {
		s.t.Logf("log of sluice, its end:\n%s", log[max(0, len(log)-4000):])
	}
}

func (s *sluice) await(what string, ok func() bool) {
	s.t.Helper()
	testkit.Eventually(s.t, 20*time.Second, what, func() bool {
		select {
		case <-s.done:
			s.t.Fatalf("sluice ended: %v\n%s", s.exit, s.log.String())
		default:
		}
		return ok()
	})
}

// answer is a response, read whole.
type answer struct {
	code   int
	body   string
	header http.Header
}

var client = &http.Client{
	Timeout:       10 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
}

func (s *sluice) get(host, path string) answer { return s.ask("GET", "http://"+s.http+path, host) }

func (s *sluice) ask(method, url, host string) answer {
	request, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{body: err.Error()}
	}
	return answer{response.StatusCode, string(body), response.Header}
}

func (s *sluice) status(url, host string) int { return s.ask("GET", url, host).code }

// raw sends bytes on a connection of its own, closes the sending side, and returns all that comes back.
func (s *sluice) raw(text string) string {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.http)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite() // a refused request may have closed it already
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	out, _ := io.ReadAll(conn) // what came before a reset counts
	return string(out)
}

// folder is a folder of manifests that sluice watches.
type folder struct {
	t   *testing.T
	dir string
}

func newFolder(t *testing.T) folder { return folder{t, t.TempDir()} }

// put writes a file whole, by rename.
func (f folder) put(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		f.t.Fatal(err)
	}
}

// ingressYAML is an Ingress with one host and one path, Prefix.
func ingressYAML(name, host, path, service string, port any) string {
	return fmt.Sprintf(`---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, namespace: default}
spec:
  rules:
  - host: %q
    http:
      paths:
      - {path: %q, pathType: Prefix, backend: {service: {name: %s, port: {%s}}}}
`, name, host, path, service, portRef(port))
}

func itoa(n int) string { return strconv.Itoa(n) }

func portRef(port any) string {
	if n, ok := port.(int); ok {
		return "number: " + itoa(n)
	}
	return fmt.Sprintf("name: %v", port)
}

// serviceYAML is a Service with port 80, and a slice with the loopback ports as its ready endpoints.
func serviceYAML(name string, ports ...int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\nspec: {ports: [{name: http, port: 80, targetPort: http}]}\n", name)
	for i, port := range ports {
		fmt.Fprintf(&text, `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s-%d, namespace: default, labels: {kubernetes.io/service-name: %s}}
addressType: IPv4
ports: [{name: http, port: %d, protocol: TCP}]
endpoints: [{addresses: [127.0.0.1], conditions: {ready: true}}]
`, name, i, name, port)
	}
	return text.String()
}

// secretYAML is a TLS Secret.
func secretYAML(name string, chain, key []byte) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata: {name: %s, namespace: default}\ndata: {tls.crt: %s, tls.key: %s}\n",
		name, base64.StdEncoding.EncodeToString(chain), base64.StdEncoding.EncodeToString(key))
}
