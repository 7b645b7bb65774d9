package kube

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	netv1 "k8s.io/api/networking/v1"

	"sluice.dev/sluice/control/store"
)

func holder(a *api, name string) string {
	l := get[*coordinationv1.Lease](a, "sluice", name)
	if l == nil {
		return "no Lease"
	}
	return value(l.Spec.HolderIdentity)
}

func (r *replica) leads() bool { return r.writer.leads("sluice-sluice") }

func TestOneReplicaLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		replicas := []*replica{newReplica(t, a, "one", fixed("192.0.2.1")), newReplica(t, a, "two", fixed("192.0.2.1")), newReplica(t, a, "three", fixed("192.0.2.1"))}
		later(time.Minute)
		if holder(a, "sluice-sluice") != "one" || !replicas[0].leads() || replicas[1].leads() || replicas[2].leads() {
			t.Errorf("holder %s", holder(a, "sluice-sluice"))
		}
		l := get[*coordinationv1.Lease](a, "sluice", "sluice-sluice")
		if since := time.Since(l.Spec.RenewTime.Time); since > 3*time.Second || value(l.Spec.LeaseDurationSeconds) != 15 || l.Spec.AcquireTime == nil {
			t.Errorf("Lease %+v", l.Spec)
		}
		if n := a.count("patch"); n != 1 {
			t.Errorf("%d writes", n)
		}
	})
}

// TestStatusIsNeverEmptiedByAChangeOfLeaders: ended, killed, cut off; and nothing is written a second time.
func TestStatusIsNeverEmptiedByAChangeOfLeaders(t *testing.T) {
	for _, how := range []string{"ended", "killed", "cut off"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, ingress("shop", "web", "sluice"))
				one, two := newReplica(t, a, "one", fixed("192.0.2.1")), newReplica(t, a, "two", fixed("192.0.2.1"))
				later(time.Second)
				most := 20 * time.Second
				switch how {
				case "ended":
					one.end()
					most = 4 * time.Second
				case "killed":
					a.set(func() { a.answer = notFrom(t, a, "one") })
				case "cut off":
					a.set(func() { a.answer = notFrom(t, a, "one") })
				}
				later(most)
				if !two.leads() || one.leads() {
					t.Fatalf("one leads %v, two leads %v, holder %s", one.leads(), two.leads(), holder(a, "sluice-sluice"))
				}
				a.put(ingress("shop", "late", "sluice"))
				later(time.Second)
				a.expect(t, "shop", "late", "192.0.2.1")
				for _, c := range a.changes() {
					if in, ok := c.object.(*netv1.Ingress); ok && in.Name == "web" && c.version > 12 && len(in.Status.LoadBalancer.Ingress) == 0 {
						t.Errorf("the status was empty at version %d", c.version)
					}
				}
				if n := a.count("patch"); n != 2 {
					t.Errorf("%d writes: %v", n, a.asked())
				}
			})
		})
	}
}

// notFrom lets no update of a Lease by that replica through.
func notFrom(t *testing.T, a *api, identity string) func(request) int {
	t.Helper()
	return func(r request) int {
		if r.resource == "leases" && strings.Contains(r.body, identity) {
			return 503
		}
		return 0
	}
}

// TestAReplicaThatDoesNotServeDoesNotLead: nothing is written that would send clients to it, another one leads soon, and it takes part again
// when it serves.
func TestAReplicaThatDoesNotServeDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		one := newReplica(t, a, "one", fixed("192.0.2.1"))
		if !one.leads() {
			t.Fatal("one does not lead")
		}
		one.idle.Store(true)
		a.put(ingress("shop", "new", "sluice"))
		later(time.Minute)
		a.expect(t, "shop", "new", "")
		a.expect(t, "shop", "web", "192.0.2.1")
		if holder(a, "sluice-sluice") != "" {
			t.Errorf("holder %q", holder(a, "sluice-sluice"))
		}
		two := newReplica(t, a, "two", fixed("192.0.2.2"))
		later(3 * time.Second)
		a.expect(t, "shop", "new", "192.0.2.2")
		if !two.leads() || one.leads() {
			t.Error("two does not lead")
		}
		two.idle.Store(true)
		one.idle.Store(false)
		later(6 * time.Second)
		a.expect(t, "shop", "new", "192.0.2.1")
		if n := one.logs.count("no longer writes status"); n != 1 {
			t.Errorf("log %s", one.logs)
		}
	})
}

// TestWhatIsMissedInAMomentIsWritten: it does not serve for so short a time that no round of the election notices.
func TestWhatIsMissedInAMomentIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		one := newReplica(t, a, "one", fixed("192.0.2.1"))
		later(100 * time.Millisecond)
		one.idle.Store(true)
		a.put(ingress("shop", "new", "sluice"))
		a.expect(t, "shop", "new", "")
		one.idle.Store(false)
		later(3 * time.Second)
		a.expect(t, "shop", "new", "192.0.2.1")
	})
}

// TestAReplicaThatHasReportedNothingDoesNotLead.
func TestAReplicaThatHasReportedNothingDoesNotLead(t *testing.T) {
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
		if got := holder(a, "sluice-sluice"); got != "no Lease" {
			t.Errorf("holder %s", got)
		}
	})
}

func TestALeaderThatCannotRenewStopsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		r := newReplica(t, a, "one", fixed("192.0.2.1"))
		a.set(func() { a.down = fmt.Errorf("dial: %w", syscall.ECONNREFUSED) })
		later(7 * time.Second)
		if !r.leads() {
			t.Error("it gave up at once")
		}
		later(3 * time.Second)
		if r.leads() {
			t.Error("it still leads ten seconds after it last renewed the Lease")
		}
		a.set(func() { a.down = nil })
		later(5 * time.Second)
		if !r.leads() {
			t.Error("it does not lead again")
		}
	})
}

func TestWithoutAGrantForLeasesNothingIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		a.answer = refuse("leases")
		r := newReplica(t, a, "one", fixed("192.0.2.1"))
		later(10 * time.Minute)
		if n := a.count("get leases") + a.count("create leases"); n > 30 {
			t.Errorf("%d requests", n)
		}
		if r.logs.count("level=WARN") != 1 || a.count("patch") > 0 {
			t.Errorf("%d writes, log %s", a.count("patch"), r.logs)
		}
		a.set(func() { a.answer = nil })
		later(time.Minute)
		a.expect(t, "shop", "web", "192.0.2.1")
	})
}

func TestOneLeaseForEachClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "a", "a"), ingress("shop", "b", "b"), ingress("shop", "c", "c"))
		newReplica(t, a, "one", Publish{Controller: "c", Classes: []string{"a", "b"}, Addresses: []string{"192.0.2.1"}})
		newReplica(t, a, "two", Publish{Controller: "c", Classes: []string{"b", "c"}, Addresses: []string{"192.0.2.2"}})
		later(time.Minute)
		a.expect(t, "shop", "a", "192.0.2.1")
		a.expect(t, "shop", "b", "192.0.2.1")
		a.expect(t, "shop", "c", "192.0.2.2")
		if n := a.count("patch"); n != 3 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestLeaseNames(t *testing.T) {
	seen := map[string]string{}
	for _, class := range []string{"", "pub", "pub.example.com", "Not A Class", "not a class", strings.Repeat("x", 200), strings.Repeat("x", 201)} {
		name := leaseName(class)
		if !store.ValidName(name) || len(name) > longestName || seen[name] != "" || !strings.HasPrefix(name, leasePrefix) {
			t.Errorf("class %q: lease %q", class, name)
		}
		seen[name] = class + "."
	}
}
