package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Drain ends service without cutting what is under way: for the delay it goes on as ever, so that load balancers notice that
// it is not ready any more; then it stops listening, tells clients that their connection ends, and waits for exchanges and
// tunnels until the drain timeout. It returns nil when every exchange was finished, else how many were cut. Tunnels know no
// end of their own and are closed then, which is no failure. When ctx is over, so is the waiting.
func (e *Engine) Drain(ctx context.Context) error {
	start := time.Now()
	e.draining.Store(true)
	if e.settings.DrainDelay > 0 {
		delay := time.NewTimer(e.settings.DrainDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-ctx.Done():
		}
	}
	ctx, cancel := context.WithTimeout(ctx, e.settings.DrainTimeout)
	defer cancel()
	for _, c := range e.stopListening() {
		c.drain(ctx)
	}
	until(ctx, func() bool { return e.limit.open.Load() == 0 })
	e.settle()
	cut, tunnels := e.inFlight.Load(), e.tunnels.close()
	if tunnels > 0 {
		e.settings.Log.Info("closed tunnels at the end of the drain", "tunnels", tunnels)
	}
	if cut > 0 {
		return fmt.Errorf("drain: %d exchanges were cut off after %s", cut, time.Since(start).Round(time.Millisecond))
	}
	return nil
}

// settle lets exchanges end whose client has its answer already, when the waiting is over: they are not cut.
func (e *Engine) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	until(ctx, func() bool { return e.inFlight.Load() == 0 })
}

// Draining reports whether Drain was called; a process that drains is not ready.
func (e *Engine) Draining() bool { return e.draining.Load() }

// stopListening closes the listeners and returns the connections that there are.
func (e *Engine) stopListening() []*conns {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*conns
	var stopped sync.WaitGroup
	for _, s := range e.sockets {
		stopped.Go(s.stop)
		all = append(all, s.conns)
	}
	stopped.Wait()
	return all
}

// tunnels are the open ones.
type tunnels struct {
	mu   sync.Mutex
	open map[*tunnel]struct{}
	over bool // those that come now are closed at once
}

func (t *tunnels) add(one *tunnel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*tunnel]struct{}{}
	}
	t.open[one] = struct{}{}
	if t.over {
		one.close()
	}
}

func (t *tunnels) remove(one *tunnel) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, one)
}

// close closes all, and those to come, and returns how many there were.
func (t *tunnels) close() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	for one := range t.open {
		one.close()
	}
	return len(t.open)
}
