package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// replica is a source with a writer, and a stand-in for what translates: an Ingress is ours when its class is.
type replica struct {
	*world
	writer *Writer
	end    func()      // ends it as a process would
	idle   atomic.Bool // it does not serve
}

func newReplica(t *testing.T, a *api, identity string, publish ...Publish) *replica {
	t.Helper()
	r := &replica{world: prepare(t, a, nil)}
	var err error
	r.writer, err = NewWriter(WriterSettings{
		Source: r.source, Identity: identity, Publish: publish, Log: r.log, Serving: func(string) bool { return !r.idle.Load() },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.ctx, r.end = context.WithCancel(r.ctx)
	r.run(r.source.Run)
	r.run(r.writer.Run)
	r.run(func(ctx context.Context) { r.translate(ctx, publish) })
	synctest.Wait()
	return r
}

func (r *replica) translate(ctx context.Context, publish []Publish) {
	select {
	case <-r.source.Synced():
	case <-ctx.Done():
		return
	}
	for {
		view, _ := r.store.Take()
		r.writer.Report(report(view, publish), view)
		select {
		case <-r.store.Changed():
		case <-ctx.Done():
			return
		}
	}
}

func report(view store.View, publish []Publish) *status.Report {
	var entries []*status.Entry
	for o, in := range store.List[*store.Ingress](view, store.KindIngress) {
		e := &status.Entry{Key: o.Key}
		for _, p := range publish {
			class, found := store.Get[*store.IngressClass](view, model.Key{Kind: store.KindIngressClass, Name: in.Class})
			if slices.Contains(p.Classes, in.Class) || len(p.Classes) == 0 && found && class.Controller == model.ControllerName {
				e.Owners = append(e.Owners, p.Controller)
			}
		}
		for name, text := range in.Annotations {
			if name == "sluice.dev/broken" {
				reason := cmp.Or(in.Annotations["sluice.dev/reason"], "Broken")
				e.Problems = append(e.Problems, model.Problem{Origin: model.Origin{Key: o.Key, Field: "spec"}, Reason: reason, Message: text, Mend: "mend it", Severity: model.Error})
			}
		}
		if len(e.Owners)+len(e.Problems) > 0 {
			entries = append(entries, e)
		}
	}
	return (*status.Report)(nil).Update(entries, nil)
}

func fixed(addresses ...string) Publish {
	return Publish{Controller: "sluice", Classes: []string{"sluice"}, Addresses: addresses}
}

// addresses of an Ingress, as text.
func (a *api) addresses(namespace, name string) string {
	var all []string
	in := get[*netv1.Ingress](a, namespace, name)
	if in == nil {
		return "no Ingress"
	}
	for _, at := range in.Status.LoadBalancer.Ingress {
		all = append(all, at.IP+at.Hostname)
	}
	return strings.Join(all, " ")
}

func (a *api) expect(t *testing.T, namespace, name, want string) {
	t.Helper()
	synctest.Wait()
	if got := a.addresses(namespace, name); got != want {
		t.Errorf("status of %s/%s: %q, want %q", namespace, name, got, want)
	}
}

func edge(kind corev1.ServiceType, change func(*corev1.Service)) *corev1.Service {
	s := service("sluice", "edge")
	s.Spec.Type, s.Spec.ClusterIP = kind, "10.0.0.1"
	if change != nil {
		change(s)
	}
	return s
}

func balancer(ips ...string) *corev1.Service {
	return edge(corev1.ServiceTypeLoadBalancer, func(s *corev1.Service) {
		for _, ip := range ips {
			at := corev1.LoadBalancerIngress{IP: ip}
			if strings.HasSuffix(ip, ".test") {
				at = corev1.LoadBalancerIngress{Hostname: ip}
			}
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, at)
		}
	})
}

func published() Publish {
	return Publish{Controller: "sluice", Classes: []string{"sluice"}, Service: "sluice/edge"}
}

func TestAddressesAreWrittenOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"), ingress("shop", "foreign", "other"), ingress("shop", "none", ""))
		r := newReplica(t, a, "one", fixed("lb.test", "192.0.2.9", "192.0.2.1", "lb.test", "2001:db8::1"))
		a.expect(t, "shop", "web", "lb.test 192.0.2.1 192.0.2.9 2001:db8::1")
		a.expect(t, "shop", "foreign", "")
		a.expect(t, "shop", "none", "")
		a.put(ingress("shop", "new", "sluice"))
		a.expect(t, "shop", "new", "lb.test 192.0.2.1 192.0.2.9 2001:db8::1")
		later(time.Minute)
		if n := a.count("patch"); n != 2 {
			t.Errorf("%d writes: %v", n, a.asked())
		}
		if m := get[*netv1.Ingress](a, "shop", "web").ManagedFields; m[0].Manager != "sluice-sluice" {
			t.Errorf("managers %v", m)
		}
		_ = r
	})
}

