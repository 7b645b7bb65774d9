package route

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestHostMapAgainstPlainMap makes the same changes to a hostMap and to a built-in map, and looks at every older version too.
func TestHostMapAgainstPlainMap(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	type version struct {
		m    hostMap[int]
		want map[string]*int
	}
	versions := []version{{}}
	for range 100 {
		last := versions[len(versions)-1]
		want := maps.Clone(last.want)
		if want == nil {
			want = map[string]*int{}
		}
		changed := map[string]*int{}
		for range r.IntN(30) {
			key := "host-" + strconv.Itoa(r.IntN(600))
			if r.IntN(3) == 0 {
				changed[key] = nil
				delete(want, key)
			} else {
				changed[key] = new(int)
				want[key] = changed[key]
			}
		}
		var changes []slot[int]
		for key, value := range changed {
			changes = append(changes, slot[int]{key: key, value: value})
		}
		versions = append(versions, version{last.m.with(changes), want})
	}
	for i, v := range versions {
		for n := range 600 {
			key := "host-" + strconv.Itoa(n)
			if got := v.m.get(key); got != v.want[key] {
				t.Fatalf("version %d, %s: got %p, want %p", i, key, got, v.want[key])
			}
		}
	}
}
