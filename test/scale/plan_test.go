package scale

import (
	"slices"
	"testing"
)

// TestALoadHoldsTogether: an Ingress, its Service and its certificate share a namespace; all that is there is used; an endpoint tells
// whose it is.
func TestALoadHoldsTogether(t *testing.T) {
	for _, l := range []Load{Full(), Smoke()} {
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		services, certificates := map[int]bool{}, map[int]bool{}
		for i := range l.Ingresses {
			h, s := l.hostOf(i), l.service(i)
			c := l.certificate(h)
			services[s], certificates[c] = true, true
			if l.namespace(h) != l.namespace(s) || l.namespace(h) != l.namespace(c) {
				t.Fatalf("Ingress %d: host %d, Service %d and certificate %d are in several namespaces", i, h, s, c)
			}
			if !slices.Contains(l.hostsOf(c), hostName(h)) {
				t.Fatalf("certificate %d is not for host %d", c, h)
			}
			for _, a := range l.endpoints(s) {
				if l.owner(a) != s {
					t.Fatalf("endpoint %s of Service %d is said to be of %d", a, s, l.owner(a))
				}
			}
		}
		if len(services) != l.Services || len(certificates) != l.Certificates {
			t.Errorf("%d Services and %d certificates are used of %s", len(services), len(certificates), l)
		}
		if l.owner(spare(0)) != -1 || l.owner(spare(spares-1)) != -1 {
			t.Error("a spare address is of a Service")
		}
	}
}

func TestALoadThatCannotBeSpread(t *testing.T) {
	for _, change := range []func(*Load){
		func(l *Load) { l.Namespaces = 0 }, func(l *Load) { l.Hosts++ }, func(l *Load) { l.Endpoints = l.Services - 1 },
		func(l *Load) { l.Busy = 0 }, func(l *Load) { l.Endpoints = l.Services * 14 },
	} {
		l := Full()
		change(&l)
		if l.Check() == nil {
			t.Errorf("%s is taken", l)
		}
	}
}
