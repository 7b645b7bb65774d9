package admin

import (
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"
)

const (
	usualProfile   = 10 * time.Second
	longestProfile = 50 * time.Second // an answer has 60 s
)

// cpu answers with a profile of the CPU, in the form of pprof, that is taken while the client waits.
func (h *handler) cpu(w http.ResponseWriter, r *http.Request) {
	length := usualProfile
	if text := r.URL.Query().Get("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > int(longestProfile/time.Second) {
			http.Error(w, "seconds must be a number from 1 to 50", http.StatusBadRequest)
			return
		}
		length = time.Duration(n) * time.Second
	}
	if !h.profiles.TryLock() {
		http.Error(w, "another profile is being taken", http.StatusConflict)
		return
	}
	defer h.profiles.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := pprof.StartCPUProfile(w); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer pprof.StopCPUProfile()
	select {
	case <-time.After(length):
	case <-r.Context().Done():
	}
}

// profile answers with a profile that the runtime always keeps; with debug=1 as text.
func profile(w http.ResponseWriter, r *http.Request) {
	p := pprof.Lookup(r.PathValue("name"))
	if p == nil {
		http.Error(w, "no such profile; ask for profile, heap, allocs, goroutine, mutex or block", http.StatusNotFound)
		return
	}
	debug := 0
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.URL.Query().Get("debug") != "" {
		debug = 1
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	_ = p.WriteTo(w, debug) // the client went away
}
