package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"sluice.dev/sluice/control/store"
)

// memory chooses how much garbage may gather beside what is live: much beside little, so that requests seldom pay for collecting it;
// little beside much, so that ten thousand Ingresses need little memory. GOGC in the environment has the last word on that. It gives
// back to the system what many objects took, which a process with little to do would not collect for minutes.
type memory struct {
	set  func(percent int) int // debug.SetGCPercent; nil when GOGC is set
	free func()                // gives back what can be

	mu      sync.Mutex
	percent int // that holds; 0: none was chosen
	wanted  int // for the objects there are
	most    int // objects there were since memory was last given back
	later   *time.Timer
	waiting bool // for later
}

func newMemory() *memory {
	m := &memory{set: debug.SetGCPercent, free: func() {
		runtime.GC() // what sync.Pools keep lives through one collection
		debug.FreeOSMemory()
	}}
	if _, fixed := os.LookupEnv("GOGC"); fixed {
		m.set = nil
	}
	return m
}

const (
	fewObjects  = 1_000
	manyObjects = 10_000
	// giveBackAfter is how long after many objects went what they took is given back. By then nothing of them is in use: pools outlive
	// their upstreams for 10 s.
	giveBackAfter = 15 * time.Second
)

// fit chooses for the number of objects in view. What reading more of them left behind goes back to the system at once; when many are
// gone, what they took does some time later, and until then no more garbage than before may gather.
func (m *memory) fit(view store.View) {
	objects := 0
	for _, kind := range []string{store.KindIngress, store.KindService, store.KindEndpointSlice, store.KindSecret} {
		objects += view.Len(kind)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted = 200
	switch {
	case objects > manyObjects:
		m.wanted = 50
	case objects > fewObjects:
		m.wanted = 100
	}
	m.most = max(m.most, objects)
	shrunk := m.most > fewObjects && objects < m.most/4*3
	switch {
	case m.percent == 0 || m.wanted < m.percent:
		m.choose()
		if objects > fewObjects {
			go m.free()
		}
	case shrunk:
		m.most = objects
		m.giveBackLater()
	case m.wanted > m.percent && !m.waiting:
		m.giveBackLater()
	}
}

// choose makes hold what is wanted. m.mu is held.
func (m *memory) choose() {
	if m.percent = m.wanted; m.set != nil {
		m.set(m.percent)
	}
}

// giveBackLater begins to wait, or does so anew. m.mu is held.
func (m *memory) giveBackLater() {
	m.waiting = true
	if m.later != nil {
		m.later.Reset(giveBackAfter)
		return
	}
	m.later = time.AfterFunc(giveBackAfter, func() {
		m.mu.Lock()
		m.waiting = false
		if m.wanted != m.percent {
			m.choose()
		}
		m.mu.Unlock()
		m.free()
	})
}
