package kube

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// graceTime is how long a watch may be closed before it is worth a word.
const graceTime = 2 * time.Second

// health knows how the feeds do. It says each trouble once, and once more when it is over.
type health struct {
	log *slog.Logger

	mu      sync.Mutex
	feeds   []*feed
	refused map[string]map[*feed]bool // by topic
	failing map[*feed]bool
	away    bool // and it has been said
}

func newHealth(log *slog.Logger) *health {
	return &health{log: log, refused: map[string]map[*feed]bool{}, failing: map[*feed]bool{}}
}

func (h *health) add(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feeds = append(h.feeds, f)
}

// remove forgets a feed that has ended.
func (h *health) remove(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.feeds = slices.DeleteFunc(h.feeds, func(other *feed) bool { return other == f })
	if topic := f.topic(); h.refused[topic][f] {
		delete(h.refused[topic], f)
	}
	delete(h.failing, f)
}

// all are the feeds there are.
func (h *health) all() []*feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.feeds)
}

// namedPause is how long one object that may not be read is left alone at least: all of them together ask once a second at most.
func (h *health) namedPause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var n time.Duration
	for _, set := range h.refused {
		for f := range set {
			if f.name != "" {
				n++
			}
		}
	}
	return n * time.Second
}

// topic is what trouble of the feed is one with: single Secrets of a namespace are.
func (f *feed) topic() string {
	if f.name != "" {
		return "single " + f.kind.plural() + " of namespace " + f.namespace
	}
	return f.String()
}

// heard looks at the feed's last answer.
func (h *health) heard(f *feed) {
	state := f.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case state.err == nil:
		h.answered(f)
	case isRefusal(state.err):
		delete(h.failing, f)
		h.refusal(f, state)
	default:
		h.failing[f] = true
		if !h.away && (!state.read || !state.open && time.Since(state.since) > graceTime) {
			h.away = true
			what := []any{"what", f.String(), "error", state.err}
			if state.read {
				h.log.Warn("the API server cannot be read; what was read before is served", what...)
			} else {
				h.log.Warn("the API server cannot be read; nothing was read yet", what...)
			}
		}
		return
	}
	if len(h.failing) == 0 && h.away {
		h.away = false
		h.log.Info("the API server can be read again")
	}
}

func (h *health) answered(f *feed) {
	delete(h.failing, f)
	topic := f.topic()
	if set := h.refused[topic]; set[f] {
		if delete(set, f); len(set) == 0 {
			h.log.Info("what could not be read can be now", "what", topic)
		}
	}
}

// refusal says that a feed's objects may not be read, or are of a kind that the server does not have.
func (h *health) refusal(f *feed, state feedState) {
	topic := f.topic()
	if h.refused[topic] == nil {
		h.refused[topic] = map[*feed]bool{}
	}
	set := h.refused[topic]
	said := len(set) > 0
	set[f] = true
	if said {
		return
	}
	args := []any{"what", topic, "error", state.err, "mend", "grant list and watch on " + f.kind.resource.name}
	switch {
	case f.kind.cost != "":
		h.log.Warn("not readable; asked for again now and then", append(args, "cost", f.kind.cost)...)
	case state.read:
		h.log.Warn("not readable any more; what was read before is served", args...)
	default:
		h.log.Error("not readable, so nothing is served yet", args...)
	}
}

// report says why traffic is not welcome yet, and what is worse than it should be.
func (h *health) report() (waiting, degraded []string) {
	var away *feed
	single := map[string][]string{} // names that may not be read, by topic
	for _, f := range h.all() {
		state := f.now()
		trouble := ""
		if state.err != nil {
			trouble = ": " + state.err.Error()
		}
		switch refused := isRefusal(state.err); {
		case refused && f.name != "":
			single[f.topic()] = append(single[f.topic()], f.name)
		case refused && (f.kind.cost != "" || state.read):
			degraded = append(degraded, f.String()+" cannot be read"+trouble)
		case !state.read && state.err != nil:
			waiting = append(waiting, f.String()+" cannot be read"+trouble)
		case !state.read:
			waiting = append(waiting, "not read yet: "+f.String())
		case state.err != nil && !state.open && (away == nil || state.since.Before(away.now().since)):
			away = f
		}
	}
	for topic, names := range single {
		degraded = append(degraded, fmt.Sprintf("%s cannot be read: %s", topic, list(names)))
	}
	slices.Sort(degraded)
	if away != nil {
		state := away.now()
		degraded = append(degraded, fmt.Sprintf("the API server cannot be read since %s: %v", state.since.UTC().Format(time.RFC3339), state.err))
	}
	return waiting, degraded
}

// refusedNeeded reports whether something may not be read without which nothing is served.
func (h *health) refusedNeeded() bool {
	return slices.ContainsFunc(h.all(), func(f *feed) bool {
		state := f.now()
		return f.kind.cost == "" && !state.read && isRefusal(state.err)
	})
}

// stale is how long ago the oldest part of what is served was fresh.
func (h *health) stale() time.Duration {
	var oldest time.Duration
	for _, f := range h.all() {
		if state := f.now(); state.read && !state.open && !isRefusal(state.err) {
			oldest = max(oldest, time.Since(state.since))
		}
	}
	return oldest
}

// list shortens a list of names.
func list(names []string) string {
	const most = 5
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
