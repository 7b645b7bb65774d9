package balance

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func items(n int, weights ...int) []Item {
	all := make([]Item, n)
	for i := range all {
		all[i] = Item{InFlight: new(atomic.Int64), Key: Hash("10.0.0." + strconv.Itoa(i) + ":80")}
		if i < len(weights) {
			all[i].Weight = weights[i]
		}
	}
	return all
}

func picker(t testing.TB, policy string, all []Item) *Picker {
	t.Helper()
	p, err := New(policy, all)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func counts(p *Picker, n, picks int, skip func(int) bool) []int {
	got := make([]int, n)
	for i := range picks {
		got[p.Pick(mix(uint64(i)), skip)]++
	}
	return got
}

func TestRoundRobinIsExact(t *testing.T) {
	p := picker(t, RoundRobin, items(10))
	for round := range 3 {
		if got := counts(p, 10, 100, nil); slices.Min(got) != 10 || slices.Max(got) != 10 {
			t.Errorf("round %d: %v", round, got)
		}
	}
	got := counts(p, 10, 90, func(i int) bool { return i == 4 })
	if want := []int{10, 10, 10, 10, 0, 10, 10, 10, 10, 10}; !slices.Equal(got, want) {
		t.Errorf("with one skipped: %v", got)
	}
}

func TestRoundRobinIsExactWithManyCallers(t *testing.T) {
	p := picker(t, "", items(10, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7))
	var got [10]atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				got[p.Pick(0, nil)].Add(1)
			}
		})
	}
	wg.Wait()
	for i := range got {
		if n := got[i].Load(); n != 800 {
			t.Errorf("item %d was picked %d times, want 800", i, n)
		}
	}
}

func TestWeightedIsSmooth(t *testing.T) {
	for _, policy := range []string{Weighted, RoundRobin} {
		p := picker(t, policy, items(3, 5, 1, 1))
		var order []string
		for range 7 {
			order = append(order, strconv.Itoa(p.Pick(0, nil)))
		}
		if got := strings.Join(order, " "); got != "0 0 1 0 2 0 0" {
			t.Errorf("%s: order %s", policy, got)
		}
		if got := counts(p, 3, 700, nil); !slices.Equal(got, []int{500, 100, 100}) {
			t.Errorf("%s: %v", policy, got)
		}
		if got := counts(p, 3, 600, func(i int) bool { return i == 1 }); !slices.Equal(got, []int{500, 0, 100}) {
			t.Errorf("%s with one skipped: %v", policy, got)
		}
	}
}

func TestZeroWeights(t *testing.T) {
	for _, policy := range Policies() {
		p := picker(t, policy, items(4))
		if got := counts(p, 4, 4000, nil); slices.Min(got) < 700 {
			t.Errorf("%s, all weights 0: %v", policy, got)
		}
		p = picker(t, policy, items(3, 0, 3, -1))
		if got := counts(p, 3, 300, nil); policy != Random && got[1] != 300 {
			t.Errorf("%s, one weight above 0: %v", policy, got)
		}
		if policy != Random && p.Pick(1, func(i int) bool { return i == 1 }) != -1 {
			t.Errorf("%s: an item of weight 0 was picked", policy)
		}
	}
}

func TestPicksNothing(t *testing.T) {
	for _, policy := range Policies() {
		if got := picker(t, policy, nil).Pick(1, nil); got != -1 {
			t.Errorf("%s of nothing: %d", policy, got)
		}
		for _, all := range [][]Item{items(1), items(5), items(5, 1, 2, 3, 4, 5)} {
			p := picker(t, policy, all)
			if got := p.Pick(1, func(int) bool { return true }); got != -1 {
				t.Errorf("%s with all skipped: %d", policy, got)
			}
			for want := range all {
				if got := p.Pick(1, func(i int) bool { return i != want }); got != want {
					t.Errorf("%s with all but %d skipped: %d", policy, want, got)
				}
			}
		}
	}
}

func TestLeastRequestTakesTheIdler(t *testing.T) {
	all := items(2)
	p := picker(t, LeastRequest, all)
	all[0].InFlight.Store(3)
	if got := counts(p, 2, 100, nil); got[0] != 0 {
		t.Errorf("of two, the busier was picked %d times", got[0])
	}
	all = items(2, 1, 10)
	p = picker(t, LeastRequest, all)
	all[0].InFlight.Store(1)
	all[1].InFlight.Store(5)
	if got := counts(p, 2, 100, nil); got[1] != 100 {
		t.Errorf("six for a weight of ten are less than two for one: %v", got)
	}
}

