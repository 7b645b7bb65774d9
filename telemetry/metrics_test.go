package telemetry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestLint holds every metric to the naming rules that promtool checks.
func TestLint(t *testing.T) {
	m := New()
	touch(m)
	problems, err := testutil.GatherAndLint(m.Registry())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func touch(m *Metrics) {
	s := m.Server("public/http")
	s.Done(200, "ok", time.Millisecond, 1, 2)
	s.Done(404, "route_not_found", time.Millisecond, 0, 0)
	s.InFlight(1)
	s.Connections(1)
	s.Handshake("ok")
	u := m.Upstream("shop/web:80")
	u.Endpoints(1, 2)
	u.Done(200, "ok", time.Millisecond)
	u.Done(502, "upstream_refused", time.Millisecond)
	u.Done(200, "retried", time.Millisecond)
	u.Connect(time.Millisecond, true)
	u.Connect(time.Millisecond, false)
	u.Retry()
	u.Eject()
	m.Origin("Ingress shop/web").Done(200)
	m.Applied(1, time.Millisecond, 0)
	m.Live([]time.Time{time.Now()}, time.Now())
	m.Certificate("shop/tls", time.Now())
	m.Panic("exchange")
	m.AccessLogDropped()
}

func TestDroppedSeriesAreGone(t *testing.T) {
	m := New()
	m.Upstream("idle")
	if n := series(t, m, "idle"); n != 0 {
		t.Errorf("an idle upstream has %d series", n)
	}
	touch(m)
	for _, name := range []string{"public/http", "shop/web:80", "Ingress shop/web", "shop/tls"} {
		if series(t, m, name) == 0 {
			t.Errorf("no series of %s", name)
		}
	}
	m.DropServer("public/http")
	m.DropUpstream("shop/web:80")
	m.DropOrigin("Ingress shop/web")
	m.DropCertificate("shop/tls")
	for _, name := range []string{"public/http", "shop/web:80", "Ingress shop/web", "shop/tls"} {
		if n := series(t, m, name); n != 0 {
			t.Errorf("%d series of %s are left", n, name)
		}
	}
}

// series counts the series with a label of that value.
func series(t *testing.T, m *Metrics, value string) (n int) {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			for _, label := range metric.GetLabel() {
				if strings.HasPrefix(f.GetName(), "sluice_") && label.GetValue() == value {
					n++
				}
			}
		}
	}
	return n
}

// TestLateEndsBringNothingBack ends exchanges of what was dropped while they ran.
func TestLateEndsBringNothingBack(t *testing.T) {
	m := New()
	s, u, o := m.Server("late"), m.Upstream("late"), m.Origin("late")
	m.DropServer("late")
	m.DropUpstream("late")
	m.DropOrigin("late")
	s.Done(502, "connect_failed", time.Millisecond, 1, 1)
	s.Handshake("ok")
	s.InFlight(-1)
	u.Done(200, "ok", time.Millisecond)
	u.Connect(time.Millisecond, false)
	u.Retry()
	u.Eject()
	u.Endpoints(1, 1)
	o.Done(200)
	if n := series(t, m, "late"); n != 0 {
		t.Errorf("%d series came back", n)
	}
	m.Upstream("late").Done(200, "ok", time.Millisecond)
	if series(t, m, "late") == 0 {
		t.Error("an upstream of the same name later has no series")
	}
}

func TestNilHandlesDoNothing(t *testing.T) {
	var m *Metrics
	touch(m)
	m.DropServer("x")
	m.DropUpstream("x")
	m.DropOrigin("x")
	m.DropCertificate("x")
	var l *AccessLog
	l.Write(&sample)
	l.Close()
}

func TestAllocsOfCounting(t *testing.T) {
	m := New()
	touch(m)
	s, u, o := m.Server("public/http"), m.Upstream("shop/web:80"), m.Origin("Ingress shop/web")
	if n := testing.AllocsPerRun(100, func() {
		s.InFlight(1)
		s.Done(200, "ok", time.Millisecond, 1, 2)
		u.Done(200, "ok", time.Millisecond)
		o.Done(200)
		s.InFlight(-1)
	}); n > 0 {
		t.Errorf("counting allocates %v times", n)
	}
}

// BenchmarkDropUpstream among thousands: what is dropped must not be looked for among all series.
func BenchmarkDropUpstream(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			m := New()
			touched := func(name string) {
				u := m.Upstream(name)
				u.Done(200, "ok", time.Millisecond)
				u.Connect(time.Millisecond, true)
			}
			for i := range n {
				touched(fmt.Sprint("shop/web-", i))
			}
			for b.Loop() {
				b.StopTimer()
				touched("shop/gone")
				b.StartTimer()
				m.DropUpstream("shop/gone")
			}
		})
	}
}
