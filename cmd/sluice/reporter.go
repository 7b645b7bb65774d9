package main

import (
	"context"
	"log/slog"
	"sync"

	"sluice.dev/sluice/admin"
	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// reporter logs each problem once, when it appears, and again when it is gone, and remembers those there are.
type reporter struct {
	log  *slog.Logger
	view func() store.View

	mu   sync.Mutex
	last *status.Report
}

// report takes what a batch said and what became of it, and returns what both say together.
func (r *reporter) report(translated *status.Report, outcome model.Outcome) *status.Report {
	now := status.Merge(translated, status.Of(outcome.Problems))
	r.mu.Lock()
	before := r.last
	r.last = now
	r.mu.Unlock()
	var appeared, gone []model.Problem
	for was, is := range status.Diff(before, now) {
		appeared = append(appeared, without(is, was)...)
		gone = append(gone, without(was, is)...)
	}
	view := r.view()
	for _, p := range status.Tidy(gone) {
		r.log.Info("problem is gone", "object", p.Origin.Key.String(), "field", p.Origin.Field, "reason", p.Reason)
	}
	for _, p := range status.Tidy(appeared) {
		level := slog.LevelError
		if p.Severity == model.Warning {
			level = slog.LevelWarn
		}
		args := []any{"object", p.Origin.Key.String(), "field", p.Origin.Field, "reason", p.Reason, "what", p.Message}
		if p.Mend != "" {
			args = append(args, "mend", p.Mend)
		}
		if o := view.Object(p.Origin.Key); o != nil && o.File != "" {
			args = append(args, "file", o.File, "line", o.Line)
		}
		r.log.Log(context.Background(), level, "problem", args...)
	}
	return now
}

// without are the problems of a that b has not.
func without(a, b *status.Entry) []model.Problem {
	if a == nil {
		return nil
	}
	has := map[model.Problem]bool{}
	if b != nil {
		for _, p := range b.Problems {
			has[p] = true
		}
	}
	var rest []model.Problem
	for _, p := range a.Problems {
		if !has[p] {
			rest = append(rest, p)
		}
	}
	return rest
}

// all are the problems there are now.
func (r *reporter) all() []model.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.Problems()
}

// problems are those there are now, with their places.
func (r *reporter) problems() []admin.Problem {
	view := r.view()
	var all []admin.Problem
	for _, p := range r.all() {
		made := admin.Problem{
			Severity: p.Severity.String(), Object: p.Origin.Key.String(), Field: p.Origin.Field, Reason: p.Reason, Message: p.Message, Mend: p.Mend,
		}
		if o := view.Object(p.Origin.Key); o != nil {
			made.File, made.Line = o.File, o.Line
		}
		all = append(all, made)
	}
	return all
}
