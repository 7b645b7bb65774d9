package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
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
	now := status.Merge(translated, status.Of(status.Beyond(outcome.Problems, translated)))
	r.mu.Lock()
	before := r.last
	r.last = now
	r.mu.Unlock()
	var appeared []told
	var gone []model.Problem
	for was, is := range status.Diff(before, now) {
		for _, p := range without(is, was) {
			appeared = append(appeared, told{p, is.Key})
		}
		gone = append(gone, without(was, is)...)
	}
	places := &places{view: r.view()}
	for _, p := range status.Tidy(gone) {
		r.log.Info("problem is gone", "object", p.Origin.Key.String(), "field", p.Origin.Field, "reason", p.Reason)
	}
	slices.SortStableFunc(appeared, func(a, b told) int { return cmp.Compare(a.Origin.Key.String(), b.Origin.Key.String()) })
	for _, p := range appeared {
		level := slog.LevelError
		if p.Severity == model.Warning {
			level = slog.LevelWarn
		}
		args := []any{"object", p.Origin.Key.String(), "field", p.Origin.Field, "reason", p.Reason, "what", p.Message}
		if p.Mend != "" {
			args = append(args, "mend", p.Mend)
		}
		if file, line := places.of(p); file != "" {
			args = append(args, "file", file, "line", line)
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
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	places := &places{view: r.view()}
	var all []admin.Problem
	for e := range last.All() {
		for _, p := range e.Problems {
			made := admin.Problem{
				Severity: p.Severity.String(), Object: p.Origin.Key.String(), Field: p.Origin.Field, Reason: p.Reason, Message: p.Message, Mend: p.Mend,
			}
			made.File, made.Line = places.of(told{p, e.Key})
			all = append(all, made)
		}
	}
	return all
}
