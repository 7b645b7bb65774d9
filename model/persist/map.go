// Package persist has the persistent map that store views and configurations are made of: a copy costs one small slice,
// a change copies one bucket, and two versions are compared without looking at what they share.
package persist

import (
	"iter"
	"slices"
	"sort"
)

const buckets = 1024

type entry[V any] struct {
	key   string
	value V
}

// Map is an immutable map from string to V; the zero value is empty. A method that changes it returns a new Map and leaves
// the receiver as it was, so a Map may be read from many goroutines.
type Map[V comparable] struct {
	buckets *[buckets][]entry[V] // each sorted by key; nil when the map never held anything
	n       int
}

// Len is the number of keys.
func (m Map[V]) Len() int { return m.n }

// Get returns the value of key.
func (m Map[V]) Get(key string) (V, bool) {
	if m.buckets != nil {
		if b := m.buckets[bucketOf(key)]; len(b) > 0 {
			if i, found := find(b, key); found {
				return b[i].value, true
			}
		}
	}
	var zero V
	return zero, false
}

// With returns m with key set to value; m itself when it is set so already.
func (m Map[V]) With(key string, value V) Map[V] {
	e := m.Edit()
	e.Set(key, value)
	return e.Map()
}

// Without returns m without key; m itself when it has no such key.
func (m Map[V]) Without(key string) Map[V] {
	e := m.Edit()
	e.Delete(key)
	return e.Map()
}

// All yields the keys in order with their values.
func (m Map[V]) All() iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, e := range m.sorted() {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}

// Keys returns the keys in order.
func (m Map[V]) Keys() []string {
	keys := make([]string, 0, m.n)
	for key := range m.All() {
		keys = append(keys, key)
	}
	return keys
}

func (m Map[V]) sorted() []entry[V] {
	if m.buckets == nil {
		return nil
	}
	all := make([]entry[V], 0, m.n)
	for _, b := range m.buckets {
		all = append(all, b...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].key < all[j].key })
	return all
}

// Diff yields, in no order, each key whose value is not the same in old and new. A key that one of them lacks comes with
// the zero value on that side.
func Diff[V comparable](old, new Map[V]) iter.Seq2[string, [2]V] {
	return func(yield func(string, [2]V) bool) {
		if old.buckets == new.buckets {
			return
		}
		var none [buckets][]entry[V]
		a, b := old.buckets, new.buckets
		if a == nil {
			a = &none
		}
		if b == nil {
			b = &none
		}
		for i := range a {
			if !same(a[i], b[i]) && !diffBucket(a[i], b[i], yield) {
				return
			}
		}
	}
}

func same[V any](a, b []entry[V]) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func diffBucket[V comparable](a, b []entry[V], yield func(string, [2]V) bool) bool {
	for len(a) > 0 || len(b) > 0 {
		var key string
		var pair [2]V
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].key < b[0].key:
			key, pair[0], a = a[0].key, a[0].value, a[1:]
		case len(a) == 0 || b[0].key < a[0].key:
			key, pair[1], b = b[0].key, b[0].value, b[1:]
		default:
			key, pair[0], pair[1] = a[0].key, a[0].value, b[0].value
			a, b = a[1:], b[1:]
			if pair[0] == pair[1] {
				continue
			}
		}
		if !yield(key, pair) {
			return false
		}
	}
	return true
}

// Editor gathers many changes to one Map; it copies a bucket at most once. It is not for concurrent use.
type Editor[V comparable] struct {
	m     Map[V]
	owned [buckets / 64]uint64 // buckets that this editor has copied already
	fresh bool                 // the bucket array is this editor's own
}

// Edit returns an Editor that starts from m.
func (m Map[V]) Edit() *Editor[V] { return &Editor[V]{m: m} }

// Get returns the value of key, changes so far included.
func (e *Editor[V]) Get(key string) (V, bool) { return e.m.Get(key) }

// Set sets key to value.
func (e *Editor[V]) Set(key string, value V) {
	if old, found := e.m.Get(key); found && old == value {
		return
	}
	b := e.own(key)
	i, found := find(*b, key)
	if found {
		(*b)[i].value = value
		return
	}
	*b = slices.Insert(*b, i, entry[V]{key, value})
	e.m.n++
}

// Delete removes key, if it is there.
func (e *Editor[V]) Delete(key string) {
	if _, found := e.m.Get(key); !found {
		return
	}
	b := e.own(key)
	i, _ := find(*b, key)
	*b = slices.Delete(*b, i, i+1)
	e.m.n--
}

// Map returns the edited map and ends the editor's ownership of it: later edits copy again.
func (e *Editor[V]) Map() Map[V] {
	e.fresh, e.owned = false, [buckets / 64]uint64{}
	return e.m
}

func (e *Editor[V]) own(key string) *[]entry[V] {
	if !e.fresh {
		fresh := new([buckets][]entry[V])
		if e.m.buckets != nil {
			*fresh = *e.m.buckets
		}
		e.m.buckets, e.fresh = fresh, true
	}
	i := bucketOf(key)
	if e.owned[i/64]&(1<<(i%64)) == 0 {
		e.owned[i/64] |= 1 << (i % 64)
		e.m.buckets[i] = slices.Clone(e.m.buckets[i])
	}
	return &e.m.buckets[i]
}

func find[V any](b []entry[V], key string) (int, bool) {
	i := sort.Search(len(b), func(i int) bool { return b[i].key >= key })
	return i, i < len(b) && b[i].key == key
}

// bucketOf is FNV-1a, folded; the same on every run, so that two replicas do the same work.
func bucketOf(key string) uint32 {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return (h ^ h>>10 ^ h>>20) % buckets
}
