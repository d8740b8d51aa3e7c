package symbol

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"culprit/symbol/unwind"
)

const (
	// mostCodeStarts is how many starts of functions are taken from a file's symbols.
	mostCodeStarts = 1 << 19
	// codePiece is how much code is read at a time, and mostGapCode how much of one file.
	codePiece   = 1 << 20
	mostGapCode = 16 << 20
	// leastGap is the size of a gap that is read although no symbol lies in it. Smaller ones are
	// the padding between functions.
	leastGap = 32
	// mostStartNames is how many bytes of names are read, where a bad file has them all long.
	mostStartNames = 256 << 20
	// mostGaps is how many gaps are read.
	mostGaps = 1 << 16
)

// A span is a range of addresses of a file.
type span struct{ from, to uint64 }

// gapRows adds rows for code that an unwind table does not describe.
type gapRows struct {
	h      *header
	row    func(uint32, unwind.Rule) error
	code   []span   // what the file executes, in order
	starts []uint32 // of functions, and other symbols of code, in order
	labels []uint32
	asked  bool   // starts were read
	names  int    // bytes of names that were read
	read   []span // gaps that were read
	left   uint64 // bytes that may still be read
}

// withGaps passes the rows of a file's unwind table, which read yields in order, to row, and in
// between rows for code that the table does not describe. It returns the spans of that code. An
// error of the table ends the table, and what follows is a gap; an error of row is returned.
func (h *header) withGaps(row func(uint32, unwind.Rule) error,
	read func(func(uint32, unwind.Rule) error) error) ([]span, error) {
	g := &gapRows{h: h, code: h.executed(), left: mostGapCode}
	var failed error // of row
	g.row = func(pc uint32, rule unwind.Rule) error {
		failed = row(pc, rule)
		return failed
	}
	from, open := uint64(0), true // the gap at hand
	err := read(func(pc uint32, rule unwind.Rule) error {
		if rule == (unwind.Rule{}) {
			if !open {
				from, open = uint64(pc), true
			}
			return nil
		}
		if open {
			open = false
			if err := g.fill(span{from, uint64(pc)}); err != nil {
				return err
			}
		}
		return g.row(pc, rule)
	})
	if failed != nil || errors.Is(err, ErrTooLong) {
		return g.read, err
	}
	if !open { // the last row holds as far as it is said to: nothing ends it
		return g.read, err
	}
	if e := g.fill(span{from, 1 << 32}); e != nil {
		return g.read, e
	}
	return g.read, err
}

// executed returns the executable spans of the file, in order: its code sections, or its segments
// when it has no sections.
func (h *header) executed() []span {
	var out []span
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind == uint32(elf.SHT_PROGBITS) && s.flags&uint64(elf.SHF_EXECINSTR) != 0 &&
			s.addr != 0 {
			out = append(out, span{s.addr, s.addr + s.size})
		}
	}
	if len(out) == 0 {
		for _, p := range h.progs {
			if p.kind == uint32(elf.PT_LOAD) && p.flags&uint32(elf.PF_X) != 0 {
				out = append(out, span{p.vaddr, p.vaddr + p.filesz})
			}
		}
	}
	slices.SortFunc(out, func(a, b span) int { return int(int64(a.from - b.from)) })
	reached := uint64(0)
	for i := range out { // bad files have them over one another
		out[i].from = max(out[i].from, reached)
		out[i].to = min(max(out[i].to, out[i].from), 1<<32-1)
		reached = out[i].to
	}
	return out
}

// fill adds rows for a gap.
func (g *gapRows) fill(gap span) error {
	if gap.from > 0 { // the row before does not hold there
		if err := g.row(uint32(min(gap.from, 1<<32-1)), unwind.Rule{}); err != nil {
			return err
		}
	}
	for _, c := range g.code {
		from, to := max(c.from, gap.from), min(c.to, gap.to)
		if from >= to || len(g.read) >= mostGaps {
			continue
		}
		g.readStarts()
		if to-from < leastGap && len(within(g.starts, from, to)) == 0 {
			continue
		}
		g.read = append(g.read, span{from, to})
		for from < to && g.left > 0 {
			n := min(to-from, codePiece, g.left)
			g.left -= n
			if err := g.piece(span{from, from + n}); err != nil {
				return err
			}
			from += n
		}
	}
	return nil
}

