package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchWeb changes the Deployment and waits until that is done.
func patchWeb(ctx context.Context, t *testing.T, ns, body string) {
	t.Helper()
	if _, err := shared.Client().AppsV1().Deployments(ns).Patch(ctx, "web", types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	rolledOut(ctx, t, ns, "web")
}

// rollouts restarts the Deployment three times, as kubectl rollout restart does.
func rollouts(ctx context.Context, t *testing.T, ns string) {
	t.Helper()
	for n := range 3 {
		patchWeb(ctx, t, ns, fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"restarted":"%d"}}}}}`, n))
	}
	eventually(ctx, t, "the old Pods to be gone", 30*time.Second, func(ctx context.Context) (bool, error) {
		pods, err := shared.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 4, err
	})
}

// only are the ways of those names.
func only(all map[string]func(context.Context) (*http.Response, error), names ...string) map[string]func(context.Context) (*http.Response, error) {
	some := maps.Clone(all)
	maps.DeleteFunc(some, func(name string, _ func(context.Context) (*http.Response, error)) bool {
		for _, n := range names {
			if n == name {
				return false
			}
		}
		return true
	})
	return some
}

// TestRollingRestart rolls four Pods that end gracefully over under load: nothing fails, whatever the method and protocol.
func TestRollingRestart(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	s := serveWeb(ctx, t, ns, "roll.test")
	patchWeb(ctx, t, ns, `{"spec":{"replicas":4}}`)
	l := start(ctx, 500, ways(s, "roll.test"))
	rollouts(ctx, t, ns)
	l.stop(t)
}

// TestPodsThatEndAtOnce rolls four Pods over that exit with the first SIGTERM, and then kills one after another without a word: no
// idempotent request fails.
func TestPodsThatEndAtOnce(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	s := serveWeb(ctx, t, ns, "die.test")
	patchWeb(ctx, t, ns, `{"spec":{"replicas":4,"template":{"spec":{"containers":[{"name":"echo","env":[{"name":"DIE","value":"true"}]}]}}}}`)
	idempotent := only(ways(s, "die.test"), "GET", "GET HTTP/2")
	t.Run("SIGTERM", func(t *testing.T) {
		l := start(ctx, 500, idempotent)
		rollouts(ctx, t, ns)
		l.stop(t)
	})
	t.Run("SIGKILL", func(t *testing.T) {
		l := start(ctx, 500, idempotent)
		pods, err := shared.Client().CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			t.Fatal(err)
		}
		rounds := int32(1)
		if long() {
			rounds = 3
		}
		for round := range rounds {
			for i := range pods.Items {
				kill(ctx, t, ns, pods.Items[i].Name, round+1)
			}
		}
		l.stop(t)
	})
	if n := s.metric(ctx, "sluice_upstream_retries_total{"); n == 0 {
		t.Error("nothing was sent a second time: the test does not test")
	}
}

// metric is the sum of the samples whose lines begin so.
func (s *sluice) metric(ctx context.Context, begin string) (sum float64) {
	s.t.Helper()
	_, text := s.ask(ctx, "/metrics")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(strings.TrimSpace(line), ' '):]), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}

// kill ends the process of a Pod's container for the nth time, and waits until its next one is ready.
func kill(ctx context.Context, t *testing.T, ns, pod string, n int32) {
	t.Helper()
	id := processOf(t, "POD_NAME="+pod)
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, pod+" to be started again", 30*time.Second, func(ctx context.Context) (bool, error) {
		p, err := shared.Client().CoreV1().Pods(ns).Get(ctx, pod, metav1.GetOptions{})
		if err != nil || len(p.Status.ContainerStatuses) == 0 {
			return false, err
		}
		return p.Status.ContainerStatuses[0].RestartCount == n && p.Status.ContainerStatuses[0].Ready, nil
	})
}

// processOf finds the process with that variable in its environment.
func processOf(t *testing.T, variable string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err != nil { // it has ended, or is another user's
			continue
		}
		if bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+variable+"\x00")) {
			id, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
	}
	t.Fatalf("no process has %s", variable)
	return 0
}
