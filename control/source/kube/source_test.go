package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

func called(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func ingress(namespace, name, class string, secrets ...string) *netv1.Ingress {
	in := &netv1.Ingress{ObjectMeta: called(namespace, name), Spec: netv1.IngressSpec{Rules: []netv1.IngressRule{{Host: name + ".test"}}}}
	if class != "" {
		in.Spec.IngressClassName = &class
	}
	for _, s := range secrets {
		in.Spec.TLS = append(in.Spec.TLS, netv1.IngressTLS{Hosts: []string{name + ".test"}, SecretName: s})
	}
	return in
}

func service(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: called(namespace, name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
}

func slice(namespace, name string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: called(namespace, name), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: "web"}
	return s
}

func secret(namespace, name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: called(namespace, name), Type: kind, Data: map[string][]byte{"tls.crt": []byte("chain"), "tls.key": []byte("key"), "other": []byte("x")}}
}

func class(name, controller string) *netv1.IngressClass {
	return &netv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: netv1.IngressClassSpec{Controller: controller}}
}

// logs gathers log lines.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// world is a source and its API server.
type world struct {
	t      *testing.T
	api    *api
	store  *store.Store
	source *Source
	logs   *logs
	log    *slog.Logger
	ctx    context.Context
}

// prepare makes a source that does not run yet. It ends with the test.
func prepare(t *testing.T, a *api, change func(*Settings)) *world {
	t.Helper()
	w := &world{t: t, api: a, store: store.New("kube"), logs: &logs{}}
	w.log = slog.New(slog.NewTextHandler(w.logs, nil))
	settings := Settings{Name: "kube", Server: &Server{a.config(), "sluice"}, Store: w.store, Log: w.log}
	if change != nil {
		change(&settings)
	}
	var err error
	if w.source, err = New(settings); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx = ctx
	t.Cleanup(cancel)
	return w
}

// start runs a source until the test ends.
func start(t *testing.T, a *api, change func(*Settings)) *world {
	t.Helper()
	w := prepare(t, a, change)
	w.run(w.source.Run)
	synctest.Wait()
	return w
}

// run lets f run until the test ends.
func (w *world) run(f func(context.Context)) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}

func (w *world) synced() bool {
	select {
	case <-w.source.Synced():
		return true
	default:
		return false
	}
}

// has are the keys of all objects in the store.
func (w *world) has() string {
	var keys []string
	for o := range w.store.View().All() {
		keys = append(keys, o.Key.String())
	}
	return strings.Join(keys, ", ")
}

func (w *world) expect(want string) {
	w.t.Helper()
	synctest.Wait()
	if got := w.has(); got != want {
		w.t.Errorf("store has %s\nwant      %s\nlog %s", got, want, w.logs)
	}
}

func later(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func few() []metav1.Object {
	return []metav1.Object{
		ingress("shop", "web", "sluice", "tls"), service("shop", "web"), slice("shop", "web-1"), class("sluice", model.ControllerName),
		secret("shop", "tls", corev1.SecretTypeTLS), secret("shop", "token", "Opaque"), secret("shop", "pull", corev1.SecretTypeDockerConfigJson),
	}
}

const fewKeys = "EndpointSlice shop/web-1, Ingress shop/web, IngressClass sluice, Secret shop/tls, Service shop/web"

func TestEverythingIsReadAndFollowed(t *testing.T) {
	for _, oldKind := range []bool{false, true} {
		t.Run(fmt.Sprint("old server ", oldKind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, few()...)
				a.oldKind = oldKind
				w := start(t, a, nil)
				if !w.synced() {
					t.Fatalf("not synced\n%s", w.logs)
				}
				w.expect(fewKeys)
				if oldKind == (a.count("list") == 0) {
					t.Errorf("%d lists", a.count("list"))
				}
				a.put(service("shop", "api"))
				a.remove(slice("shop", "web-1"))
				w.expect("Ingress shop/web, IngressClass sluice, Secret shop/tls, Service shop/api, Service shop/web")
				waiting, degraded := w.source.Ready()
				if len(waiting)+len(degraded) > 0 || w.source.Stale() != 0 {
					t.Errorf("waiting %v, degraded %v, stale %v", waiting, degraded, w.source.Stale())
				}
				if w.logs.String() != "" {
					t.Errorf("log %s", w.logs)
				}
			})
		})
	}
}

func TestObjectsAreCompact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := ingress("shop", "web", "sluice")
		in.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		in.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "nginx.ingress.kubernetes.io/x": "long"}
		w := start(t, newAPI(t, in, secret("shop", "tls", corev1.SecretTypeTLS)), nil)
		o := w.store.View().Object(model.Key{Kind: store.KindIngress, Namespace: "shop", Name: "web"})
		want := &store.Ingress{Class: "sluice", HasClass: true, Rules: []store.Rule{{Host: "web.test"}}, Annotations: map[string]string{"nginx.ingress.kubernetes.io/x": ""}}
		if diff := cmp.Diff(want, o.Value); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if o.Version == "" || o.UID == "" || o.File != "" || o.Source != "kube" {
			t.Errorf("object %+v", o)
		}
	})
}

// TestSeveralNamespacesAreWatched: none of them wipes what another has, not when it is listed again either.
func TestSeveralNamespacesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, service("a", "one"), service("b", "two"), service("c", "three"), ingress("b", "in", "x"))
		w := start(t, a, func(s *Settings) { s.Namespaces = []string{"b", "a", "a"} })
		w.expect("Ingress b/in, Service a/one, Service b/two")
		a.set(func() { a.oldest = a.version + 100 })
		a.endWatches()
		later(5 * time.Second)
		w.expect("Ingress b/in, Service a/one, Service b/two")
		a.put(service("b", "four"))
		a.remove(service("a", "one"))
		w.expect("Ingress b/in, Service b/four, Service b/two")
		for _, r := range a.asked() {
			if r.namespace == "" && r.resource != "ingressclasses" || r.namespace == "c" {
				t.Errorf("asked for %s", r)
			}
		}
	})
}

