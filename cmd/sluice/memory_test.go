package main

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/sluice/control/store"
)

// TestMemoryFollowsTheObjects: less garbage beside more objects, at once; more again, and memory given back, only when they have been gone
// for a while.
func TestMemoryFollowsTheObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chosen []int
		freed := make(chan struct{}, 10)
		m := &memory{set: func(percent int) int { chosen = append(chosen, percent); return 0 }, free: func() { freed <- struct{}{} }}
		s := store.New("files")
		fit := func(n int) {
			objects := make([]*store.Object, n)
			for i := range objects {
				objects[i] = store.NewObject(store.KindService, "shop", fmt.Sprint("web-", i), &store.Service{})
			}
			s.Replace("files", objects)
			m.fit(s.View())
			synctest.Wait()
		}
		for _, step := range []struct {
			objects int
			wait    time.Duration
			freed   int // in all
			chosen  []int
		}{
			{10, 0, 0, []int{200}},
			{5_000, 0, 1, []int{200, 100}},
			{12_000, 0, 2, []int{200, 100, 50}},
			{11_000, time.Minute, 2, []int{200, 100, 50}}, // few are gone
			{500, 14 * time.Second, 2, []int{200, 100, 50}},
			{10, 2 * time.Second, 3, []int{200, 100, 50, 200}}, // those that went last were few
			{10, time.Hour, 3, []int{200, 100, 50, 200}},
			{12_000, 0, 4, []int{200, 100, 50, 200, 50}},
			{9_500, time.Minute, 5, []int{200, 100, 50, 200, 50, 100}},
		} {
			fit(step.objects)
			<-time.After(step.wait)
			synctest.Wait()
			if len(freed) != step.freed || !slices.Equal(chosen, step.chosen) {
				t.Errorf("%d objects, %s later: given back %d times, chosen %v; want %d and %v", step.objects, step.wait, len(freed), chosen, step.freed, step.chosen)
			}
		}
	})
}
