package unwind

import (
	"cmp"
	"iter"
	"slices"
)

// Inside calls found for each address, which are sorted, in a function that the section describes,
// with the start of the function. header is as for Read. A malformed section has fewer functions.
func (f *Reader) Inside(header *Header, addrs []uint64, found func(addr, from uint64)) {
	f.inside(f.ordered(header), addrs, found)
}

// EachFunction calls found with the start and end of each function of the section, until
// found returns false. header is as for Read.
func (f *Reader) EachFunction(header *Header, found func(from, to uint64) bool) {
	for p := range f.ordered(header) {
		if d, ok := f.part(p); ok && !found(uint64(d.from), uint64(d.to)) {
			return
		}
	}
}

// ordered returns the parts of the section in the order of their addresses.
func (f *Reader) ordered(header *Header) iter.Seq[framePart] {
	if header != nil {
		return header.parts
	}
	all, _ := f.find() // those before a mistake count
	slices.SortStableFunc(all, func(a, b framePart) int { return cmp.Compare(a.from, b.from) })
	return slices.Values(all)
}

// inside finds the parts that contain the addresses. Both are sorted.
func (f *Reader) inside(parts iter.Seq[framePart], addrs []uint64,
	found func(addr, from uint64)) {
	var before framePart
	begun := false
	look := func(next uint64) { // the addresses of the part before, below next
		for len(addrs) > 0 && addrs[0] < uint64(before.from) {
			addrs = addrs[1:]
		}
		if len(addrs) == 0 || addrs[0] >= next {
			return
		}
		d, ok := f.part(before)
		for ; len(addrs) > 0 && addrs[0] < next; addrs = addrs[1:] {
			if ok && addrs[0] < uint64(d.to) {
				found(addrs[0], uint64(d.from))
			}
		}
	}
	for p := range parts {
		if begun && p.from < before.from {
			return // not in order
		}
		if begun {
			look(uint64(p.from))
		}
		if before, begun = p, true; len(addrs) == 0 {
			return
		}
	}
	if begun {
		look(1 << 32)
	}
}

// part reads what a part describes; !ok: it is malformed, or not where it is said to be.
func (f *Reader) part(p framePart) (d described, ok bool) {
	c, _, ok := f.entry(uint64(p.at))
	if !ok {
		return d, false
	}
	d, ok, err := f.describe(c)
	return d, ok && err == nil && d.from == p.from
}
