package pods_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/lane"
)

var shared lane.Lane

func TestMain(m *testing.M) { os.Exit(lane.Main(m, &shared)) }

// namespace makes one for a test, named after it.
func namespace(ctx context.Context, t *testing.T) string {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	if err := shared.Namespace(ctx, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// apply fills the image's name in for IMAGE.
func apply(ctx context.Context, t *testing.T, namespace, documents string) {
	t.Helper()
	if err := shared.Apply(ctx, namespace, strings.ReplaceAll(documents, "IMAGE", lane.EchoImage)); err != nil {
		t.Fatal(err)
	}
}

// waitPod waits until a Pod is as it should be, and returns it.
func waitPod(ctx context.Context, t *testing.T, namespace, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	err := cluster.Wait(ctx, fmt.Sprintf("pod %s to be %s", name, what), func(ctx context.Context) (bool, error) {
		var err error
		pod, err = shared.Client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && is(pod), err
	})
	if err != nil {
		text, _ := json.MarshalIndent(pod.Status, "", " ")
		t.Fatalf("%v\n%s", err, text)
	}
	return pod
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// get asks a Pod.
func get(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// run runs a Pod to its end and returns what it wrote.
func run(ctx context.Context, t *testing.T, document string) (*corev1.Pod, string) {
	t.Helper()
	ns := namespace(ctx, t)
	apply(ctx, t, ns, document)
	pod := waitPod(ctx, t, ns, "one", "over", ended)
	return pod, shared.Log(ns, "one", pod.Spec.Containers[0].Name)
}

func TestEcho(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: echo}}
spec:
  containers:
  - name: echo
    image: IMAGE
    env:
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    readinessProbe: {httpGet: {path: /health, port: 3000}}
`)
	pod := waitPod(ctx, t, ns, "one", "ready", ready)
	status, body, err := get(ctx, "http://"+pod.Status.PodIP+":3000/a?b=c")
	if err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	var answer struct{ Path, Namespace, Pod string }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Path != "/a?b=c" || answer.Namespace != ns || answer.Pod != "one" {
		t.Errorf("answer %s, %v", body, err)
	}
}

// TestHostNetwork runs a Pod in the network of the node, at the node's address.
func TestHostNetwork(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  hostNetwork: true
  containers: [{name: echo, image: IMAGE, args: [--http-port, "3999"], readinessProbe: {httpGet: {path: /health, port: 3999}}}]
`)
	pod := waitPod(ctx, t, ns, "one", "ready", ready)
	if pod.Status.PodIP != cluster.NodeAddress {
		t.Errorf("address %s", pod.Status.PodIP)
	}
	if status, _, err := get(ctx, "http://127.0.0.1:3999/"); err != nil || status != 200 {
		t.Errorf("%d, %v", status, err)
	}
}

// TestReach asks one Pod from inside another, and the node's and Service networks from a Pod.
func TestReach(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	two := `
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: echo, image: IMAGE, readinessProbe: {httpGet: {path: /health, port: 3000}}}]}
`
	apply(ctx, t, ns, strings.ReplaceAll(two, "NAME", "one")+"---"+strings.ReplaceAll(two, "NAME", "two"))
	waitPod(ctx, t, ns, "one", "ready", ready)
	other := waitPod(ctx, t, ns, "two", "ready", ready)
	listener, err := net.Listen("tcp", "10.201.0.99:8080")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })}
	defer server.Close()
	go server.Serve(listener)
	one := waitPod(ctx, t, ns, "one", "ready", ready)
	for url, want := range map[string]string{
		"http://" + other.Status.PodIP + ":3000/x": `"path": "/x"`,
		"http://127.0.0.1:3000/y":                  `"path": "/y"`,
		"http://10.201.0.99:8080/":                 one.Status.PodIP + ":",
	} {
		out, err := shared.Runner.Exec(ctx, ns, "one", "echo", "curl", "-s", url)
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %q, %v", url, out, err)
		}
	}
}
