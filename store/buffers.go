package store

import "slices"

// Buffers that one query passes on to the next.

// gatherBuffers are the buffers of a query that no answer refers to.
type gatherBuffers struct {
	series     []*gathered
	counts     slab[uint32]      // number of ticks per value
	seriesSlab slab[gathered]    // the series
	matched    []int32           // series of each row of the block whose rows were matched last
	weights    []float64         // per tick of a block: the divisor of amounts for rates
	stretches  []stretch         // of the measured ticks of a block that the query selects
	into       []*gathered       // of a block in progress
	keys       []uint32          // of the table of rows
	slots      []uint32          // of the table of rows
	texts      map[string]uint32 // of words
	spareChunk chunk
	folder     cellFolder
	cellOf     []int32
	// Per word of a block: 1 + the word of the answer. All datasets of a window share its words, so
	// there are many.
	mapped   []uint32
	nodes    []uint32 // per node
	verdicts []int8   // per word and term: 1 matches, -1 does not
	seen     []int32  // per series: how many rows of the current block it has
}

// slab allocates items that are used together and released together.
type slab[T any] struct {
	items []T
	used  int
}

// take returns n zero items. When the slab is exhausted it allocates n*ahead items at once.
func (s *slab[T]) take(n, ahead int) []T {
	if len(s.items)-s.used < n {
		s.items, s.used = make([]T, max(n*ahead, min(2*len(s.items), maxKept))), 0
	}
	s.used += n
	return s.items[s.used-n : s.used : s.used]
}

// release makes all items available again.
func (s *slab[T]) release() {
	clear(s.items[:s.used])
	s.used = 0
	if len(s.items) > maxKept {
		s.items = nil
	}
}

// maxKept is the approximate number of items of a kind that are kept from one query to the next.
const maxKept = 16 << 10

// release drops references to the answer, and buffers that are larger than most queries need.
func (r *gatherBuffers) release() {
	r.spareChunk.block = nil // and with it the window
	r.counts.release()
	r.seriesSlab.release()
	clear(r.into)
	clear(r.series)
	r.series = r.series[:0]
	if cap(r.series) > maxKept || len(r.texts) > maxKept {
		r.series, r.matched, r.into, r.keys, r.slots, r.texts = nil, nil, nil, nil, nil, nil
	}
	clear(r.texts)
}

// zeroed returns n zeros, in buf if that is large enough.
func zeroed[T any](buf *[]T, n int) []T {
	*buf = slices.Grow((*buf)[:0], n)[:n]
	clear(*buf)
	return *buf
}
