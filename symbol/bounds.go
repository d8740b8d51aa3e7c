package symbol

import (
	"cmp"
	"debug/elf"
	"iter"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A stripped file has no names, but .eh_frame still has the start and end of each function, which
// identify it.

// boundary is the name of a function without a symbol, by the address in its file where it begins.
// named makes [module+0x1240] of it when the module is known.
func boundary(from uint64) string { return "+0x" + strconv.FormatUint(from, 16) }

// named completes a name of boundary with its module: [module+0x1240]. It returns other names as
// they are.
func named(name, module string) string {
	if strings.HasPrefix(name, "+0x") {
		return "[" + module + name + "]"
	}
	return name
}

// nameByBounds names those of the addresses, which are sorted, that have no name, or the name of a
// symbol without a size that begins before their function, by the function that contains them.
func (h *header) nameByBounds(addrs []uint64, into map[uint64]learned) {
	var rest []uint64
	for _, a := range addrs {
		if l := into[a]; l.name == "" || l.open {
			rest = append(rest, a)
		}
	}
	h.bounds(rest, func(a, from uint64) {
		if l := into[a]; l.name == "" || a-l.from < from {
			into[a] = learned{name: boundary(from), from: a - from}
		}
	})
}

// bounds calls found for each address, which are sorted, in a function that .eh_frame describes,
// with the start of the function. It reads by pages; a malformed file has fewer functions.
func (h *header) bounds(addrs []uint64, found func(addr, from uint64)) {
	if len(addrs) == 0 || !h.wide || h.machine != uint16(elf.EM_X86_64) ||
		runtime.GOARCH != "amd64" {
		return
	}
	off, size, addr := h.frames()
	if size == 0 || size > maxUnwindBytes || off > h.size || size > h.size-off {
		return
	}
	w := newWindow(4)
	w.over(h.r, int64(off), size, nil)
	f := newFrameReader(w, addr, false, func(UnwindRow) error { return nil })
	f.inside(f.ordered(h.frameHeader(newWindow(2), addr, size)), addrs, found)
}

// eachFunction calls found with the start and end of each function that .eh_frame describes, until
// found returns false.
func (h *header) eachFunction(found func(from, to uint64) bool) {
	if !h.unwindable() {
		return
	}
	off, size, addr := h.frames()
	if size == 0 || size > maxUnwindBytes || off > h.size || size > h.size-off {
		return
	}
	w := newWindow(4)
	w.over(h.r, int64(off), size, nil)
	f := newFrameReader(w, addr, false, func(UnwindRow) error { return nil })
	for p := range f.ordered(h.frameHeader(newWindow(2), addr, size)) {
		if d, ok := f.part(p); ok && !found(uint64(d.from), uint64(d.to)) {
			return
		}
	}
}

// frames returns where .eh_frame lies in the file, its size in bytes, and the address it is loaded
// at; size 0: there is none.
func (h *header) frames() (off, size, addr uint64) {
	for i := range h.secs {
		s := &h.secs[i]
		if h.nameOf(s) == ".eh_frame" && s.kind != uint32(elf.SHT_NOBITS) &&
			s.flags&uint64(elf.SHF_COMPRESSED) == 0 {
			return s.off, s.size, s.addr
		}
	}
	return h.ehFrame()
}

// ordered returns the parts of the section in the order of their addresses.
func (f *frameReader) ordered(header *frameHeader) iter.Seq[framePart] {
	if header != nil {
		return header.parts
	}
	all, _ := f.find() // those before a mistake count
	slices.SortStableFunc(all, func(a, b framePart) int { return cmp.Compare(a.from, b.from) })
	return slices.Values(all)
}

// inside finds the parts that contain the addresses. Both are sorted.
func (f *frameReader) inside(parts iter.Seq[framePart], addrs []uint64,
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
func (f *frameReader) part(p framePart) (d described, ok bool) {
	c, _, ok := f.entry(uint64(p.at))
	if !ok {
		return d, false
	}
	d, ok, err := f.describe(c)
	return d, ok && err == nil && d.from == p.from
}
