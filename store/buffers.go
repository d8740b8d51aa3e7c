package store

import "slices"

// Room that questions use one after the other.

// gatherRoom is what one question leaves to the next: room that no answer keeps.
type gatherBuffers struct {
	series     []*gathered
	counts     slab[uint32]      // for how many ticks values are of
	seriesSlab slab[gathered]    // series themselves
	matched    []int32           // series of each row of the newest block whose rows were matched
	weights    []float64         // of each tick of a block: what an amount is divided by to be a rate
	stretches  []stretch         // of a block's ticks, those that are measured and asked for
	into       []*gathered       // of a lap
	keys       []uint32          // of the table of rows
	slots      []uint32          // and its slots
	texts      map[string]uint32 // of words
	spareChunk chunk
	folder     cellFolder
	cellOf     []int32
	mapped     []uint32 // of each word of a block: 1 + ours. All datasets of a window share its words, so these are many
	nodes      []uint32 // of each node
	verdicts   []int8   // of each word and term: 1 matches, -1 does not
	seen       []int32  // of each series: how many rows of the block at hand it has
}

// slab is room for things that are used together and given up together.
type slab[T any] struct {
	items []T
	used  int
}

// take gives room for n, which are zero; when it lacks, for ahead times as many at once.
func (s *slab[T]) take(n, ahead int) []T {
	if len(s.items)-s.used < n {
		s.items, s.used = make([]T, max(n*ahead, min(2*len(s.items), maxKept))), 0
	}
	s.used += n
	return s.items[s.used-n : s.used : s.used]
}

// give takes all back.
func (s *slab[T]) release() {
	clear(s.items[:s.used])
	s.used = 0
	if len(s.items) > maxKept {
		s.items = nil
	}
}

// mostKept is how many things of a kind are kept from one question to the next, about.
const maxKept = 16 << 10

// leave lets go of all that belongs to an answer, and of more room than most questions need.
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

// zeroed gives n zeros, in room where that is enough.
func zeroed[T any](room *[]T, n int) []T {
	*room = slices.Grow((*room)[:0], n)[:n]
	clear(*room)
	return *room
}
