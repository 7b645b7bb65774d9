package kube

import (
	"time"

	"sluice.dev/sluice/model"
)

// How long a problem must last to be told. What belongs together is seldom made in one moment, and Pods need some time to be ready.
const (
	settleEndpoints = 15 * time.Second
	settleOthers    = 3 * time.Second
)

// trouble is what is known of the problems of an object.
type trouble struct {
	causes   map[cause]*lasting
	problems map[model.Problem]*told
}

// cause is what a problem is about, whatever its words are just now.
type cause struct{ field, reason string }

type lasting struct {
	since time.Time
	told  bool
}

// told is what became of a problem.
type told struct {
	since time.Time
	at    time.Time // zero: it was not told yet
	count int32
}

func newTrouble() *trouble {
	return &trouble{map[cause]*lasting{}, map[model.Problem]*told{}}
}

func causeOf(p model.Problem) cause { return cause{p.Origin.Field, p.Reason} }

// note takes the problems that there are now, and forgets the others.
func (t *trouble) note(problems []model.Problem, now time.Time) {
	causes, all := make(map[cause]*lasting, len(problems)), make(map[model.Problem]*told, len(problems))
	for _, p := range problems {
		c := causeOf(p)
		if causes[c] = t.causes[c]; causes[c] == nil {
			causes[c] = &lasting{since: now}
			t.causes[c] = causes[c]
		}
		if all[p] = t.problems[p]; all[p] == nil {
			all[p] = &told{since: now}
		}
	}
	t.causes, t.problems = causes, all
}

// wait is how long a problem need not be told; 0: it is due. New words for what was told already must last as long as it did, so that
// a number in them which changes all the time is not told each time.
func (t *trouble) wait(p model.Problem, now time.Time) time.Duration {
	known := t.problems[p]
	if known == nil {
		return eventRenew // it has just gone
	}
	if !known.at.IsZero() {
		return max(0, known.at.Add(eventRenew).Sub(now))
	}
	settle := settleOthers
	if p.Reason == "NoEndpoints" {
		settle = settleEndpoints
	}
	since := known.since
	if c := t.causes[causeOf(p)]; c != nil && !c.told {
		since = c.since
	}
	return max(0, since.Add(settle).Sub(now))
}

// count is how often a problem was told.
func (t *trouble) count(p model.Problem) int32 {
	if known := t.problems[p]; known != nil {
		return known.count
	}
	return 0
}

// tell notes that a problem was told.
func (t *trouble) tell(p model.Problem, count int32, now time.Time) {
	if known := t.problems[p]; known != nil {
		known.at, known.count = now, count
		t.causes[causeOf(p)].told = true
	}
}