func TestNothingIsWrittenBeforeTheRouteIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		w := prepare(t, a, nil)
		writer, err := NewWriter(WriterSettings{Source: w.source, Identity: "one", Publish: []Publish{fixed("192.0.2.1")}, Log: w.log})
		if err != nil {
			t.Fatal(err)
		}
		w.run(w.source.Run)
		w.run(writer.Run)
		later(time.Minute)
		a.expect(t, "shop", "web", "")
		old, _ := w.store.Take()
		in := ingress("shop", "web", "sluice")
		in.Spec.Rules[0].Host = "changed.test"
		a.put(in)
		synctest.Wait()
		writer.Report(report(old, []Publish{fixed("")}), old)
		a.expect(t, "shop", "web", "")
		now, _ := w.store.Take()
		writer.Report(report(now, []Publish{fixed("")}), now)
		a.expect(t, "shop", "web", "192.0.2.1")
	})
}

// TestCase_A06_ThePublishedServiceChanges, in address, in type, and to nothing.
func TestCase_A06_ThePublishedServiceChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		objects := []metav1.Object{balancer("192.0.2.1")}
		for i := range n {
			objects = append(objects, ingress("shop", fmt.Sprint("in-", i), "sluice"))
		}
		a := newAPI(t, objects...)
		r := newReplica(t, a, "one", published())
		later(5 * time.Second)
		for _, step := range []struct {
			what   string
			edge   *corev1.Service
			want   string
			writes int
		}{
			{"address", balancer("192.0.2.9"), "192.0.2.9", n},
			{"address and name", balancer("lb.test", "192.0.2.9", "192.0.2.9"), "lb.test 192.0.2.9", n},
			{"order", balancer("192.0.2.9", "lb.test"), "lb.test 192.0.2.9", 0},
			{"nothing", balancer(), "lb.test 192.0.2.9", 0},
			{"deleted", nil, "lb.test 192.0.2.9", 0},
			{"type", edge(corev1.ServiceTypeClusterIP, nil), "10.0.0.1", n},
			{"external addresses", edge(corev1.ServiceTypeNodePort, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.7"} }), "192.0.2.7", n},
			{"name", edge(corev1.ServiceTypeExternalName, func(s *corev1.Service) { s.Spec.ExternalName = "edge.test" }), "edge.test", n},
		} {
			a.forgetRequests()
			if step.edge == nil {
				a.remove(balancer())
			} else {
				a.put(step.edge)
			}
			later(2 * time.Second)
			for i := range n {
				if got := a.addresses("shop", fmt.Sprint("in-", i)); got != step.want {
					t.Fatalf("%s: status %q, want %q", step.what, got, step.want)
				}
			}
			if got := a.count("patch"); got != step.writes {
				t.Errorf("%s: %d writes, want %d", step.what, got, step.writes)
			}
			later(20 * time.Second)
		}
		if got := r.logs.count("gives no address"); got != 1 {
			t.Errorf("log %s", r.logs)
		}
	})
}

// TestCase_A07_OtherControllers: nobody else's status is touched, and two of us with two classes leave each other alone.
func TestCase_A07_OtherControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := ingress("shop", "y", "priv")
		y.Status.LoadBalancer.Ingress = []netv1.IngressLoadBalancerIngress{{IP: "198.51.100.1"}}
		a := newAPI(t, class("pub", model.ControllerName), class("pub2", model.ControllerName), class("priv", "other.test/x"), ingress("shop", "x", "pub"), ingress("shop", "x2", "pub2"), y)
		newReplica(t, a, "one", Publish{Controller: "c", Classes: []string{"pub"}, Addresses: []string{"192.0.2.1"}})
		newReplica(t, a, "two", Publish{Controller: "c", Classes: []string{"pub2"}, Addresses: []string{"192.0.2.2"}})
		later(time.Minute)
		a.expect(t, "shop", "x", "192.0.2.1")
		a.expect(t, "shop", "x2", "192.0.2.2")
		a.expect(t, "shop", "y", "198.51.100.1")
		if n := a.count("patch"); n != 2 {
			t.Errorf("%d writes: %v", n, a.asked())
		}
		moved := get[*netv1.Ingress](a, "shop", "x")
		moved.Spec.IngressClassName = &[]string{"pub2"}[0]
		a.put(moved)
		later(time.Minute)
		a.expect(t, "shop", "x", "192.0.2.2")
		a.expect(t, "shop", "y", "198.51.100.1")
	})
}

