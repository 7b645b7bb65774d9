package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/lane"
)

var shared = lane.Lane{Audit: true}

// TestMain lets more tests run at once than there are processors, since they mostly wait; -parallel says otherwise. Those that take the API
// server away, claim Ingresses everywhere or measure how long something takes run alone.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err) // the testing package has this flag
	}
	os.Exit(lane.Main(m, &shared))
}

// nameOf is a name for what belongs to a test.
func nameOf(t *testing.T) string {
	name := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(t.Name())), "-")
	return strings.Trim(name[:min(len(name), 50)], "-")
}

// namespace makes one for a test, named after it.
func namespace(ctx context.Context, t *testing.T) string {
	t.Helper()
	name := nameOf(t)
	if err := shared.Namespace(ctx, name); err != nil {
		t.Fatal(err)
	}
	return name
}

func apply(ctx context.Context, t *testing.T, namespace, documents string) {
	t.Helper()
	if err := shared.Apply(ctx, namespace, strings.ReplaceAll(documents, "IMAGE", lane.EchoImage)); err != nil {
		t.Fatal(err)
	}
}

// eventually waits until done, or fails the test.
func eventually(ctx context.Context, t *testing.T, what string, within time.Duration, done func(context.Context) (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := cluster.Wait(ctx, what, done); err != nil {
		t.Fatal(err)
	}
}

var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("SLUICE_TEST_BINARY"); path != "" {
		return path, nil
	}
	folder, err := os.MkdirTemp("", "sluice-e2e-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(folder, 0o755); err != nil { // Pods run it as another user
		return "", err
	}
	path := filepath.Join(folder, "sluice")
	return path, cluster.BuildSluice(context.Background(), path)
})

// sluice is a running Sluice.
type sluice struct {
	*cluster.Process
	t     *testing.T
	ip    string
	admin string // HOST:PORT
}

// places gives each Sluice an address of its own.
var places atomic.Int32

// place is an address of its own for a Sluice.
func place() string { return "10.202.1." + fmt.Sprint(places.Add(1)) }

// launch starts a Sluice that reads the API server as an administrator, and whose own namespace is the test's.
func launch(t *testing.T, name string, flags ...string) *sluice {
	t.Helper()
	file, err := shared.WriteKubeconfig(name, shared.Server, cluster.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, file)
	return launchAt(t, name, place(), append([]string{"--kubeconfig", file}, flags...)...)
}

// settle makes the test's namespace that of a kubeconfig's context, where Leases are.
func settle(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, []byte(strings.Replace(string(text), "context: {", "context: {namespace: "+nameOf(t)+", ", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func launchAt(t *testing.T, name, ip string, flags ...string) *sluice {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &sluice{t: t, ip: ip, admin: "127.0.0.1:" + fmt.Sprint(21000+places.Add(1))}
	args := append([]string{"serve", "--http", ip + ":80", "--https", ip + ":443", "--api-addr", s.admin}, flags...)
	if s.Process, err = cluster.StartProcess(shared.Dir, name, path, args...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, s.Tail())
		}
	})
	return s
}

// end ends it, without the drain.
func (s *sluice) end() {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for range 100 {
		_ = s.Signal(syscall.SIGTERM) // the second ends it at once; it may have ended
		select {
		case <-s.Done():
			return
		case <-again.C:
		}
	}
	s.Stop(0)
}

// ready waits until it is.
func (s *sluice) ready(ctx context.Context) *sluice {
	s.t.Helper()
	eventually(ctx, s.t, "Sluice to be ready", 30*time.Second, func(ctx context.Context) (bool, error) {
		select {
		case <-s.Done():
			return false, fmt.Errorf("it ended with exit code %d: %s", s.ExitCode(), s.Tail())
		default:
		}
		code, _ := s.ask(ctx, "/readyz")
		return code == 200, nil
	})
	return s
}

