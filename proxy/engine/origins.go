package engine

import (
	"iter"
	"sync"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

// origins counts the paths of each rule origin, so that its counters exist only while the config has it and only once it
// had traffic.
type origins struct {
	metrics *telemetry.Metrics
	mu      sync.Mutex
	paths   map[string]int
}

// change counts what came and then what went, so that an origin in both keeps its counters. Nil rules are none.
func (o *origins) change(came, went []*model.Rule) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for rule, path := range paths(came) {
		o.paths[originOf(rule, path)]++
	}
	for rule, path := range paths(went) {
		origin := originOf(rule, path)
		if o.paths[origin]--; o.paths[origin] <= 0 {
			if delete(o.paths, origin); len(o.paths) == 0 {
				o.paths = map[string]int{} // a map keeps the room that it once needed
			}
			o.metrics.DropOrigin(origin)
		}
	}
}

func paths(rules []*model.Rule) iter.Seq2[*model.Rule, *model.Path] {
	return func(yield func(*model.Rule, *model.Path) bool) {
		for _, rule := range rules {
			if rule == nil {
				continue
			}
			for _, path := range rule.Paths {
				if path != nil && !yield(rule, path) {
					return
				}
			}
		}
	}
}

// counter returns the counters of the target's origin; nil, which counts nothing, when the config has lost it meanwhile.
func (o *origins) counter(t *target) *telemetry.Origin {
	if c := t.counter.Load(); c != nil {
		return c
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.paths[t.origin] == 0 {
		return nil
	}
	c := o.metrics.Origin(t.origin)
	t.counter.Store(c)
	return c
}