// piece adds rows for a part of a gap.
func (g *gapRows) piece(s span) error {
	text, err := g.h.memory(s)
	if err != nil {
		return nil // nothing is known of it
	}
	local := func(all []uint32) []uint32 {
		out := slices.Clone(within(all, s.from, s.to))
		for i := range out {
			out[i] -= uint32(s.from)
		}
		return out
	}
	last := unwind.Rule{}
	err = readCode(text, s.from, local(g.starts), local(g.labels), g.h.full(),
		g.h.entry).rows(func(at uint32, rule unwind.Rule) error {
		last = rule
		return g.row(uint32(s.from)+at, rule)
	})
	if err == nil && last != (unwind.Rule{}) {
		err = g.row(uint32(s.to), unwind.Rule{})
	}
	return err
}

// within returns the addresses in a span. all is sorted.
func within(all []uint32, from, to uint64) []uint32 {
	i, _ := slices.BinarySearch(all, uint32(from))
	j, _ := slices.BinarySearch(all, uint32(to))
	return all[i:j]
}

// memory reads the bytes that are loaded at a span.
func (h *header) memory(s span) ([]byte, error) {
	for _, p := range h.segments() {
		if s.from >= p.vaddr && s.from-p.vaddr < p.filesz &&
			s.to-s.from <= p.filesz-(s.from-p.vaddr) {
			return h.read(p.offset+(s.from-p.vaddr), s.to-s.from)
		}
	}
	return nil, unwind.ErrMalformed
}

// digest returns the digest of the code in spans; !ok: it can't be read.
func (h *header) digest(spans []span) (d frameDigest, ok bool) {
	sum := sha256.New()
	for _, s := range spans {
		for s.from < s.to {
			b, err := h.memory(span{s.from, min(s.to, s.from+codePiece)})
			if err != nil {
				return d, false
			}
			sum.Write(b) //nolint:errcheck // it has none
			s.from += uint64(len(b))
		}
	}
	sum.Sum(d[:0])
	return d, true
}

// readStarts reads the starts of the file's functions from its symbols, once, without the parts
// that compilers move elsewhere (.cold).
func (g *gapRows) readStarts() {
	if g.asked {
		return
	}
	g.asked = true
	h := g.h
	kind := uint32(elf.SHT_DYNSYM)
	if h.full() {
		kind = uint32(elf.SHT_SYMTAB)
	}
	i := slices.IndexFunc(h.secs, func(s section) bool {
		return s.kind == kind && s.size > 0 &&
			int(s.link) < len(h.secs)
	})
	if i < 0 || !h.wide {
		return
	}
	table, text := &h.secs[i], &h.secs[h.secs[i].link]
	const each = 24
	buf := make([]byte, 1024*each)
	for off := uint64(0); off < table.size && off < maxTable &&
		len(g.starts)+len(g.labels) < mostCodeStarts; off += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), table.size-off)]
		n, err := h.r.ReadAt(b, int64(table.off+off))
		if n == 0 || err != nil && err != io.EOF {
			break
		}
		for b = b[:n]; len(b) >= each; b = b[each:] {
			g.start(b, text)
		}
	}
	for _, list := range []*[]uint32{&g.starts, &g.labels} {
		slices.Sort(*list)
		*list = slices.Clip(slices.Compact(*list))
	}
}

// start records a symbol if it is one of code. text is the section of names.
func (g *gapRows) start(b []byte, text *section) {
	le := binary.LittleEndian
	addr, shndx := le.Uint64(b[8:]), le.Uint16(b[6:])
	if shndx == uint16(elf.SHN_UNDEF) || addr == 0 || addr > 1<<32-1 {
		return
	}
	switch elf.SymType(b[4] & 15) {
	case elf.STT_FUNC, elf.STT_GNU_IFUNC:
	case elf.STT_NOTYPE:
		if int(shndx) < len(g.h.secs) && g.h.secs[shndx].flags&uint64(elf.SHF_EXECINSTR) != 0 {
			g.labels = append(g.labels, uint32(addr))
		}
		return
	default:
		return
	}
	if elf.SymBind(b[4]>>4) == elf.STB_LOCAL {
		if g.names >= mostStartNames {
			return
		}
		name := string(g.h.text(text, le.Uint32(b)))
		if g.names += len(name) + 256; Bare(name) != name {
			return
		}
	}
	g.starts = append(g.starts, uint32(addr))
}
