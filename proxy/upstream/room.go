package upstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// room holds the connections of all pools, idle ones among them, to a number. When it is reached, those that have idled longest make
// way: descriptors that nobody uses must not be the reason why somebody gets nothing.
type room struct {
	settings *Settings
	endpoint func(yield func(*endpoint)) // each one there is
	open     atomic.Int64

	mu    sync.Mutex
	empty time.Time // when nothing was idle
}

// emptyFor is how long it is believed that nothing is idle; looking costs a walk over all endpoints.
const emptyFor = 20 * time.Millisecond

// take counts a connection; false when there is no room for it.
func (r *room) take() bool {
	most := int64(r.settings.MaxConnections)
	if r.open.Add(1) <= most || most <= 0 {
		return true
	}
	r.mu.Lock()
	for r.open.Load() > most && r.shed() { // others who wait for room are counted too
		continue
	}
	r.mu.Unlock()
	if r.open.Load() <= most {
		return true
	}
	r.give()
	return false
}

func (r *room) give() { r.open.Add(-1) }

// make closes idle connections; false when there are none.
func (r *room) make() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shed()
}

// shed closes the older half of each endpoint's idle connections. The caller holds r.mu.
func (r *room) shed() bool {
	now := r.settings.Now()
	if now.Sub(r.empty) < emptyFor {
		return false
	}
	n := 0
	r.endpoint(func(e *endpoint) {
		old := e.idle.older()
		n += len(old)
		closeAll(old)
	})
	if n == 0 {
		r.empty = now
	}
	return n > 0
}

// MakeRoom closes connections that idle, for want of descriptors elsewhere.
func (p *Pools) MakeRoom() { p.room.make() }

func (p *Pools) eachEndpoint(yield func(*endpoint)) {
	for _, pool := range p.all() {
		for _, e := range pool.all() {
			yield(e)
		}
	}
}
