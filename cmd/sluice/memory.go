package main

import (
	"os"
	"runtime/debug"
	"time"

	"sluice.dev/sluice/control/store"
)

// memory chooses how much garbage may gather beside what is live: much beside little, so that requests seldom pay for collecting it;
// little beside much, so that ten thousand Ingresses need little memory. GOGC in the environment has the last word.
type memory struct {
	fixed   bool
	percent int
	most    int // objects there were since memory was last given back
	later   *time.Timer
}

func newMemory() *memory {
	_, fixed := os.LookupEnv("GOGC")
	m := &memory{fixed: fixed, later: time.AfterFunc(time.Hour, debug.FreeOSMemory)}
	m.later.Stop()
	return m
}

// giveBackAfter is how long after many objects went what they took is given back. By then nothing of them is in use: pools outlive
// their upstreams for 10 s.
const giveBackAfter = 15 * time.Second

const fewObjects = 1_000

// fit chooses for the number of objects in view. When that becomes more, what reading them left behind goes back to the system; when many
// of them are gone, what they took does, which a process with little to do would not collect for minutes.
func (m *memory) fit(view store.View) {
	objects := 0
	for _, kind := range []string{store.KindIngress, store.KindService, store.KindEndpointSlice, store.KindSecret} {
		objects += view.Len(kind)
	}
	if m.most = max(m.most, objects); m.most > fewObjects && objects < m.most/4*3 {
		m.most = objects
		m.later.Reset(giveBackAfter)
	}
	percent := 200
	switch {
	case objects > 10_000:
		percent = 50
	case objects > fewObjects:
		percent = 100
	}
	if m.fixed || percent == m.percent {
		return
	}
	grown := m.percent == 0 && objects > fewObjects || percent < m.percent
	m.percent = percent
	debug.SetGCPercent(percent)
	if grown {
		go debug.FreeOSMemory()
	}
}
