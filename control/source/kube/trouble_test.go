package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	netv1 "k8s.io/api/networking/v1"

	"sluice.dev/sluice/model"
)

// ailing is an Ingress with a problem of some reason.
func ailing(reason, text string) *netv1.Ingress {
	in := broken("web", text)
	in.Annotations["sluice.dev/reason"] = reason
	return in
}

func TestAProblemThatDoesNotLastIsNotTold(t *testing.T) {
	for reason, settle := range map[string]time.Duration{"NoEndpoints": settleEndpoints, "ServiceMissing": settleOthers} {
		t.Run(reason, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(t, ingress("shop", "web", "sluice"))
				newReplica(t, a, "one", fixed("192.0.2.1"))
				fine := ingress("shop", "web", "sluice")
				for range 20 { // as often as it likes
					a.put(ailing(reason, "0 ready"))
					later(settle - time.Second)
					a.put(fine)
					later(time.Second)
				}
				if got := notes(a); len(got) > 0 {
					t.Errorf("Events %q", got)
				}
				// It lasts, and how it is said changes all the time.
				for i := range 30 {
					a.put(ailing(reason, fmt.Sprint(i, " unready")))
					later(time.Second)
				}
				if got := notes(a); len(got) != 1 {
					t.Errorf("Events %q, want one", got)
				}
				later(time.Minute)
				if got := notes(a); len(got) != 2 || !slices.Contains(got, "web: spec: 29 unready; mend it") {
					t.Errorf("Events %q, want one more of what it is now", got)
				}
				later(20 * time.Minute)
				if n := a.count("create events"); n != 2 {
					t.Errorf("%d Events were sent", n)
				}
			})
		})
	}
}

// TestTheNextLeaderTellsWhatHasLasted at once, and once for all replicas.
func TestTheNextLeaderTellsWhatHasLasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "web", "sluice"))
		one := newReplica(t, a, "one", fixed("192.0.2.1"))
		newReplica(t, a, "two", fixed("192.0.2.1"))
		later(time.Second)
		a.set(func() { a.answer = refuse("events") })
		a.put(ailing("NoEndpoints", "0 ready"))
		later(settleEndpoints + time.Second)
		a.set(func() { a.answer = nil })
		one.end()
		later(4 * time.Second)
		if got := notes(a); len(got) != 1 {
			t.Errorf("Events %q", got)
		}
	})
}

// TestG11_NoEventsOnIngressesOfOthers, whatever is said about them here.
func TestG11_NoEventsOnIngressesOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := broken("foreign", "of another controller")
		foreign.Spec.IngressClassName = &[]string{"other"}[0]
		a := newAPI(t, foreign, broken("ours", "bad"))
		newReplica(t, a, "one", fixed("192.0.2.1"))
		later(time.Minute)
		if got := notes(a); len(got) != 1 || !strings.HasPrefix(got[0], "ours: ") {
			t.Errorf("Events %q", got)
		}
	})
}

func TestManyProblemsOfOneObject(t *testing.T) {
	known := newTrouble()
	now := time.Unix(1000, 0)
	var problems []model.Problem
	for i := range 3 {
		problems = append(problems, model.Problem{Origin: model.Origin{Field: "spec"}, Reason: "Broken", Message: fmt.Sprint(i)})
	}
	known.note(problems, now)
	now = now.Add(settleOthers)
	for i, p := range problems {
		if wait := known.wait(p, now); wait > 0 {
			t.Errorf("problem %d is due in %s", i, wait)
		}
		known.tell(p, 1, now)
		if wait := known.wait(p, now); wait != eventRenew {
			t.Errorf("problem %d is told again in %s", i, wait)
		}
	}
	known.note(problems[1:], now)
	if known.count(problems[0]) != 0 || known.count(problems[1]) != 1 {
		t.Error("what is gone is remembered, or what is there is forgotten")
	}
	known.tell(problems[0], 1, now) // it went while it was told
	if wait := known.wait(problems[0], now); wait == 0 {
		t.Error("what is gone is due")
	}
}
