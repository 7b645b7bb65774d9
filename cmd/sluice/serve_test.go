package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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

// process is a running `sluice serve` on free ports, with manifests of its own.
type process struct {
	t         *testing.T
	cmd       *exec.Cmd
	folder    string
	http, api string
	out, err  syncBuffer
	ended     chan struct{}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start starts it with a backend that any path of slow.test leads to.
func start(t *testing.T, backendPort int, flags ...string) *process {
	t.Helper()
	p := prepare(t, backendPort, flags...)
	p.run()
	return p
}

func prepare(t *testing.T, backendPort int, flags ...string) *process {
	t.Helper()
	p := &process{t: t, folder: t.TempDir(), ended: make(chan struct{})}
	p.http, p.api = p.address(), p.address()
	p.put("objects.yaml", fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: slow}
spec: {rules: [{host: slow.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: slow, port: {number: 80}}}}]}}]}
---
apiVersion: v1
kind: Service
metadata: {name: slow}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: slow, labels: {kubernetes.io/service-name: slow}}
addressType: IPv4
ports: [{name: http, port: %d, protocol: TCP}]
endpoints: [{addresses: [127.0.0.1]}]
`, backendPort))
	p.cmd = exec.Command(filepath.Join(binaries, "sluice"), append([]string{
		"serve", "--manifests", p.folder, "--http", p.http, "--https", off, "--api-addr", p.api,
	}, flags...)...)
	p.cmd.Env = []string{"HOME=" + p.folder}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	return p
}

func (p *process) run() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.ended
		if p.t.Failed() {
			p.t.Logf("log:\n%s", p.err.String())
		}
	})
}

func (p *process) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(p.t)))
}

func (p *process) put(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.folder, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) ready() *process {
	p.t.Helper()
	p.await("it is ready", func() bool { code, _ := p.ask(p.api, "", "/readyz"); return code == 200 })
	return p
}

func (p *process) await(what string, ok func() bool) {
	p.t.Helper()
	testkit.Eventually(p.t, 20*time.Second, what, ok)
}

func (p *process) ask(address, host, path string) (int, string) {
	request, err := http.NewRequest(http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	request.Host = host
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func (p *process) signal() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code.
func (p *process) exit(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("it did not end in %s", within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// slowBackend answers when released.
func slowBackend(t *testing.T) (port int, arrived <-chan struct{}, release func()) {
	t.Helper()
	come, free := make(chan struct{}, 10), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		come <- struct{}{}
		<-free
		fmt.Fprint(w, "done")
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(listener)
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(func() { release(); server.Close() })
	return listener.Addr().(*net.TCPAddr).Port, come, release
}

// hang asks for slow.test and waits for the answer by itself.
func hang(address string) {
	go func() {
		if conn, err := net.Dial("tcp", address); err == nil {
			fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: slow.test\r\n\r\n")
			io.Copy(io.Discard, conn)
		}
	}()
}

func TestDrainIsComplete(t *testing.T) {
	t.Parallel()
	port, arrived, release := slowBackend(t)
	p := start(t, port).ready()
	answer := make(chan string, 1)
	go func() {
		client := &http.Client{Timeout: 20 * time.Second}
		response, err := client.Do(&http.Request{Method: "GET", URL: &url.URL{Scheme: "http", Host: p.http}, Host: "slow.test"})
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	<-arrived
	p.signal()
	p.await("it is not ready any more", func() bool {
		code, body := p.ask(p.api, "", "/readyz")
		return code == 503 && strings.Contains(body, "draining")
	})
	release()
	if body := <-answer; body != "done" {
		t.Errorf("the request in flight got %q", body)
	}
	if code := p.exit(20 * time.Second); code != 0 {
		t.Errorf("exit code %d after a complete drain", code)
	}
}

func TestSecondSignalIsFast(t *testing.T) {
	t.Parallel()
	port, arrived, _ := slowBackend(t)
	p := start(t, port).ready()
	hang(p.http)
	<-arrived
	p.signal()
	p.await("the first signal is taken", func() bool { return strings.Contains(p.err.String(), "draining") })
	p.signal()
	if code := p.exit(3 * time.Second); code != exitFailed {
		t.Errorf("exit code %d after a drain that was cut", code)
	}
	idle := start(t, port).ready()
	idle.signal()
	idle.await("the first signal is taken", func() bool { return strings.Contains(idle.err.String(), "draining") })
	idle.signal()
	if code := idle.exit(3 * time.Second); code != 0 {
		t.Errorf("exit code %d though nothing was in flight", code)
	}
}

func TestLogFolder(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	logs := filepath.Join(t.TempDir(), "deep", "logs")
	p := start(t, backend.Port, "--log-dir", logs, "--log-format", "json").ready()
	if code, body := p.ask(p.http, "slow.test", "/x?y"); code != 200 {
		t.Fatal(code, body)
	}
	contains := func(file, text string) bool {
		got, _ := os.ReadFile(filepath.Join(logs, file))
		return strings.Contains(string(got), text)
	}
	p.await("the access log is written", func() bool { return contains("access.log", `"GET /x?y HTTP/1.1" 200`) })
	p.await("the log is written", func() bool { return contains("sluice.log", `"msg":"starting"`) })
	if p.err.String()+p.out.String() != "" {
		t.Errorf("standard streams: %s %s", p.err.String(), p.out.String())
	}
}

func TestLogFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, backend.Port, "--log-dir", file, "--access-log", "json").ready()
	p.await("it is said", func() bool { return strings.Contains(p.err.String(), "log folder cannot be written") })
	p.ask(p.http, "slow.test", "/x")
	p.await("the access log goes to standard error", func() bool { return strings.Contains(p.err.String(), `"uri":"/x"`) })
}

func TestProblemsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	p := start(t, backend.Port).ready()
	ingress := func(name, service string) string {
		return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: %s}\nspec: {rules: [{host: %[1]s.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}]}}]}\n", name, service)
	}
	p.put("bad.yaml", ingress("bad", "nobody"))
	count := func(text string) int { return strings.Count(p.err.String(), text) }
	p.await("the problem is logged", func() bool { return count("ServiceMissing") == 1 })
	line := p.err.String()[strings.Index(p.err.String(), "msg=problem"):]
	for _, part := range []string{`object="Ingress default/bad"`, "field=spec.rules[0].http.paths[0].backend.service.name", "bad.yaml", "line=4", "mend="} {
		if !strings.Contains(line, part) {
			t.Errorf("the line lacks %s: %s", part, line)
		}
	}
	for i := range 3 {
		name := fmt.Sprintf("good%d", i)
		p.put(name+".yaml", ingress(name, "slow"))
		p.await(name+" is live", func() bool { code, _ := p.ask(p.http, name+".test", "/"); return code == 200 })
	}
	if n := count("ServiceMissing"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if _, body := p.ask(p.api, "localhost", "/debug/problems"); !strings.Contains(body, "ServiceMissing") || !strings.Contains(body, "bad.yaml") {
		t.Errorf("/debug/problems: %s", body)
	}
	p.put("bad.yaml", ingress("bad", "slow"))
	p.await("its end is logged", func() bool { return count("problem is gone") == 1 })
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, backend.Port, "--https", taken.Addr().String())
	p.await("HTTP is served", func() bool { code, _ := p.ask(p.http, "slow.test", "/"); return code == 200 })
	if code, body := p.ask(p.api, "", "/readyz"); code != 503 || !strings.Contains(body, "sluice/https cannot listen on "+taken.Addr().String()) {
		t.Errorf("readyz answers %d %s", code, body)
	}
	taken.Close()
	p.ready()
}

func TestKeysOfLaterVersionsAreNamedOnce(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	file := filepath.Join(t.TempDir(), "easegress-server.yaml")
	text := "name: x\ncluster-name: y\ndata-dir: /nowhere\nbasic-auth: {a: secret}\ncluster: {listen-peer-urls: [http://localhost:2380]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, backend.Port, "-f", file).ready()
	if n := strings.Count(p.err.String(), "keys=cluster-name,cluster,data-dir,basic-auth"); n != 1 {
		t.Errorf("named %d times", n)
	}
	if strings.Contains(p.err.String(), "secret") {
		t.Error("a password is logged")
	}
}

func TestExplainOfARunningServer(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	p := start(t, backend.Port).ready()
	ask := func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, filepath.Join(binaries, "sluice"), append([]string{"explain", "--api-addr", p.api}, args...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := ask("http://slow.test/x"); err != nil || !strings.Contains(out, "Service default/slow") || !strings.Contains(out, "ok    answer") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := ask("-o", "json", "http://other.test/"); err != nil || !strings.Contains(out, "404 Not Found") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestGoneLogReader: the reader of both streams has ended, as under `sluice serve | head`.
func TestGoneLogReader(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	p := prepare(t, backend.Port, "--access-log", "combined", "--log-level", "debug")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	p.cmd.Stdout, p.cmd.Stderr = write, write
	p.run()
	write.Close()
	p.ready()
	for range 3 {
		if code, body := p.ask(p.http, "slow.test", "/"); code != 200 {
			t.Fatal(code, body)
		}
	}
	p.signal()
	p.await("it drains", func() bool { code, _ := p.ask(p.api, "", "/readyz"); return code == 503 })
	p.signal()
	if code := p.exit(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// TestStuckLogReader: a reader of the logs that has stopped reading stops nothing else.
func TestStuckLogReader(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	l := newLines(write, false)
	long := bytes.Repeat([]byte("x"), 1000)
	done := make(chan struct{})
	go func() {
		for range 10_000 {
			l.Write(long)
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Write blocks")
	}
	if l.dropped.Load() == 0 {
		t.Error("nothing was dropped, so the pipe was not full")
	}
	l.close()
	write.Close()
	if _, err := io.Copy(io.Discard, read); err != nil && !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}
