package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

const (
	ingresses   = 10_000
	ingressFile = 100 // Ingresses in a file
)

// measureFiles starts Sluice on ten thousand Ingresses in a hundred files, each with a host, a Service and an endpoint of its
// own, and prints the time to ready, the memory, and how long a changed file takes until it is served.
func measureFiles(ctx context.Context, o options) error {
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.URL.Path)
	})}
	go func() { _ = server.Serve(origin) }()
	defer server.Close()
	folder := filepath.Join(o.dir, "manifests")
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	port := origin.Addr().(*net.TCPAddr).Port
	for f := range ingresses / ingressFile {
		if err := writeIngresses(folder, f, port, "/"); err != nil {
			return err
		}
	}
	ports, err := freePorts(2)
	if err != nil {
		return err
	}
	begin := time.Now()
	sluice, err := start(ctx, o, "sluice-files", o.sluice, "serve", "--manifests", folder, "--http", address(ports[0]), "--https", "off", "--api-addr", address(ports[1]))
	if err != nil {
		return err
	}
	defer sluice.stop()
	if err := sluice.awaitPort(ports[1]); err != nil {
		return err
	}
	if err := await(func() bool { return status(address(ports[1]), "", "/readyz") == 200 }, time.Minute); err != nil {
		return fmt.Errorf("ready: %w\n%s", err, sluice.tail())
	}
	fmt.Printf("%d Ingresses from files: ready after %s\n", ingresses, time.Since(begin).Round(time.Millisecond))
	return changes(folder, port, address(ports[0]), sluice)
}

func changes(folder string, port int, at string, sluice *process) error {
	if got := status(at, hostOf(ingresses-1), "/"); got != 200 {
		return fmt.Errorf("the last host answers %d", got)
	}
	fmt.Printf("resident memory: %d MB\n", sluice.memory()>>20)
	var took []time.Duration
	for i := range 20 {
		path := fmt.Sprintf("/changed-%d", i)
		if err := writeIngresses(folder, i, port, path); err != nil {
			return err
		}
		begin := time.Now()
		if err := await(func() bool {
			return status(at, hostOf(i*ingressFile), path) == 200 && status(at, hostOf(i*ingressFile), "/") == 404
		}, 10*time.Second); err != nil {
			return fmt.Errorf("change of file %d: %w", i, err)
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	fmt.Printf("a file of %d Ingresses rewritten, until served: median %s, worst %s (of which 50 ms the file must rest)\n", ingressFile, took[10].Round(time.Millisecond), took[19].Round(time.Millisecond))
	fmt.Printf("resident memory after the changes: %d MB\n", sluice.memory()>>20)
	return nil
}

func hostOf(i int) string { return fmt.Sprintf("host-%d.example.com", i) }

func writeIngresses(folder string, file, port int, path string) error {
	var text strings.Builder
	for i := file * ingressFile; i < (file+1)*ingressFile; i++ {
		fmt.Fprintf(&text, ingressYAML, i, hostOf(i), path, i, i, port, i, i, port)
	}
	name := filepath.Join(folder, fmt.Sprintf("%03d.yaml", file))
	if err := os.WriteFile(name+".new", []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

const ingressYAML = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web-%d, namespace: shop}
spec:
  rules:
  - host: %s
    http:
      paths:
      - path: %s
        pathType: Exact
        backend: {service: {name: svc-%d, port: {number: 80}}}
---
apiVersion: v1
kind: Service
metadata: {name: svc-%d, namespace: shop}
spec:
  ports: [{port: 80, targetPort: %d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: svc-%d, namespace: shop, labels: {kubernetes.io/service-name: svc-%d}}
addressType: IPv4
ports: [{name: "", port: %d, protocol: TCP}]
endpoints:
- {addresses: [127.0.0.1], conditions: {ready: true}}
---
`

// status asks for a path and returns the status; 0 when there was no answer.
func status(at, host, path string) int {
	request, err := http.NewRequest(http.MethodGet, "http://"+at+path, nil) //nolint:noctx // bounded by the client's timeout
	if err != nil {
		return 0
	}
	request.Host = host
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// await polls until done reports true.
func await(done func() bool, limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); runtime.Gosched() {
		if done() {
			return nil
		}
		<-time.After(2 * time.Millisecond)
	}
	return fmt.Errorf("not within %s", limit)
}
