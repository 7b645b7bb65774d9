package h1

import "sync"

const (
	pageSize = 16 << 10
	bulkSize = 64 << 10
)

// Buffers for writing, held while something is written. They are pools and not state: nothing in them means anything.
var (
	pages = sync.Pool{New: func() any { return new([pageSize]byte) }}
	bulks = sync.Pool{New: func() any { return new([bulkSize]byte) }}
)
