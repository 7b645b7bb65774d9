package scale

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// measureRestart starts Sluice anew with everything there.
func (w *world) measureRestart(ctx context.Context) error {
	before, err := w.usage()
	if err != nil {
		return err
	}
	w.report.add(Row{
		Figure: "resident memory after all was created, every Service asked", Value: megabytes(before.resident),
		Method: fmt.Sprintf("VmRSS; peak %s", megabytes(before.peak)),
	})
	if err := w.keepProfile(ctx, "heap", "created-heap.pprof"); err != nil {
		return err
	}
	w.stopSluice()
	began, read, ready, err := w.startSluice(ctx)
	if err != nil {
		return err
	}
	w.fresh = true
	first, err := w.usage()
	if err != nil {
		return err
	}
	w.say("ready after %s, of which %s after all objects were read; CPU until then %s", short(ready.Sub(began)), short(ready.Sub(read)), short(first.cpu))
	rest(ctx, w.Settle)
	steady, err := w.usage()
	if err != nil {
		return err
	}
	w.report.atMost(Row{
		Figure: "lists received → Ready", Method: "/readyz is asked every 2 ms; received is when it names nothing that is not read yet",
		Peers: "NGF restart with 150 resources 31 s; F5 NIC 1,500 Ingresses 1 h, 8,000 more than 20 min",
	}, ready.Sub(read), 5*time.Second)
	w.report.atMost(Row{Figure: "process started → Ready", Method: "the lists included, which the API server takes its time for"}, ready.Sub(began), 5*time.Second)
	w.report.memory(Row{
		Figure: "resident memory, peak of the first lists", Method: "VmHWM",
		Peers: "control planes with 5,000 routes: agentgateway 513 MiB, NGF 563 MiB, Istio 726 MiB, Envoy Gateway 3.41 GiB, beside data planes of 46 MiB to 1.93 GiB",
	}, steady.peak, 400e6)
	w.report.memory(Row{Figure: "resident memory, steady", Method: fmt.Sprintf("VmRSS %s after Ready", w.Settle)}, steady.resident, 250e6)
	return nil
}

// window is what Sluice did for a while.
type window struct {
	cores  float64
	live   histogram
	inside histogram // what requests took, as Sluice has it
	after  usage
}

// observe runs do and says what Sluice did meanwhile.
func (w *world) observe(ctx context.Context, do func(context.Context) error) (o window, err error) {
	all, err := w.metrics(ctx)
	if err != nil {
		return o, err
	}
	earlier, asked := histogramOf(all, liveMetric), histogramOf(all, requestMetric)
	before, err := w.usage()
	if err != nil {
		return o, err
	}
	begin := time.Now()
	if err := do(ctx); err != nil {
		return o, err
	}
	if o.after, err = w.usage(); err != nil {
		return o, err
	}
	o.cores = (o.after.cpu - before.cpu).Seconds() / time.Since(begin).Seconds()
	if all, err = w.metrics(ctx); err != nil {
		return o, err
	}
	o.live, o.inside = histogramOf(all, liveMetric).since(earlier), histogramOf(all, requestMetric).since(asked)
	return o, nil
}

// Sluice's own measures of a change and of a request.
const (
	liveMetric    = "sluice_config_live_seconds"
	requestMetric = "sluice_server_request_duration_seconds"
)

// measureQuiet asks while nothing changes.
func (w *world) measureQuiet(ctx context.Context) error {
	var o window
	took, err := w.during(ctx, "quiet", func(ctx context.Context) (err error) {
		o, err = w.observe(ctx, func(ctx context.Context) error {
			rest(ctx, w.Window)
			return ctx.Err()
		})
		return err
	})
	if err != nil {
		return err
	}
	w.quiet = quantile(took, .99)
	w.report.add(Row{Figure: "p50 of requests without changes", Value: short(quantile(took, .5)), Method: fmt.Sprintf("%d a second over HTTP/1.1, HTTP/2 and WebSocket", w.Rate)})
	w.report.add(Row{Figure: "p99 of requests without changes", Value: short(w.quiet)})
	w.report.add(Row{Figure: "CPU without changes", Value: cores(o.cores), Method: "utime and stime; all of it for the requests"})
	return w.reportSeries(ctx)
}

func cores(n float64) string { return fmt.Sprintf("%.3f cores", n) }

// reportSeries counts time series, and what they are about.
func (w *world) reportSeries(ctx context.Context) error {
	all, err := w.metrics(ctx)
	if err != nil {
		return err
	}
	about := map[string]map[string]bool{"server": {}, "upstream": {}, "origin": {}, "certificate": {}}
	series := map[string]int{}
	rest := 0
	for _, s := range all {
		found := false
		for label, values := range about {
			if value, has := s.label(label); has {
				values[value], found = true, true
				series[label]++
			}
		}
		if !found {
			rest++
		}
	}
	services := map[int]bool{}
	paths := 0
	for i := range w.Load.Ingresses {
		if w.Load.busy(i) {
			services[w.Load.service(i)] = true
			paths++
		}
	}
	var parts []string
	for _, label := range []string{"server", "upstream", "origin", "certificate"} {
		parts = append(parts, fmt.Sprintf("%d of %d %ss", series[label], len(about[label]), label))
	}
	row := Row{
		Figure: "time series", Value: fmt.Sprint(len(all)),
		Method: fmt.Sprintf("lines of /metrics: %s, and %d more; requests go to %d Services and %d paths", strings.Join(parts, ", "), rest, len(services), paths),
		Peers:  "with 5,000 routes: Istio 557, Cilium 341,778, Envoy Gateway 852,418, kgateway 1.71 M",
	}
	if w.fresh {
		row.Bar = fmt.Sprintf("%d upstreams", len(services))
		row.Met = len(about["upstream"]) <= len(services) && len(about["origin"]) <= paths
	}
	w.report.add(row)
	if got := gaugeOf(all, "go_goroutines"); !math.IsNaN(got) {
		w.say("%d time series, %.0f goroutines", len(all), got)
	}
	return nil
}
