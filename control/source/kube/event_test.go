package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func broken(name, text string) *netv1.Ingress {
	in := ingress("shop", name, "sluice")
	in.Annotations = map[string]string{"sluice.dev/broken": text}
	return in
}

func notes(a *api) (texts []string) {
	for _, e := range all[*eventsv1.Event](a) {
		texts = append(texts, e.Regarding.Name+": "+e.Note)
	}
	slices.Sort(texts)
	return texts
}

func TestAProblemBecomesOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, broken("web", "no such port"), ingress("shop", "fine", "sluice"))
		one, two := newReplica(t, a, "one", fixed("192.0.2.1")), newReplica(t, a, "two", fixed("192.0.2.1"))
		later(settleOthers + time.Second)
		if got := notes(a); !slices.Equal(got, []string{"web: spec: no such port; mend it"}) {
			t.Fatalf("Events %q", got)
		}
		e := all[*eventsv1.Event](a)[0]
		in := get[*netv1.Ingress](a, "shop", "web")
		if e.Namespace != "shop" || e.Type != "Warning" || e.Reason != "Broken" || e.Regarding.UID != in.UID || e.Regarding.APIVersion != "networking.k8s.io/v1" ||
			e.ReportingInstance != "one" || e.EventTime.IsZero() || e.Action == "" || e.ReportingController == "" {
			t.Errorf("Event %+v", e)
		}
		one.end()
		later(20 * time.Second)
		if !two.leads() {
			t.Fatal("two does not lead")
		}
		if got := notes(a); len(got) != 1 {
			t.Errorf("Events %q", got)
		}
		if n := a.count("create events"); n != 2 {
			t.Errorf("%d Events were sent", n)
		}
		later(eventRenew + time.Minute)
		if e := all[*eventsv1.Event](a)[0]; e.Series == nil || e.Series.Count != 3 || time.Since(e.Series.LastObservedTime.Time) > 2*time.Minute {
			t.Errorf("Event %+v", e)
		}
		a.put(ingress("shop", "web", "sluice"))
		later(time.Second)
		n := len(a.asked())
		later(3 * time.Hour)
		for _, r := range a.asked()[n:] {
			if r.resource == "events" {
				t.Errorf("an Event of what was mended: %s", r)
			}
		}
	})
}

func TestEventsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []metav1.Object
		for i := range 300 {
			objects = append(objects, broken(fmt.Sprint("in-", i), "bad"))
		}
		a := newAPI(t, objects...)
		newReplica(t, a, "one", fixed("192.0.2.1"))
		later(settleOthers + time.Second)
		if n := a.count("create events"); n > eventRate+eventBurst+1 {
			t.Errorf("%d Events in the first second", n)
		}
		later(20 * time.Second)
		if n := a.count("create events"); n != 300 {
			t.Errorf("%d Events", n)
		}
		a.forgetRequests()
		for i := range 300 {
			a.put(broken("in-0", fmt.Sprint("bad in another way ", i)))
			later(time.Second)
		}
		if n := a.count("create events"); n != 0 {
			t.Errorf("%d Events of words that did not last", n)
		}
		for i := range 100 {
			a.put(broken("in-0", fmt.Sprint("bad in one more way ", i)))
			later(2 * settleOthers)
		}
		if n := a.count("create events"); n > objectBurst+4 || n < objectBurst-1 {
			t.Errorf("%d Events of one object", n)
		}
	})
}

func TestForbiddenEventsAreSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, broken("a", "bad"), broken("b", "bad"), broken("c", "bad"))
		a.answer = refuse("events")
		r := newReplica(t, a, "one", fixed("192.0.2.1"))
		later(10 * time.Minute)
		if n := a.count("create events"); n > 12 || n < 2 {
			t.Errorf("%d requests", n)
		}
		if n := r.logs.count("Events may not be written"); n != 1 {
			t.Errorf("log %s", r.logs)
		}
		a.set(func() { a.answer = nil })
		later(3 * time.Minute)
		if got := notes(a); len(got) != 3 {
			t.Errorf("Events %q", got)
		}
		a.expect(t, "shop", "a", "192.0.2.1")
	})
}

func TestNotesAreCutBetweenCharacters(t *testing.T) {
	for n := range 10 {
		got := clip(strings.Repeat("a", n)+strings.Repeat("ä", 600), noteLongest)
		if len(got) > noteLongest || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
			t.Errorf("%d bytes: %q", len(got), got[len(got)-10:])
		}
	}
}
