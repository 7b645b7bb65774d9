package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// watcher writes down what the status of Ingresses is, change by change.
type watcher struct {
	mu   sync.Mutex
	seen map[string][]string // by name of the Ingress
}

func watchStatus(ctx context.Context, t *testing.T, ns string) *watcher {
	t.Helper()
	w := &watcher{seen: map[string][]string{}}
	events, err := shared.Client().NetworkingV1().Ingresses(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	go func() {
		for e := range events.ResultChan() {
			in, ok := e.Object.(*netv1.Ingress)
			if !ok {
				continue
			}
			now := addresses(in)
			w.mu.Lock()
			if all := w.seen[in.Name]; len(all) == 0 || all[len(all)-1] != now {
				w.seen[in.Name] = append(all, now)
			}
			w.mu.Unlock()
		}
	}()
	return w
}

// of is how the status of an Ingress went, such as " → 192.0.2.1".
func (w *watcher) of(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.seen[name], " → ")
}

// TestStatusIsWrittenByTheLeaderOnly: two replicas; the leader is killed, the next one ends in order, both come back. A watcher sees each
// Ingress of ours get its address once and keep it, and others untouched.
func TestStatusIsWrittenByTheLeaderOnly(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	seen := watchStatus(ctx, t, ns)
	flags := []string{"--publish-status-address", "192.0.2.8", "--watch-namespace", ns}
	one := launch(t, "status-one", flags...).ready(ctx)
	apply(ctx, t, ns, ingress("web", "sluice", "web.test"))
	apply(ctx, t, ns, ingress("foreign", "other", "other.test"))
	written := []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"198.51.100.1"}]}}}`)
	if _, err := shared.Client().NetworkingV1().Ingresses(ns).Patch(ctx, "foreign", types.MergePatchType, written, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	status(ctx, t, ns, "web", "192.0.2.8")
	two := launch(t, "status-two", flags...).ready(ctx)
	if err := one.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-one.Done()
	apply(ctx, t, ns, ingress("second", "sluice", "second.test"))
	status(ctx, t, ns, "second", "192.0.2.8")
	launch(t, "status-three", flags...).ready(ctx)
	two.Stop(45 * time.Second)
	apply(ctx, t, ns, ingress("third", "sluice", "third.test"))
	status(ctx, t, ns, "third", "192.0.2.8")
	for name, want := range map[string]string{"web": " → 192.0.2.8", "second": " → 192.0.2.8", "third": " → 192.0.2.8", "foreign": " → 198.51.100.1"} {
		if got := seen.of(name); got != want {
			t.Errorf("the status of %s went %q, want %q", name, got, want)
		}
	}
	moved := []byte(`{"spec":{"ingressClassName":"other"}}`)
	if _, err := shared.Client().NetworkingV1().Ingresses(ns).Patch(ctx, "web", types.MergePatchType, moved, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	status(ctx, t, ns, "web", "")
}

// TestRestartGate starts Sluice beside many Ingresses: from the moment it is ready, no request gets 404.
func TestRestartGate(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	count := 500
	if long() {
		count = 2000
	}
	var making sync.WaitGroup
	for worker := range 8 {
		making.Go(func() {
			for i := worker; i < count; i += 8 {
				apply(ctx, t, ns, ingress(fmt.Sprint("in-", i), "sluice", fmt.Sprintf("h%d.test", i)))
			}
		})
	}
	making.Wait()
	s := launch(t, ns, "--watch-namespace", ns)
	begin := time.Now()
	s.ready(ctx)
	took := time.Since(begin)
	answers := map[int]int{}
	for i := range count {
		code, _ := s.get(ctx, fmt.Sprintf("h%d.test", i), "/")
		answers[code]++
	}
	if answers[http.StatusServiceUnavailable] != count {
		t.Errorf("answers %v, want 503 only, since there is no Service", answers)
	}
	t.Logf("ready after %s with %d Ingresses, %s resident", took.Round(time.Millisecond), count, s.resident())
}

// TestMassCreate makes many Ingresses as fast as the API server takes them: all get their status, once, soon after the last one is made.
func TestMassCreate(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	count := 300
	if long() {
		count = 2000
	}
	seen := watchStatus(ctx, t, ns)
	s := launch(t, ns, "--watch-namespace", ns, "--publish-status-address", "192.0.2.9").ready(ctx)
	begin := time.Now()
	var making sync.WaitGroup
	for worker := range 8 {
		making.Go(func() {
			for i := worker; i < count; i += 8 {
				apply(ctx, t, ns, ingress(fmt.Sprint("in-", i), "sluice", fmt.Sprintf("m%d.test", i)))
			}
		})
	}
	making.Wait()
	made := time.Now()
	eventually(ctx, t, "every status", 30*time.Second, func(ctx context.Context) (bool, error) {
		for i := range count {
			if !strings.HasSuffix(seen.of(fmt.Sprint("in-", i)), "192.0.2.9") {
				return false, nil
			}
		}
		return true, nil
	})
	took := time.Since(made)
	if took > 5*time.Second {
		t.Errorf("the last status was written %s after the last Ingress was made", took)
	}
	for i := range count {
		if got := seen.of(fmt.Sprint("in-", i)); got != " → 192.0.2.9" {
			t.Fatalf("the status of in-%d went %q", i, got)
		}
	}
	t.Logf("%d made in %s, the last status %s later, %s resident", count, made.Sub(begin).Round(time.Millisecond), took.Round(time.Millisecond), s.resident())
}