func TestLeastRequestKeepsABound(t *testing.T) {
	all := items(10)
	p := picker(t, LeastRequest, all)
	for range 1000 {
		all[p.Pick(0, nil)].InFlight.Add(1)
	}
	for i := range all {
		if n := all[i].InFlight.Load(); n < 90 || n > 110 {
			t.Errorf("item %d has %d in flight, want about 100", i, n)
		}
	}
}

func TestRandomShares(t *testing.T) {
	for _, c := range []struct {
		policy string
		all    []Item
		want   []float64
	}{
		{Random, items(4), []float64{.25, .25, .25, .25}},
		{WeightedRandom, items(4, 1, 2, 3, 4), []float64{.1, .2, .3, .4}},
		{WeightedRandom, items(3), []float64{1. / 3, 1. / 3, 1. / 3}},
		{HeaderHash, items(4), []float64{.25, .25, .25, .25}},
		{IPHash, items(4, 1, 2, 3, 4), []float64{.1, .2, .3, .4}},
	} {
		const picks = 40000
		got := counts(picker(t, c.policy, c.all), len(c.all), picks, nil)
		for i, share := range c.want {
			if math.Abs(float64(got[i])/picks-share) > .02 {
				t.Errorf("%s: %v, want shares %v", c.policy, got, c.want)
			}
		}
	}
	got := counts(picker(t, WeightedRandom, items(4, 1, 2, 3, 4)), 4, 40000, func(i int) bool { return i == 3 })
	for i, share := range []float64{1. / 6, 2. / 6, 3. / 6, 0} {
		if math.Abs(float64(got[i])/40000-share) > .02 {
			t.Errorf("weightedRandom with one skipped: %v", got)
		}
	}
}

func TestHashMovesOnlyWhatItMust(t *testing.T) {
	for _, weights := range [][]int{nil, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}} {
		all := items(10, weights...)
		before := picker(t, HeaderHash, all)
		less := picker(t, HeaderHash, slices.Delete(slices.Clone(all), 3, 4))
		moved := 0
		for i := range 2000 {
			h := Hash("user-" + strconv.Itoa(i))
			was, is := before.Pick(h, nil), less.Pick(h, nil)
			if is >= 3 {
				is++ // the index in the longer list
			}
			if was == 3 {
				moved++
			} else if was != is {
				t.Errorf("key %d moved from %d to %d though %d stayed", i, was, is, was)
			}
			if skipped := before.Pick(h, func(i int) bool { return i == 3 }); skipped != is {
				t.Errorf("key %d: item 3 skipped gives %d, item 3 removed gives %d", i, skipped, is)
			}
			if before.Pick(h, nil) != was {
				t.Errorf("key %d is not kept", i)
			}
		}
		if moved == 0 {
			t.Error("nothing was on the removed item")
		}
	}
}

func TestUnknownPolicyNamesTheNearest(t *testing.T) {
	for policy, want := range map[string]string{"roundrobin": RoundRobin, "leastRequests": LeastRequest, "iphash": IPHash, "rand": Random, "weight": Weighted} {
		_, err := New(policy, nil)
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(policy)) || !strings.Contains(err.Error(), want+"?") {
			t.Errorf("%s: %v", policy, err)
		}
	}
	if _, err := New("something else", nil); err == nil || !strings.Contains(err.Error(), RoundRobin+", "+Weighted) {
		t.Errorf("a policy that is near to none: %v", err)
	}
}

func TestConcurrentPicks(t *testing.T) {
	for _, policy := range Policies() {
		all := items(5, 1, 2, 3, 4, 5)
		p := picker(t, policy, all)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 500 {
					skipped := (g + i) % 5
					got := p.Pick(uint64(i), func(i int) bool { return i == skipped })
					if got < 0 || got == skipped {
						t.Errorf("%s: picked %d, skipped %d", policy, got, skipped)
						return
					}
					all[got].InFlight.Add(1)
				}
			})
		}
		wg.Wait()
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	for _, policy := range Policies() {
		p := picker(t, policy, items(20, 1, 2, 3))
		skip := func(i int) bool { return i == 1 }
		if n := testing.AllocsPerRun(200, func() { p.Pick(7, nil); p.Pick(7, skip) }); n != 0 {
			t.Errorf("%s: %v allocations", policy, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, policy := range Policies() {
		for _, n := range []int{3, 100} {
			b.Run(policy+"/"+strconv.Itoa(n), func(b *testing.B) {
				p := picker(b, policy, items(n, 1))
				if policy == RoundRobin {
					p = picker(b, policy, items(n))
				}
				b.ReportAllocs()
				for b.Loop() {
					p.Pick(12345, nil)
				}
			})
		}
	}
}
