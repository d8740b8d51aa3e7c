package store

import (
	"slices"
	"sort"
)

// A group of distributions is compressed as a whole. Per row it contains:
//
//	uvarint entries, { uvarint tick - previous - 1 (the first: tick), length, bytes }
type distGroup struct {
	rows int
	b    []byte
}

func (g *distGroup) row(entries []distEntry) {
	g.b = appendUvarint(g.b, uint64(len(entries)))
	last := -1
	for _, e := range entries {
		g.b = appendUvarint(g.b, uint64(e.tick-last-1))
		g.b = appendUvarint(g.b, uint64(len(e.bytes)))
		g.b = append(g.b, e.bytes...)
		last = e.tick
	}
	g.rows++
}

type distEntry struct {
	tick  int
	bytes []byte
}

func (b *block) readDists(
	c *codec, starts []int, ticks int, fetch func(n int, buf []byte) ([]byte, error),
) {
	at, rows, broken := -1, [][]distEntry(nil), error(nil)
	open := func(n int) ([][]distEntry, error) {
		value, err := fetch(n, nil)
		if err != nil {
			return nil, err
		}
		plain, err := c.decompress(nil, value, maxGroup)
		if err != nil {
			return nil, err
		}
		return readDistGroup(plain, starts[n+1]-starts[n], ticks)
	}
	b.dists = func(i int, each func(int, *reader)) error {
		n := sort.SearchInts(starts, i+1) - 1
		if n != at {
			at = n
			rows, broken = open(n)
		}
		if broken != nil {
			return broken
		}
		for _, e := range rows[i-starts[n]] {
			each(e.tick, &reader{b: e.bytes})
		}
		return nil
	}
}

func readDistGroup(plain []byte, rows, ticks int) ([][]distEntry, error) {
	r := &reader{b: plain}
	if rows > len(plain) {
		return nil, errCorrupt
	}
	out := make([][]distEntry, rows)
	for i := range out {
		n := r.count()
		out[i] = slices.Grow(out[i], min(n, ticks))
		last := -1
		for range n {
			gap := r.uvarint()
			if gap >= uint64(ticks) || last+1+int(gap) >= ticks {
				return nil, errCorrupt
			}
			last += 1 + int(gap)
			out[i] = append(out[i], distEntry{last, r.bytes(r.uvarint())})
		}
	}
	return out, r.err
}