func TestAServerThatGoesAwayCostsFreshnessOnly(t *testing.T) {
	for _, c := range []struct {
		name string
		off  func(a *api)
	}{
		{"refused", func(a *api) { a.down = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) }},
		{"unreachable", func(a *api) { a.down = errors.New("no route to host") }},
		{"unavailable", func(a *api) { a.answer = func(request) int { return 503 } }},
		{"internal error", func(a *api) { a.answer = func(request) int { return 500 } }},
		{"busy", func(a *api) { a.answer = func(request) int { return 429 } }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, few()...)
				w := start(t, a, nil)
				a.set(func() { c.off(a) })
				a.endWatches()
				a.put(service("shop", "late"))
				later(2 * time.Minute)
				w.expect(fewKeys)
				waiting, degraded := w.source.Ready()
				if len(waiting) > 0 || len(degraded) != 1 || !strings.Contains(degraded[0], "the API server cannot be read since") {
					t.Errorf("waiting %q, degraded %q", waiting, degraded)
				}
				if s := w.source.Stale(); s < 100*time.Second || s > 2*time.Minute {
					t.Errorf("stale %v", s)
				}
				if n := w.logs.count("the API server cannot be read;"); n != 1 {
					t.Errorf("said %d times:\n%s", n, w.logs)
				}
				a.set(func() { a.down, a.answer = nil, nil })
				later(5 * time.Second)
				w.expect("EndpointSlice shop/web-1, Ingress shop/web, IngressClass sluice, Secret shop/tls, Service shop/late, Service shop/web")
				if _, degraded := w.source.Ready(); len(degraded) > 0 || w.source.Stale() != 0 {
					t.Errorf("degraded %q, stale %v", degraded, w.source.Stale())
				}
				if n := w.logs.count("can be read again"); n != 1 {
					t.Errorf("log %s", w.logs)
				}
			})
		})
	}
}

func TestStartedWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, few()...)
		a.down = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
		w := start(t, a, nil)
		later(time.Minute)
		waiting, _ := w.source.Ready()
		if w.synced() || !slices.ContainsFunc(waiting, func(s string) bool { return strings.Contains(s, "connection refused") }) {
			t.Errorf("synced %v, waiting %q", w.synced(), waiting)
		}
		if n := w.logs.count("cannot be read"); n != 1 {
			t.Errorf("log %s", w.logs)
		}
		a.set(func() { a.down = nil })
		later(5 * time.Second)
		if waiting, _ := w.source.Ready(); !w.synced() || len(waiting) > 0 {
			t.Errorf("synced %v, waiting %q", w.synced(), waiting)
		}
		w.expect(fewKeys)
	})
}

// TestAServerThatHangs takes requests and says nothing, on watches that are open either.
func TestAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, few()...)
		a.hang = true
		w := start(t, a, nil)
		later(time.Minute)
		waiting, _ := w.source.Ready()
		if w.synced() || !slices.ContainsFunc(waiting, func(s string) bool { return strings.Contains(s, "does not answer") }) {
			t.Errorf("synced %v, waiting %q", w.synced(), waiting)
		}
		a.set(func() { a.hang = false })
		later(answerWithin + 5*time.Second)
		w.expect(fewKeys)
		a.set(func() { a.hang = true })
		a.put(service("shop", "late"))
		later(10 * time.Minute)
		w.expect(fewKeys)
		if s := w.source.Stale(); s < time.Minute {
			t.Errorf("stale %v", s)
		}
		a.set(func() { a.hang = false })
		later(answerWithin + 5*time.Second)
		if !strings.Contains(w.has(), "Service shop/late") {
			t.Errorf("store has %s", w.has())
		}
	})
}

func TestExpiredVersionsAreListedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, few()...)
		w := start(t, a, nil)
		later(time.Minute)
		a.set(func() { a.down = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) })
		a.endWatches()
		a.remove(service("shop", "web"))
		a.put(service("shop", "new"))
		a.compact()
		later(time.Minute)
		a.set(func() { a.down = nil })
		later(5 * time.Second)
		w.expect(strings.Replace(fewKeys, "Service shop/web", "Service shop/new", 1))
	})
}

// TestAWatchThatLies: events that come twice, late or in another order leave what the server has in the end.
func TestAWatchThatLies(t *testing.T) {
	for _, c := range []struct {
		name   string
		mangle func() func(n int, line []byte) [][]byte
	}{
		{"twice", func() func(int, []byte) [][]byte { return func(_ int, l []byte) [][]byte { return [][]byte{l, l} } }},
		{"swapped", func() func(int, []byte) [][]byte {
			var held []byte
			return func(n int, l []byte) [][]byte {
				if n%2 == 0 {
					held = l
					return nil
				}
				return [][]byte{l, held}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, service("shop", "a"), service("shop", "b"))
				w := start(t, a, nil)
				mangle := c.mangle()
				a.set(func() { a.mangle = mangle })
				a.remove(service("shop", "a"))
				a.put(service("shop", "c"))
				a.put(service("shop", "a"))
				a.remove(service("shop", "b"))
				synctest.Wait()
				a.set(func() { a.mangle = nil })
				later(10 * time.Second)
				w.expect("Service shop/a, Service shop/c")
			})
		})
	}
}
