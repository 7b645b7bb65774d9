package scale

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
)

// measureRoutes adds one route after another, each when the one before is live.
func (w *world) measureRoutes(ctx context.Context) error {
	added := &samplesOf{}
	base := 10_000 // names beyond those of probes
	took, err := w.during(ctx, "while routes are added one after another", func(ctx context.Context) error {
		for n := range w.Routes {
			took, err := w.addRoute(ctx, base+n)
			if err != nil {
				return err
			}
			added.add(took)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := removeAll(ctx, w.writer, w.Routes, func(n int) *netv1.Ingress { return w.routeOf(base + n) }); err != nil {
		return err
	}
	var sum time.Duration
	for _, d := range added.took {
		sum += d
	}
	const peers = "3,000 routes, mean and longest: agentgateway 16.6 and 74.6 ms, kgateway 75 and 237 ms, Istio 221 ms and 1.24 s, NGF 508 and 919 ms, " +
		"Envoy Gateway 320 ms and 1.21 s (with 14,808 answers 503), Cilium 680 ms and 1.52 s, Traefik 2 s, Kong 3 s"
	w.report.add(Row{
		Figure: fmt.Sprintf("%d routes, one after another: acknowledged → first 200, mean", w.Routes), Value: short(sum / time.Duration(max(1, len(added.took)))),
		Method: "asked for every ms, and beside all that is there; answers other than 404 and 200 count as wrong", Peers: peers,
	})
	w.report.add(Row{Figure: "the same, p99", Value: short(quantile(added.took, .99))})
	w.report.add(Row{Figure: "the same, longest", Value: short(quantile(added.took, 1))})
	w.latency("while routes are added", took)
	return nil
}

// measureCycles creates and deletes as many Ingresses as there are, again and again, beside those that requests go to.
func (w *world) measureCycles(ctx context.Context) error {
	var come []int
	for i := w.Load.Hosts; len(come) < w.Load.Ingresses; i++ {
		if i >= w.Load.Ingresses || !w.Load.busy(i) {
			come = append(come, i)
		}
	}
	of := func(n int) *netv1.Ingress { return w.Load.ingress(come[n], false) }
	if _, err := removeAll(ctx, w.writer, len(come), of); err != nil {
		return err
	}
	var states []state
	took, err := w.during(ctx, "while all is created and deleted", func(ctx context.Context) error {
		for cycle := range w.Cycles {
			created, err := createAll(ctx, w.writer, len(come), of)
			if err != nil {
				return err
			}
			removed, err := removeAll(ctx, w.writer, len(come), of)
			if err != nil {
				return err
			}
			rest(ctx, w.Settle)
			s, err := w.state(ctx)
			if err != nil {
				return err
			}
			states = append(states, s)
			w.say("cycle %d: created in %s, deleted in %s; then %s", cycle+1, short(created), short(removed), s)
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.reportGrowth(len(come), states)
	w.latency("while all is created and deleted", took)
	var again []int
	for _, i := range come {
		if i < w.Load.Ingresses {
			again = append(again, i)
		}
	}
	_, err = createAll(ctx, w.writer, len(again), func(n int) *netv1.Ingress { return w.Load.ingress(again[n], false) })
	return err
}

// state of the process after a cycle.
type state struct {
	usage
	goroutines, heap, series int
}

// String says it.
func (s state) String() string {
	return fmt.Sprintf("resident %s, heap in use %s, %d goroutines, %d descriptors, %d time series", megabytes(s.resident), megabytes(int64(s.heap)), s.goroutines, s.descriptors, s.series)
}

func (w *world) state(ctx context.Context) (s state, err error) {
	if s.usage, err = w.usage(); err != nil {
		return s, err
	}
	all, err := w.metrics(ctx)
	if err != nil {
		return s, err
	}
	s.series, s.goroutines, s.heap = len(all), int(gaugeOf(all, "go_goroutines")), int(gaugeOf(all, "go_memstats_heap_inuse_bytes"))
	return s, nil
}

// reportGrowth compares the last cycle with the second: the first makes room that the others use again.
func (w *world) reportGrowth(n int, states []state) {
	if len(states) < 2 {
		return
	}
	first, last := states[1], states[len(states)-1]
	if len(states) == 2 {
		first = states[0]
	}
	how := fmt.Sprintf("%s after all were deleted, the last time against an early one", w.Settle)
	for _, row := range []struct {
		what               string
		first, last, slack int
		bytes              bool
	}{
		{"resident memory", int(first.resident), int(last.resident), int(first.resident) / 10, true},
		{"goroutines", first.goroutines, last.goroutines, 20, false},
		{"descriptors", first.descriptors, last.descriptors, 20, false},
	} {
		r := Row{
			Figure: fmt.Sprintf("%d created and deleted %d times: %s", n, len(states), row.what), Value: fmt.Sprint(row.last), Bar: fmt.Sprint(row.first + row.slack),
			Met: row.last <= row.first+row.slack, Method: fmt.Sprintf("%s, %d before", how, row.first),
		}
		if row.bytes {
			r.Value, r.Bar, r.Method = megabytes(int64(row.last)), megabytes(int64(row.first+row.slack)), fmt.Sprintf("%s, %s before", how, megabytes(int64(row.first)))
		}
		w.report.add(r)
	}
}

// measureDelete deletes everything.
func (w *world) measureDelete(ctx context.Context) error {
	l := w.Load
	before, err := w.state(ctx)
	if err != nil {
		return err
	}
	w.say("before: %s", before)
	for _, step := range []func() (time.Duration, error){
		func() (time.Duration, error) {
			return removeAll(ctx, w.writer, l.Ingresses, func(i int) *netv1.Ingress { return l.ingress(i, false) })
		},
		func() (time.Duration, error) {
			return removeAll(ctx, w.writer, len(w.probe), func(i int) any { return w.probe[i] })
		},
		func() (time.Duration, error) {
			return removeAll(ctx, w.writer, l.Services, func(s int) *discoveryv1.EndpointSlice { return l.slice(s, false) })
		},
		func() (time.Duration, error) {
			return removeAll(ctx, w.writer, l.Services, func(s int) *corev1.Service { return l.serviceObject(s, false) })
		},
		func() (time.Duration, error) {
			return removeAll(ctx, w.writer, l.Certificates, func(c int) *corev1.Secret { return newSecret(l.namespace(c), secretName(c), pair{}) })
		},
	} {
		if _, err := step(); err != nil {
			return err
		}
	}
	limit, now := w.empty.resident*13/10, usage{}
	for begin := time.Now(); ; {
		rest(ctx, w.Settle/4)
		if now, err = w.usage(); err != nil {
			return err
		}
		w.say("%s after everything was deleted: resident %s, of which %s are the program", time.Since(begin).Round(time.Second), megabytes(now.resident), megabytes(now.program))
		if now.resident <= limit || time.Since(begin) > 3*w.Settle {
			break
		}
	}
	after, err := w.state(ctx)
	if err != nil {
		return err
	}
	w.say("in the end: %s", after)
	w.report.memory(Row{
		Figure: "resident memory after everything was deleted",
		Method: fmt.Sprintf("VmRSS at most %s later, nothing forced; the bar is 1.3 times that of a start with nothing, %s; the program's own pages are %s of it, and were %s at the start",
			3*w.Settle, megabytes(w.empty.resident), megabytes(now.program), megabytes(w.empty.program)),
	}, now.resident, limit)
	w.report.add(Row{Figure: "time series after everything was deleted", Value: fmt.Sprint(after.series)})
	if err := w.keepProfile(ctx, "heap", "deleted-heap.pprof"); err != nil {
		return err
	}
	return w.keepProfile(ctx, "goroutine?debug=1", "deleted-goroutines.txt")
}
