package main

import (
	"os"
	"runtime/debug"

	"sluice.dev/sluice/control/store"
)

// memory chooses how much garbage may gather beside what is live: much beside little, so that requests seldom pay for collecting it;
// little beside much, so that ten thousand Ingresses need little memory. GOGC in the environment has the last word.
type memory struct {
	fixed   bool
	percent int
}

func newMemory() *memory {
	_, fixed := os.LookupEnv("GOGC")
	return &memory{fixed: fixed}
}

// fit chooses for the number of objects in view. When that becomes more, what reading them left behind goes back to the system.
func (m *memory) fit(view store.View) {
	objects := 0
	for _, kind := range []string{store.KindIngress, store.KindService, store.KindEndpointSlice, store.KindSecret} {
		objects += view.Len(kind)
	}
	percent := 200
	switch {
	case objects > 10_000:
		percent = 50
	case objects > 1_000:
		percent = 100
	}
	if m.fixed || percent == m.percent {
		return
	}
	grown := m.percent == 0 && objects > 1_000 || percent < m.percent
	m.percent = percent
	debug.SetGCPercent(percent)
	if grown {
		go debug.FreeOSMemory()
	}
}