// resident is how much memory the process has, as the kernel says it.
func (s *sluice) resident() string {
	_, text := s.ask(context.Background(), "/metrics")
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, "process_resident_memory_bytes "); found {
			var bytes float64
			fmt.Sscan(value, &bytes)
			return fmt.Sprintf("%.0f MiB", bytes/(1<<20))
		}
	}
	return "?"
}

// ask asks the admin address.
func (s *sluice) ask(ctx context.Context, path string) (int, string) {
	return fetch(ctx, "http://"+s.admin+path, "")
}

// get asks for a path of a host.
func (s *sluice) get(ctx context.Context, host, path string) (int, string) {
	return fetch(ctx, "http://"+s.ip+path, host)
}

var plain = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// fetch returns the status, 0 when there is no answer, and the body or what went wrong.
func fetch(ctx context.Context, url, host string) (int, string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	request.Host = host
	response, err := plain.Do(request)
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

// serves waits until a host answers with that status.
func (s *sluice) serves(ctx context.Context, host string, want int) {
	s.t.Helper()
	var last int
	var body string
	limit, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := cluster.Wait(limit, fmt.Sprintf("%s to answer %d", host, want), func(ctx context.Context) (bool, error) {
		last, body = s.get(ctx, host, "/")
		return last == want, nil
	})
	if err != nil {
		s.t.Fatalf("%v; the last answer was %d %s", err, last, body)
	}
}

// addresses of an Ingress's status.
func addresses(in *netv1.Ingress) string {
	var all []string
	for _, at := range in.Status.LoadBalancer.Ingress {
		all = append(all, at.IP+at.Hostname)
	}
	return strings.Join(all, " ")
}

func status(ctx context.Context, t *testing.T, ns, name, want string) {
	t.Helper()
	eventually(ctx, t, fmt.Sprintf("the status of %s/%s to be %q", ns, name, want), 30*time.Second, func(ctx context.Context) (bool, error) {
		in, err := shared.Client().NetworkingV1().Ingresses(ns).Get(ctx, name, metav1.GetOptions{})
		return err == nil && addresses(in) == want, err
	})
}

const application = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: echo
        image: IMAGE
        env:
        - {name: EXIT_AFTER, value: 2s}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports: [{name: http, containerPort: 3000}]
        readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1, failureThreshold: 1}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: web, port: 80, targetPort: http}]
`

const class = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: sluice}
spec: {controller: sluice.dev/ingress-controller}
`

// ingress is one with a rule for HOST, for the Service web.
func ingress(name, class, host string, tls ...string) string {
	text := fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s}
spec:
  ingressClassName: %s
  rules:
  - host: %s
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: web}}}}]}
`, name, class, host)
	for _, secret := range tls {
		text += fmt.Sprintf("  tls: [{hosts: [%s], secretName: %s}]\n", host, secret)
	}
	return text
}

// certificate makes a Secret with a certificate for a host.
func certificate(ctx context.Context, t *testing.T, ns, name, host string, kind corev1.SecretType) {
	t.Helper()
	chain, key, err := shared.Authority.Issue(host)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "type": kind, "data": map[string][]byte{"tls.crt": chain, "tls.key": key},
	})
	if err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, ns, string(text))
}

// rolledOut waits for a Deployment as kubectl rollout status does.
func rolledOut(ctx context.Context, t *testing.T, ns, name string) {
	t.Helper()
	eventually(ctx, t, "the rollout of "+name, time.Minute, func(ctx context.Context) (bool, error) {
		d, err := shared.Client().AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.AvailableReplicas == *d.Spec.Replicas && s.Replicas == *d.Spec.Replicas, nil
	})
}

// podAddress is HOST:PORT of a ready Pod of an application.
func podAddress(ctx context.Context, t *testing.T, ns, selector, port string) string {
	t.Helper()
	pods, err := shared.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("Pods %v, error %v", pods, err)
	}
	return net.JoinHostPort(pods.Items[0].Status.PodIP, port)
}
