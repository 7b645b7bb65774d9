package persist

import (
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestAgainstPlainMap drives a Map and a built-in map with the same edits and compares them, and every older version too.
func TestAgainstPlainMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	type version struct {
		m    Map[int]
		want map[string]int
	}
	var versions []version
	var m Map[int]
	want := map[string]int{}
	for range 200 {
		e := m.Edit()
		for range r.IntN(40) {
			key := strconv.Itoa(r.IntN(3000))
			if r.IntN(3) == 0 {
				e.Delete(key)
				delete(want, key)
			} else {
				v := r.IntN(5)
				e.Set(key, v)
				want[key] = v
			}
		}
		m = e.Map()
		versions = append(versions, version{m, maps.Clone(want)})
	}
	for i, v := range versions {
		if got := maps.Collect(v.m.All()); !maps.Equal(got, v.want) {
			t.Fatalf("version %d: got %v, want %v", i, got, v.want)
		}
		if v.m.Len() != len(v.want) {
			t.Fatalf("version %d: Len %d, want %d", i, v.m.Len(), len(v.want))
		}
		for _, o := range []version{versions[0], versions[len(versions)/2]} {
			diff := map[string][2]int{}
			for key, pair := range Diff(o.m, v.m) {
				diff[key] = pair
			}
			for key := range o.want {
				checkDiff(t, diff, key, o.want, v.want)
			}
			for key := range v.want {
				checkDiff(t, diff, key, o.want, v.want)
			}
		}
	}
}

func checkDiff(t *testing.T, diff map[string][2]int, key string, old, new map[string]int) {
	t.Helper()
	a, inOld := old[key]
	b, inNew := new[key]
	pair, reported := diff[key]
	changed := a != b // a missing key and a zero value are told apart by presence only where the zero value is stored
	if inOld && inNew && reported != changed || !inOld && !inNew && reported {
		t.Fatalf("key %s: old %v %v, new %v %v, diff %v %v", key, a, inOld, b, inNew, pair, reported)
	}
	if inOld != inNew && !reported {
		t.Fatalf("key %s present on one side only is not in the diff", key)
	}
}

func TestEditorDoesNotTouchItsSource(t *testing.T) {
	m := Map[int]{}.With("a", 1)
	e := m.Edit()
	e.Set("a", 2)
	first := e.Map()
	e.Set("a", 3)
	if v, _ := m.Get("a"); v != 1 {
		t.Errorf("source changed to %d", v)
	}
	if v, _ := first.Get("a"); v != 2 {
		t.Errorf("first result changed to %d", v)
	}
	if keys := e.Map().Keys(); len(keys) != 1 || keys[0] != "a" {
		t.Errorf("keys %v", keys)
	}
	if m.Without("a").Len() != 0 || m.Len() != 1 {
		t.Error("Without changed its receiver")
	}
}
