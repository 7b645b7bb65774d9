package route

import (
	"cmp"
	"hash/maphash"
	"slices"
)

const shards = 256

// hostMap is a persistent hash table from host to table: a change copies one shard, and a lookup touches one slot and the
// key it has. The zero value is empty.
type hostMap[V any] struct {
	root *[shards]*shard[V]
	seed maphash.Seed
}

// shard is an open hash table, at most half full.
type shard[V any] struct {
	slots []slot[V] // their number is a power of two
}

type slot[V any] struct {
	key   string
	hash  uint64
	value *V // nil: the slot is free; in a change: delete
}

func (m *hostMap[V]) get(key string) *V {
	if m.root == nil {
		return nil
	}
	hash := maphash.String(m.seed, key)
	s := m.root[hash%shards]
	if s == nil {
		return nil
	}
	for i := hash / shards; ; i++ {
		at := &s.slots[i&uint64(len(s.slots)-1)]
		if at.value == nil || at.hash == hash && at.key == key {
			return at.value
		}
	}
}

// with returns m with the changes made, each of a different key. It fills in their hashes and sorts them.
func (m hostMap[V]) with(changes []slot[V]) hostMap[V] {
	if len(changes) == 0 {
		return m
	}
	root := new([shards]*shard[V])
	if m.root == nil {
		m.seed = maphash.MakeSeed()
	} else {
		*root = *m.root
	}
	for i := range changes {
		changes[i].hash = maphash.String(m.seed, changes[i].key)
	}
	slices.SortFunc(changes, func(a, b slot[V]) int { return cmp.Compare(a.hash%shards, b.hash%shards) })
	for len(changes) > 0 {
		n := changes[0].hash % shards
		end := slices.IndexFunc(changes, func(c slot[V]) bool { return c.hash%shards != n })
		if end < 0 {
			end = len(changes)
		}
		root[n] = root[n].with(changes[:end])
		changes = changes[end:]
	}
	m.root = root
	return m
}

func (s *shard[V]) with(changes []slot[V]) *shard[V] {
	var all []slot[V]
	if s != nil {
		for _, at := range s.slots {
			if at.value != nil && !slices.ContainsFunc(changes, func(c slot[V]) bool { return c.key == at.key }) {
				all = append(all, at)
			}
		}
	}
	for _, c := range changes {
		if c.value != nil {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil
	}
	size := 2
	for size < 2*len(all) {
		size *= 2
	}
	slots := make([]slot[V], size)
	for _, one := range all {
		i := one.hash / shards
		for slots[i&uint64(size-1)].value != nil {
			i++
		}
		slots[i&uint64(size-1)] = one
	}
	return &shard[V]{slots}
}
