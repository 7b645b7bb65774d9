package message

import (
	"slices"
	"strings"
	"testing"
)

func TestLookupKnowsEveryNameInAnyCase(t *testing.T) {
	for id := Other + 1; id < ids; id++ {
		name := id.Name()
		if name == "" {
			t.Fatalf("id %d has no name", id)
		}
		for _, spelling := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			if got := Lookup(spelling); got != id {
				t.Errorf("Lookup(%q) is %d, want %d", spelling, got, id)
			}
		}
		if got := Lookup(name + "x"); got != Other {
			t.Errorf("Lookup(%q) is %s", name+"x", got.Name())
		}
	}
	for _, name := range []string{"", "x", "X-Unknown", "Hos\xf4", "[ost", "host "} {
		if got := Lookup(name); got != Other {
			t.Errorf("Lookup(%q) is %s", name, got.Name())
		}
	}
}

func TestEqualFoldKnowsLettersOnly(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"Host", "hOST", true}, {"a", "b", false}, {"[", "{", false}, {"@", "`", false}, {"a-b", "A-B", true}, {"", "", true}, {"a", "", false}, {"\xe9", "\xc9", false},
	} {
		if got := EqualFold(c.a, c.b); got != c.want {
			t.Errorf("EqualFold(%q, %q) is %v", c.a, c.b, got)
		}
	}
}

func fields(h *Header) string {
	var all []string
	for name, value := range h.All() {
		all = append(all, name+"="+value)
	}
	return strings.Join(all, " ")
}

func TestHeaderKeepsOrderAndCase(t *testing.T) {
	var h Header
	h.Add("X-a", "1")
	h.Add("Cookie", "c")
	h.Add("x-A", "2")
	h.Add("X-B", "3")
	if got := fields(&h); got != "X-a=1 Cookie=c x-A=2 X-B=3" {
		t.Errorf("%s", got)
	}
	if h.Get("X-A") != "1" || !slices.Equal(h.Values("x-a"), []string{"1", "2"}) || !h.Has("COOKIE") || h.Has("X-C") || h.Get("none") != "" {
		t.Error("lookups")
	}
	if v, found := h.Value(Cookie); !found || v != "c" {
		t.Errorf("Value: %q %v", v, found)
	}
	if _, found := h.Value(Accept); found {
		t.Error("Value found what is not there")
	}
	clone := h.Clone()
	h.Set("X-A", "9")
	if got := fields(&h); got != "X-a=9 Cookie=c X-B=3" {
		t.Errorf("after Set %s", got)
	}
	h.Set("New", "n")
	h.Del("cookie")
	if got := fields(&h); got != "X-a=9 X-B=3 New=n" {
		t.Errorf("after Del %s", got)
	}
	h.DelFunc(func(f *Field) bool { return f.Value == "3" })
	if got := fields(&h); got != "X-a=9 New=n" || h.Len() != 2 {
		t.Errorf("after DelFunc %s", got)
	}
	if got := fields(&clone); got != "X-a=1 Cookie=c x-A=2 X-B=3" {
		t.Errorf("the clone changed to %s", got)
	}
	h.Reset()
	if h.Len() != 0 {
		t.Error("Reset left something")
	}
}

func TestAllocsOfAHeaderOverAnArray(t *testing.T) {
	array := make([]Field, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		h := HeaderOver(array)
		h.Add("Accept", "x")
		h.Set("X-Other", "y")
		h.Del("accept")
		_ = h.Get("x-other")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