// TestG11_ANamelessClassIsOursByItsController, until it is not; what we wrote is taken back then, and nothing else is.
func TestG11_StatusIsClearedWhenAnIngressIsNoLongerOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := Publish{Controller: "sluice", Addresses: []string{"192.0.2.1"}}
		a := newAPI(t, class("pub", model.ControllerName), class("priv", "other.test/x"), ingress("shop", "a", "pub"), ingress("shop", "b", "pub"))
		r := newReplica(t, a, "one", ours)
		a.expect(t, "shop", "a", "192.0.2.1")
		moved := get[*netv1.Ingress](a, "shop", "a")
		moved.Spec.IngressClassName = &[]string{"priv"}[0]
		a.put(moved)
		a.expect(t, "shop", "a", "")
		a.remove(class("pub", ""))
		a.expect(t, "shop", "b", "")
		a.put(class("pub", model.ControllerName))
		a.expect(t, "shop", "b", "192.0.2.1")

		// While nobody of ours is there, an Ingress goes to another controller. We know our own writing.
		r.end()
		synctest.Wait()
		a.expect(t, "shop", "b", "192.0.2.1")
		moved = get[*netv1.Ingress](a, "shop", "b")
		moved.Spec.IngressClassName = &[]string{"priv"}[0]
		a.put(moved)
		foreign := ingress("shop", "c", "priv")
		foreign.Status.LoadBalancer.Ingress = []netv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
		foreign.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "other", Subresource: "status"}}
		a.put(foreign)
		newReplica(t, a, "two", ours)
		later(20 * time.Second)
		a.expect(t, "shop", "b", "")
		a.expect(t, "shop", "c", "192.0.2.1")
	})
}

func TestConflictsAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		left := 3
		a.answer = func(r request) int {
			if r.verb == "patch" && left > 0 {
				left--
				return []int{409, 500, 503}[left]
			}
			return 0
		}
		newReplica(t, a, "one", fixed("192.0.2.1"))
		later(10 * time.Second)
		a.expect(t, "shop", "web", "192.0.2.1")
	})
}

func TestAForbiddenStatusIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []metav1.Object
		for i := range 50 {
			objects = append(objects, ingress("shop", fmt.Sprint("in-", i), "sluice"))
		}
		a := newAPI(t, objects...)
		a.answer = refuse("ingresses/status")
		r := newReplica(t, a, "one", fixed("192.0.2.1"))
		later(10 * time.Minute)
		if n := a.count("patch"); n > 10*writers+1 {
			t.Errorf("%d writes", n)
		}
		if n := r.logs.count("may not be written"); n != 1 {
			t.Errorf("log %s", r.logs)
		}
		a.set(func() { a.answer = nil })
		later(2 * time.Minute)
		a.expect(t, "shop", "in-7", "192.0.2.1")
		if n := r.logs.count("can be written now"); n != 1 {
			t.Errorf("log %s", r.logs)
		}
	})
}

// TestAFightIsLostSlowly: somebody who keeps writing another address is answered ever more seldom.
func TestAFightIsLostSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		r := newReplica(t, a, "one", fixed("192.0.2.1"))
		for range 600 {
			later(time.Second)
			in := get[*netv1.Ingress](a, "shop", "web")
			in.Status.LoadBalancer.Ingress = []netv1.IngressLoadBalancerIngress{{IP: "198.51.100.1"}}
			a.put(in)
		}
		if n := a.count("patch"); n > 15 || n < 5 {
			t.Errorf("%d writes in ten minutes", n)
		}
		if n := r.logs.count("another program keeps changing"); n != 1 {
			t.Errorf("log %s", r.logs)
		}
		later(10 * time.Minute)
		a.expect(t, "shop", "web", "192.0.2.1")
	})
}

func TestWritesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []metav1.Object
		for i := range 1000 {
			objects = append(objects, ingress("shop", fmt.Sprint("in-", i), "sluice"))
		}
		a := newAPI(t, objects...)
		newReplica(t, a, "one", fixed("192.0.2.1"))
		later(time.Second)
		if n := a.count("patch"); n < writeRate || n > writeRate+writeBurst+1 {
			t.Errorf("%d writes in the first second", n)
		}
		later(5 * time.Second)
		if n := a.count("patch"); n != 1000 {
			t.Errorf("%d writes", n)
		}
	})
}
