package upstream

import (
	"sync"
	"time"

	"sluice.dev/sluice/model"
)

// Pools is all the pools of one engine, by upstream name. It is safe for concurrent use.
type Pools struct {
	settings Settings
	room     room

	mu     sync.Mutex
	byName map[string]*Pool
	closed bool

	lookups chan struct{} // those of names that are under way
	stop    chan struct{}
	stopped sync.WaitGroup
}

// New returns an empty Pools. Close it to end its goroutines and its idle connections.
func New(settings Settings) *Pools {
	p := &Pools{settings: settings.withDefaults(), byName: map[string]*Pool{}, lookups: make(chan struct{}, maxLookups), stop: make(chan struct{})}
	p.room.settings, p.room.endpoint = &p.settings, p.eachEndpoint
	p.stopped.Go(p.reap)
	return p
}

// Set makes the pool of u.Name what u says, creating it when there is none. Endpoints that u no longer has get nothing from now
// on: their idle connections close, exchanges in flight finish. A host name among its endpoints stands for all addresses that it has,
// and is looked up again when these may have changed. The error says what of u cannot be used: the pool is then
// without it.
func (p *Pools) Set(u *model.Upstream) error {
	p.mu.Lock()
	pool := p.byName[u.Name]
	if pool == nil && !p.closed {
		pool = newPool(u.Name, p)
		p.byName[u.Name] = pool
	}
	p.mu.Unlock()
	if pool == nil {
		return nil
	}
	return pool.set(u)
}

// Delete takes the pool away. Its idle connections close, exchanges in flight finish, later ones find no endpoint.
func (p *Pools) Delete(name string) {
	p.mu.Lock()
	pool := p.byName[name]
	if pool != nil {
		if delete(p.byName, name); len(p.byName) == 0 {
			p.byName = map[string]*Pool{} // a map keeps the room that it once needed
		}
		p.settings.Metrics.DropUpstream(name)
	}
	p.mu.Unlock()
	if pool != nil {
		pool.close()
	}
}

// Get returns the pool of that name, or nil. It stays the same until Delete.
func (p *Pools) Get(name string) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.byName[name]
}

// Close ends what Pools does on its own and closes all idle connections. Exchanges in flight finish.
func (p *Pools) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, pool := range p.all() {
		p.Delete(pool.name)
	}
	close(p.stop)
	p.stopped.Wait()
}

func (p *Pools) all() []*Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]*Pool, 0, len(p.byName))
	for _, pool := range p.byName {
		all = append(all, pool)
	}
	return all
}

// reap closes the connections that have idled too long.
func (p *Pools) reap() {
	ticker := time.NewTicker(min(5*time.Second, p.settings.IdleTimeout/2))
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			for _, pool := range p.all() {
				pool.reap()
			}
		}
	}
}
