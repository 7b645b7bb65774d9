package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

// watcher writes down what the status of Ingresses is, change by change.
type watcher struct {
	mu   sync.Mutex
	seen map[string][]string // by name of the Ingress
}

// watchStatus begins with what there is. An API server may end a watch at any time, so that it is taken up again.
func watchStatus(ctx context.Context, t *testing.T, ns string) *watcher {
	t.Helper()
	w := &watcher{seen: map[string][]string{}}
	api := shared.Client().NetworkingV1().Ingresses(ns)
	all, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		w.note(&all.Items[i])
	}
	events, err := toolswatch.NewRetryWatcherWithContext(ctx, all.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(events.Stop)
	go func() {
		for e := range events.ResultChan() {
			if in, ok := e.Object.(*netv1.Ingress); ok {
				w.note(in)
			}
		}
	}()
	return w
}

func (w *watcher) note(in *netv1.Ingress) {
	now := addresses(in)
	w.mu.Lock()
	defer w.mu.Unlock()
	if all := w.seen[in.Name]; len(all) == 0 || all[len(all)-1] != now {
		w.seen[in.Name] = append(all, now)
	}
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
	t.Parallel()
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

// TestStatusOverAnUpgrade: another process takes the place of the one that writes, which drains meanwhile, over and over. A watcher sees no
// status empty, and each Ingress written once.
func TestStatusOverAnUpgrade(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	seen := watchStatus(ctx, t, ns)
	me := powerful(ctx, t, ns, "sluice")
	version := func(n int) *sluice {
		return me.launch(t, fmt.Sprint(ns, "-", n), "--publish-status-address", "192.0.2.51", "--watch-namespace", ns).ready(ctx)
	}
	old := version(0)
	many(ctx, t, ns, "sluice", "in", 20)
	for n := range 3 {
		next := version(n + 1)
		drained := make(chan struct{})
		if err := old.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		go func() { <-old.Done(); close(drained) }()
		// What comes while the old one drains is written by the new one, which serves it.
		name := fmt.Sprint("late-", n)
		apply(ctx, t, ns, ingress(name, "sluice", name+".test"))
		status(ctx, t, ns, name, "192.0.2.51")
		select {
		case <-drained:
			t.Errorf("the old one had ended before: %s", old.Tail())
		default:
		}
		next.serves(ctx, name+".test", 503)
		old.end()
		old = next
	}
	writtenOnce(ctx, t, ns, seen, me, "192.0.2.51")
}

// writtenOnce fails the test where the status of an Ingress was anything but empty and then the address, or was written more than once.
func writtenOnce(ctx context.Context, t *testing.T, ns string, seen *watcher, writer caller, address string) {
	t.Helper()
	all, err := shared.Client().NetworkingV1().Ingresses(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writes := writer.statusWrites(t)
	for i := range all.Items {
		name := all.Items[i].Name
		status(ctx, t, ns, name, address)
		if got := seen.of(name); got != " → "+address || writes[name] != 1 {
			t.Errorf("the status of %s went %q, and was written %d times", name, got, writes[name])
		}
	}
}

// TestStatusWhenTheLeaseIsLost: it is deleted, and another takes it. Nothing is emptied or written twice, nobody writes while another holds
// it, and when that one no longer renews it a replica of ours takes it again.
func TestStatusWhenTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	seen := watchStatus(ctx, t, ns)
	me := powerful(ctx, t, ns, "sluice")
	for _, name := range []string{"one", "two"} {
		me.launch(t, ns+"-"+name, "--publish-status-address", "192.0.2.52", "--watch-namespace", ns).ready(ctx)
	}
	many(ctx, t, ns, "sluice", "in", 20)
	status(ctx, t, ns, "in-19", "192.0.2.52")
	leases := shared.Client().CoordinationV1().Leases(ns)
	if err := leases.Delete(ctx, "sluice", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the Lease to be made again", 20*time.Second, func(ctx context.Context) (bool, error) {
		l, err := leases.Get(ctx, "sluice", metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity != "", nil
	})
	apply(ctx, t, ns, ingress("after-deletion", "sluice", "deletion.test"))
	status(ctx, t, ns, "after-deletion", "192.0.2.52")

	stolen := fmt.Appendf(nil, `{"spec":{"holderIdentity":"thief","leaseDurationSeconds":8,"renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	if _, err := leases.Patch(ctx, "sluice", types.MergePatchType, stolen, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	<-time.After(4 * time.Second) // by then the one that led has seen it
	apply(ctx, t, ns, ingress("under-another", "sluice", "another.test"))
	<-time.After(time.Second)
	if writes := me.statusWrites(t); writes["under-another"] > 0 {
		t.Error("it was written although another holds the Lease")
	}
	status(ctx, t, ns, "under-another", "192.0.2.52")
	writtenOnce(ctx, t, ns, seen, me, "192.0.2.52")
}

// TestAReplicaThatCannotListenWritesNoStatus, holds no Lease, and leaves both to the one that can.
func TestAReplicaThatCannotListenWritesNoStatus(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	deaf, good := powerful(ctx, t, ns, "deaf"), powerful(ctx, t, ns, "good")
	taken, err := new(net.ListenConfig).Listen(ctx, "tcp", "10.202.2.250:80")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := launchAt(t, ns+"-deaf", "10.202.2.250", "--kubeconfig", deaf.kubeconfig, "--watch-namespace", ns, "--publish-status-address", "192.0.2.61")
	apply(ctx, t, ns, ingress("web", "sluice", "web.test"))
	eventually(ctx, t, "it to say why it is not ready", 20*time.Second, func(ctx context.Context) (bool, error) {
		code, text := s.ask(ctx, "/readyz")
		return code == 503 && strings.Contains(text, "cannot listen on 10.202.2.250:80"), nil
	})
	<-time.After(3 * time.Second) // it would have written by now
	if writes := deaf.statusWrites(t); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
	good.launch(t, ns+"-good", "--watch-namespace", ns, "--publish-status-address", "192.0.2.62").ready(ctx)
	status(ctx, t, ns, "web", "192.0.2.62")
	if writes := deaf.statusWrites(t); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
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
	many(ctx, t, ns, "sluice", "h", count)
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
	many(ctx, t, ns, "sluice", "m", count)
	made := time.Now()
	eventually(ctx, t, "every status", 30*time.Second, func(ctx context.Context) (bool, error) {
		for i := range count {
			if !strings.HasSuffix(seen.of(fmt.Sprint("m-", i)), "192.0.2.9") {
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
		if got := seen.of(fmt.Sprint("m-", i)); got != " → 192.0.2.9" {
			t.Fatalf("the status of m-%d went %q", i, got)
		}
	}
	t.Logf("%d made in %s, the last status %s later, %s resident", count, made.Sub(begin).Round(time.Millisecond), took.Round(time.Millisecond), s.resident())
}
