package loop

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

// Translator makes the config of a view. changed are the keys that differ from the view of the call
// before.
type Translator interface {
	Update(view store.View, changed []model.Key) (*model.Config, *status.Report)
}

// Settings of a Loop.
type Settings struct {
	Store      *store.Store
	Synced     []<-chan struct{} // of the sources: the first batch waits for all of them
	Translator Translator
	Apply      func(*model.Config) model.Outcome
	Report     func(*status.Report, model.Outcome) // of each batch; nil: nobody is told
	Log        *slog.Logger
	Metrics    *telemetry.Metrics
}

// Loop runs batches one after another.
type Loop struct {
	settings Settings
	ready    chan struct{}
	owed     []model.Key             // of batches that were lost
	since    map[model.Key]time.Time // when what is owed came
	lost     int                     // batches, one after another
	view     atomic.Pointer[store.View]
}

// New makes a Loop; Run starts it.
func New(settings Settings) *Loop {
	return &Loop{settings: settings, ready: make(chan struct{})}
}

// Ready is closed when the first config runs.
func (l *Loop) Ready() <-chan struct{} { return l.ready }

// View is what the running config was translated from; empty before Ready.
func (l *Loop) View() store.View {
	if v := l.view.Load(); v != nil {
		return *v
	}
	return store.View{}
}

// Run waits for the sources, then runs a batch now and after each change, until the context ends.
func (l *Loop) Run(ctx context.Context) {
	for _, synced := range l.settings.Synced {
		select {
		case <-synced:
		case <-ctx.Done():
			return
		}
	}
	select {
	case <-l.settings.Store.Changed(): // of what the first batch takes
	default:
	}
	l.batch()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.settings.Store.Changed():
		case <-l.retry():
		}
		l.batch()
	}
}

// retry fires when a lost batch is to be tried again although nothing changed: after a second, then less and less often.
func (l *Loop) retry() <-chan time.Time {
	if l.lost == 0 {
		return nil
	}
	return time.After(min(time.Second<<min(l.lost-1, 10), time.Minute))
}

// batch translates and applies what changed. A panic in it costs the batch: the config that runs goes on, and what the batch had is
// tried again, with the next change or after a while.
func (l *Loop) batch() {
	batch := l.settings.Store.TakeBatch()
	view, changed := batch.View, l.withOwed(batch.Keys)
	if len(changed) == 0 && l.lost == 0 && l.runs() {
		return // the signal was for what an earlier batch took
	}
	lost := l.lost + 1
	l.lost = 0
	defer func() {
		if value := recover(); value != nil {
			l.owed, l.lost = changed, lost
			l.owe(batch)
			l.settings.Metrics.Panic("batch")
			l.settings.Log.Error("a batch of changes was not applied", "panic", fmt.Sprint(value), "objects", len(changed), "stack", string(debug.Stack()))
		}
	}()
	config, report := l.settings.Translator.Update(view, changed)
	outcome := l.settings.Apply(config)
	l.view.Store(&view)
	if l.runs() {
		l.settings.Metrics.Live(slices.AppendSeq(batch.Seen, maps.Values(l.since)), time.Now())
	} else {
		close(l.ready) // nobody was served before, so nobody waited for a change
	}
	l.since = nil
	if l.settings.Report != nil {
		l.settings.Report(report, outcome)
	}
}

// runs reports whether a config runs.
func (l *Loop) runs() bool {
	select {
	case <-l.ready:
		return true
	default:
		return false
	}
}

// owe keeps when the changes of a lost batch came.
func (l *Loop) owe(batch store.Batch) {
	if l.since == nil {
		l.since = map[model.Key]time.Time{}
	}
	for i, key := range batch.Keys {
		if _, owed := l.since[key]; !owed {
			l.since[key] = batch.Seen[i]
		}
	}
}

func (l *Loop) withOwed(changed []model.Key) []model.Key {
	if len(l.owed) == 0 {
		return changed
	}
	all := append(l.owed, changed...)
	l.owed = nil
	slices.SortFunc(all, store.CompareKeys)
	return slices.Compact(all)
}
