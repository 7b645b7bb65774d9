package scale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// churn changes objects all the time, so many a second, whether those before are through or not.
type churn struct {
	world *world
	end   context.CancelFunc
	all   sync.WaitGroup
	made  atomic.Int64
	fails atomic.Int64

	mu     sync.Mutex
	failed error
	added  []int // Ingresses beyond those that there were
	next   int
}

// mix is what is changed, of a hundred: an endpoint comes or goes, a path of an Ingress, a port of a Service, a certificate, an Ingress.
var mix = []struct {
	percent int
	change  func(*churn, context.Context) error
}{
	{45, (*churn).endpoints}, {25, (*churn).route}, {15, (*churn).service}, {5, (*churn).secret}, {10, (*churn).ingress},
}

const mixText = "45 % endpoints, 25 % paths, 15 % Services, 5 % Secrets, 10 % Ingresses created and deleted"

// startChurn begins to change objects, so often a second.
func (w *world) startChurn(ctx context.Context, rate int) *churn {
	c := &churn{world: w, next: w.Load.Ingresses}
	ctx, c.end = context.WithCancel(ctx)
	c.all.Go(func() {
		every := time.Second / time.Duration(rate)
		for next := time.Now(); ; next = next.Add(every) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(next)):
			}
			c.all.Go(func() {
				if err := c.one(context.WithoutCancel(ctx)); err != nil {
					c.fail(err)
					return
				}
				c.made.Add(1)
			})
		}
	})
	return c
}

func (c *churn) one(ctx context.Context) error {
	n := rand.IntN(100)
	for _, kind := range mix {
		if n -= kind.percent; n < 0 {
			return kind.change(c, ctx)
		}
	}
	return nil
}

func (c *churn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails.Add(1)
	if c.failed == nil {
		c.failed = err
	}
}

// flip says how an object is to be now.
func (c *churn) flip(kind string, n int) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := fmt.Sprint(kind, n)
	c.world.changed[name] = !c.world.changed[name]
	return c.world.changed[name]
}

func (c *churn) endpoints(ctx context.Context) error {
	s := rand.IntN(c.world.Load.Services)
	return c.world.update(ctx, c.world.Load.slice(s, c.flip("slice", s)))
}

func (c *churn) route(ctx context.Context) error {
	i := rand.IntN(c.world.Load.Ingresses)
	return c.world.update(ctx, c.world.Load.ingress(i, c.flip("ingress", i)))
}

func (c *churn) service(ctx context.Context) error {
	s := rand.IntN(c.world.Load.Services)
	return c.world.update(ctx, c.world.Load.serviceObject(s, c.flip("service", s)))
}

func (c *churn) secret(ctx context.Context) error {
	n := rand.IntN(c.world.Load.Certificates)
	which := 0
	if c.flip("secret", n) {
		which = 1
	}
	return c.world.update(ctx, newSecret(c.world.Load.namespace(n), secretName(n), c.world.pairs[2*n+which]))
}

// ingress creates one, or deletes one that it created.
func (c *churn) ingress(ctx context.Context) error {
	c.mu.Lock()
	if n := len(c.added); n > 20 || n > 0 && rand.IntN(2) == 0 {
		i := c.added[0]
		c.added = c.added[1:]
		c.mu.Unlock()
		return c.world.remove(ctx, c.world.Load.ingress(i, false))
	}
	i := c.next
	c.next++
	c.mu.Unlock()
	if err := c.world.create(ctx, c.world.Load.ingress(i, false)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.added = append(c.added, i)
	return nil
}

// stop ends the changes, and takes the Ingresses away that were added.
func (c *churn) stop(ctx context.Context) error {
	c.end()
	c.all.Wait()
	if n := c.fails.Load(); n > 0 {
		c.world.say("%d changes failed, and %d did not: %v", n, c.made.Load(), c.failed)
	}
	if c.fails.Load() > c.made.Load()/10 {
		return fmt.Errorf("%d changes failed, the first: %w", c.fails.Load(), c.failed)
	}
	for _, i := range c.added {
		if err := c.world.remove(ctx, c.world.Load.ingress(i, false)); err != nil {
			return err
		}
	}
	return nil
}

// changing runs do for as long as a window, with changes going on, and returns what Sluice did meanwhile.
func (w *world) changing(ctx context.Context, name string, do func(context.Context) error) (window, error) {
	c := w.startChurn(ctx, w.Changes)
	rest(ctx, time.Second)
	before, begin := c.made.Load(), time.Now()
	o, err := w.observe(ctx, do)
	took := time.Since(begin).Seconds()
	rate := float64(c.made.Load()-before) / took
	if stopped := c.stop(ctx); err == nil {
		err = stopped
	}
	w.say("%s: %.0f changes a second, of which Sluice saw %.0f; live after p50 %s, p99 %s; %s; resident %s; requests p99 %s inside Sluice", name, rate, o.live.total()/took,
		short(o.live.quantile(.5)), short(o.live.quantile(.99)), cores(o.cores), megabytes(o.after.resident), short(o.inside.quantile(.99)))
	return o, err
}

// measureChurn changes objects, first without requests, then with them.
func (w *world) measureChurn(ctx context.Context) error {
	wait := func(ctx context.Context) error {
		rest(ctx, w.Window)
		return ctx.Err()
	}
	alone, err := w.changing(ctx, "changes alone", wait)
	if err != nil {
		return err
	}
	row := Row{
		Figure: fmt.Sprintf("CPU at %d changes a second", w.Changes), Value: cores(alone.cores), Bar: cores(.25), Met: alone.cores <= .25,
		Method: "utime and stime over " + w.Window.String() + " without requests; " + mixText,
		Peers:  "control planes with 5,000 routes and a change a second: agentgateway 0.10, Istio 0.21, NGF 0.41, Envoy Gateway 3.7 cores",
	}
	w.report.add(row)
	var o window
	took, err := w.during(ctx, "while objects change", func(ctx context.Context) (err error) {
		o, err = w.changing(ctx, "changes and requests", func(ctx context.Context) error {
			if w.Profiles == "" {
				return wait(ctx)
			}
			length := max(1, min(50, int(w.Window/time.Second)))
			return w.keepProfile(ctx, fmt.Sprintf("profile?seconds=%d", length), "churn-cpu.pprof")
		})
		return err
	})
	if err != nil {
		return err
	}
	if err := w.keepProfile(ctx, "heap", "churn-heap.pprof"); err != nil {
		return err
	}
	w.report.add(Row{Figure: "CPU at as many changes, with the requests", Value: cores(o.cores)})
	const method = liveMetric + ", which Sluice measures: from when the change is read until it is applied"
	w.report.atMost(Row{Figure: "event received → live, p50", Method: method}, o.live.quantile(.5), 2*time.Millisecond)
	w.report.atMost(Row{Figure: "event received → live, p99", Method: fmt.Sprintf("the same, of %.0f changes", o.live.total())}, o.live.quantile(.99), 20*time.Millisecond)
	w.latency(fmt.Sprintf("at %d changes a second", w.Changes), took)
	w.report.add(Row{Figure: "resident memory after the changes", Value: megabytes(o.after.resident)})
	return nil
}
