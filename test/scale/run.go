package scale

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/test/cluster"
)

// Settings of a run.
type Settings struct {
	Load     Load
	Dir      string        // for logs and the binary
	Sluice   string        // the binary; "": it is built
	Progress io.Writer     // says what goes on
	Profiles string        // folder for profiles of Sluice under changes; "" is none
	Only     []string      // parts to run, of Parts; empty: all
	Writers  int           // requests to the API server at once
	Rate     int           // requests a second to the busy hosts
	Changes  int           // a second
	Window   time.Duration // how long each of the quiet and the busy figures is measured
	Settle   time.Duration // how long memory is left alone before it is read
	Routes   int           // added one after another
	Cycles   int           // times that all is created and deleted
	Nice     int           // of the control plane, which on a machine of its own would leave the cores to Sluice; 0 to 19
}

// Defaults are the settings of the figures.
func Defaults() Settings {
	return Settings{
		Load: Full(), Writers: 16, Rate: 200, Changes: 100, Window: 40 * time.Second, Settle: 15 * time.Second, Routes: 3000, Cycles: 10,
	}
}

// Small are settings under which a run takes less than a minute.
func Small() Settings {
	s := Defaults()
	s.Load, s.Window, s.Settle, s.Routes, s.Cycles = Smoke(), 3*time.Second, time.Second, 50, 2
	return s
}

// part of a run. The objects are there when it begins, but for create, which makes them.
type part struct {
	name string
	run  func(*world, context.Context) error
}

func allParts() []part {
	return []part{
		{"create", (*world).measureCreate},
		{"restart", (*world).measureRestart},
		{"quiet", (*world).measureQuiet},
		{"churn", (*world).measureChurn},
		{"probes", (*world).measureProbes},
		{"routes", (*world).measureRoutes},
		{"cycles", (*world).measureCycles},
		{"delete", (*world).measureDelete},
	}
}

// Parts names the parts of a run.
func Parts() []string {
	var names []string
	for _, p := range allParts() {
		names = append(names, p.name)
	}
	return names
}

// Check says what is wrong with the settings.
func (s *Settings) Check() error {
	for _, name := range s.Only {
		if !slices.Contains(Parts(), name) {
			return fmt.Errorf("there is no part %q; there are %s", name, strings.Join(Parts(), ", "))
		}
	}
	if s.Writers < 1 || s.Rate < 10 || s.Changes < 10 {
		return fmt.Errorf("%d writers, %d requests and %d changes a second: at least 1, 10 and 10", s.Writers, s.Rate, s.Changes)
	}
	return s.Load.Check()
}

// Prepare builds what a run needs, outside the namespace that it runs in.
func Prepare(ctx context.Context, s Settings) error {
	if _, err := cluster.Build(ctx, s.Progress); err != nil {
		return err
	}
	if s.Sluice != "" {
		return nil
	}
	return cluster.BuildSluice(ctx, cluster.Discard)
}

// Run measures. It must run in the namespace of cluster.Enter, once. What was found until an error is returned with it.
func Run(ctx context.Context, s Settings) (*Report, error) {
	if err := s.Check(); err != nil {
		return &Report{}, err
	}
	fmt.Fprintf(s.Progress, "%s\n", s.Load)
	w, err := open(ctx, s)
	if err != nil {
		return w.report, err
	}
	defer w.close()
	if err := w.startEmpty(ctx); err != nil {
		return w.report, err
	}
	for _, p := range allParts() {
		wanted := len(s.Only) == 0 || slices.Contains(s.Only, p.name)
		if !wanted && p.name != "create" {
			continue
		}
		w.say("== %s", p.name)
		begin := time.Now()
		if err := p.run(w, ctx); err != nil {
			w.reportAnswers()
			return w.report, fmt.Errorf("%s: %w", p.name, err)
		}
		w.say("== %s took %s", p.name, time.Since(begin).Round(100*time.Millisecond))
	}
	w.reportAnswers()
	return w.report, nil
}

// startEmpty starts Sluice while there is nothing.
func (w *world) startEmpty(ctx context.Context) error {
	if _, _, _, err := w.startSluice(ctx); err != nil {
		return err
	}
	rest(ctx, w.Settle/4)
	u, err := w.usage()
	if err != nil {
		return err
	}
	w.empty = u
	w.say("started with nothing: resident %s", megabytes(u.resident))
	return nil
}

// reportAnswers adds what came of all requests.
func (w *world) reportAnswers() {
	w.counts.cut()
	total := w.counts.total
	row := Row{
		Figure: "answers that were wrong, of " + fmt.Sprint(total.answers), Value: fmt.Sprint(total.wrong), Bar: "0", Met: total.wrong == 0, Must: true,
		Method:  "the backend says which of its addresses was asked, and the host and path it saw; they must be of the Ingress. Probes, too: nothing but 404 and 200",
		Problem: w.counts.details,
	}
	w.report.add(row)
	w.report.add(Row{
		Figure: "connections that were dropped", Value: fmt.Sprint(total.dropped), Bar: "0", Met: total.dropped == 0, Must: true,
		Method: "HTTP/1.1 and HTTP/2 connections and WebSockets that are kept open and asked on, without any retry",
	})
}

// during runs do while requests go on, and returns what came of them.
func (w *world) during(ctx context.Context, name string, do func(context.Context) error) ([]time.Duration, error) {
	t := w.startTraffic(ctx, w.Rate)
	t.warm(ctx, w.Window/10)
	w.counts.cut()
	before, err := spentNow()
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	err = do(ctx)
	took, now := w.counts.cut()
	after, spentErr := spentNow()
	w.say("%s: cores: %s", name, after.since(before, time.Since(begin)))
	if err == nil {
		err = spentErr
	}
	t.stop()
	w.counts.cut()
	w.say("%s: %d answers, %d wrong, %d dropped; p50 %s, p99 %s, longest %s", name, now.answers, now.wrong, now.dropped,
		short(quantile(took, .5)), short(quantile(took, .99)), short(quantile(took, 1)))
	return took, err
}

// latency reports what requests took while something went on, beside what they take when nothing does.
func (w *world) latency(what string, took []time.Duration) {
	p99 := quantile(took, .99)
	row := Row{Figure: "p99 of requests " + what, Value: short(p99), Method: fmt.Sprintf("%d a second, from the time that each was to be sent", w.Rate)}
	if w.quiet > 0 {
		row.Bar, row.Met = short(2*w.quiet), p99 <= 2*w.quiet
		row.Method += "; the bar is twice that without changes"
	}
	w.report.add(row)
}
