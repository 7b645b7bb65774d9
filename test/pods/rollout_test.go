package pods_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/test/cluster"
)

const application = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: app}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: app}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: echo
        image: IMAGE
        env:
        - {name: EXIT_AFTER, value: 2s}
        - {name: SERVICE_NAME, value: VERSION}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        ports: [{name: http, containerPort: 3000}]
        readinessProbe: {httpGet: {path: /health, port: http}, periodSeconds: 1, failureThreshold: 1}
---
apiVersion: v1
kind: Service
metadata: {name: app}
spec:
  selector: {app: app}
  ports: [{name: web, port: 80, targetPort: http}]
`

func deploy(ctx context.Context, t *testing.T, ns string, replicas int, version string) {
	t.Helper()
	apply(ctx, t, ns, strings.NewReplacer("REPLICAS", fmt.Sprint(replicas), "VERSION", version).Replace(application))
}

// rolledOut waits for the Deployment as kubectl rollout status does.
func rolledOut(ctx context.Context, t *testing.T, ns string) {
	t.Helper()
	err := cluster.Wait(ctx, "the rollout", func(ctx context.Context) (bool, error) {
		d, err := shared.Client().AppsV1().Deployments(ns).Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.UpdatedReplicas == *d.Spec.Replicas && s.AvailableReplicas == *d.Spec.Replicas && s.Replicas == *d.Spec.Replicas, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// endpoints are those of the Service.
func endpoints(ctx context.Context, ns string) ([]discoveryv1.Endpoint, error) {
	slices, err := shared.Client().DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=app"})
	if err != nil {
		return nil, err
	}
	var out []discoveryv1.Endpoint
	for _, s := range slices.Items {
		out = append(out, s.Endpoints...)
	}
	return out, nil
}

// TestRollingUpdate rolls a Deployment over while clients ask only the endpoints that are ready: none fails, both versions answer,
// and Pods are seen terminating while they serve.
func TestRollingUpdate(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	deploy(ctx, t, ns, 3, "one")
	rolledOut(ctx, t, ns)
	slices, err := shared.Client().DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 3 || *slices.Items[0].Ports[0].Port != 3000 || *slices.Items[0].Ports[0].Name != "web" {
		t.Fatalf("slices %+v, %v", slices, err)
	}
	asking, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var seen observed
	clients.Go(func() { seen.ask(asking, t, ns) })
	deploy(ctx, t, ns, 3, "two")
	rolledOut(ctx, t, ns)
	err = cluster.Wait(ctx, "the old Pods to be gone", func(ctx context.Context) (bool, error) {
		pods, err := shared.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 3, err
	})
	stop()
	clients.Wait()
	if err != nil || seen.versions["one"] == 0 || seen.versions["two"] == 0 || seen.servingAndTerminating == 0 {
		t.Errorf("%v; answers by version %v, endpoints seen serving and terminating %d times", err, seen.versions, seen.servingAndTerminating)
	}
}

type observed struct {
	versions              map[string]int
	servingAndTerminating int
}

// ask asks every ready endpoint, and every serving and terminating one, until the context ends.
func (o *observed) ask(ctx context.Context, t *testing.T, ns string) {
	o.versions = map[string]int{}
	for ctx.Err() == nil {
		list, err := endpoints(ctx, ns)
		if err != nil {
			continue // the context ended
		}
		for _, e := range list {
			leaving := ptr.Deref(e.Conditions.Terminating, false) && ptr.Deref(e.Conditions.Serving, false)
			if leaving {
				o.servingAndTerminating++
			}
			if !ptr.Deref(e.Conditions.Ready, true) {
				continue
			}
			status, body, err := get(ctx, "http://"+e.Addresses[0]+":3000/")
			if ctx.Err() != nil {
				return
			}
			var answer struct{ Service string }
			if err != nil || status != 200 || json.Unmarshal([]byte(body), &answer) != nil {
				t.Errorf("a ready endpoint answered %d, %v, %q", status, err, body)
			}
			o.versions[answer.Service]++
		}
	}
}

// TestHundredPods keeps Pods cheap.
func TestHundredPods(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 100 processes")
	}
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	begin := time.Now()
	deploy(ctx, t, ns, 100, "one")
	rolledOut(ctx, t, ns)
	t.Logf("100 Pods are ready after %s", time.Since(begin).Round(time.Millisecond))
	list, err := endpoints(ctx, ns)
	addresses := map[string]bool{}
	for _, e := range list {
		addresses[e.Addresses[0]] = true
	}
	if err != nil || len(addresses) != 100 {
		t.Errorf("%d addresses, %v", len(addresses), err)
	}
	begin = time.Now()
	if err := shared.Delete(ctx, ns, application[:strings.Index(application, "---")]); err != nil {
		t.Fatal(err)
	}
	err = cluster.Wait(ctx, "all Pods to be gone", func(ctx context.Context) (bool, error) {
		pods, err := shared.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 0, err
	})
	if err != nil {
		t.Error(err)
	}
	t.Logf("they are gone after %s, 2 of them granted to each", time.Since(begin).Round(time.Millisecond))
}

// TestAPIServerAway lets a Pod become unready while the API server is away: it goes on, and its status is there within seconds of
// the return.
func TestAPIServerAway(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	deploy(ctx, t, ns, 1, "one")
	rolledOut(ctx, t, ns)
	pods, err := shared.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(pods, err)
	}
	pod := pods.Items[0]
	shared.StopAPIServer()
	if _, body, err := get(ctx, "http://"+pod.Status.PodIP+":3000/"); err != nil || !strings.Contains(body, pod.Name) {
		t.Errorf("while the API server is away: %q, %v", body, err)
	}
	if out, err := shared.Runner.Exec(ctx, ns, pod.Name, "echo", "/bin/kill", "-TERM", "1"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := shared.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	waitPod(ctx, t, ns, pod.Name, "restarted", func(p *corev1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 1 && ready(p) })
	t.Logf("the status is there %s after the return", time.Since(begin).Round(time.Millisecond))
	deploy(ctx, t, ns, 2, "one")
	rolledOut(ctx, t, ns)
}
