package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"
)

// A file's symbols take tens of milliseconds to be put in order and megabytes to be kept. Who looks
// up a few addresses of many files, for as long as a machine runs, has each file read through for
// just those instead.

// A learned is the symbol of an address. name "": there is none.
type learned struct {
	name string
	from uint64 // distance of the address from the symbol's start
	open bool   // the symbol has no size: it may have ended before the address

	inlined []string // functions inlined there, innermost first; nil: none, or not known yet
}

// DisableSymbolCache disables the cache of files' symbols: only addresses that were passed to Learn
// resolve. It is called before any other method.
func (ps *Processes) DisableSymbolCache() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.limits = leanLimits
	ps.lean = newLearntByUser(ps.limits.addresses)
	if ps.asks {
		ps.asks, ps.later = false, nil
	}
}

// An Asked is a list of addresses of a process as a stack has them, innermost first.
type Asked struct {
	PID int
	PCs []uint64
}

// Learn finds the symbols of the addresses of some stacks and reads each file once. Without
// DisableSymbolCache it looks up generated code alone, unless another process reads files.
func (ps *Processes) Learn(stacks []Asked) {
	ps.turn(true)
	ps.run(func() {
		ps.learnGenerated(stacks)
		ps.learn(stacks)
	})
}

// turn makes space for symbols that are learned next; false: none are.
func (ps *Processes) turn(any bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if any && ps.learns() {
		ps.lean.turn()
	}
}

// learns reports whether symbols are looked up by address, and not later.
func (ps *Processes) learns() bool {
	return ps.lean != nil && (ps.later == nil || ps.asks)
}

// A learnKey is a file with the user of the processes that have it.
type learnKey struct {
	o    *object
	user uint32
}

// A learnWish is addresses of a file that are not known.
type learnWish struct {
	p     *process
	i     int // mapping
	addrs []uint64
}

// learn looks up addresses in files, unless their symbols are cached whole or read later. It is
// called by run.
func (ps *Processes) learn(stacks []Asked) {
	if !ps.learns() {
		return
	}
	wishes := map[learnKey]*learnWish{}
	for _, s := range stacks {
		for n, pc := range s.PCs {
			near := pc - uint64(min(n, 1)) // as in Stack
			p, err := ps.process(s.PID)
			if err != nil {
				break
			}
			ps.wishAt(wishes, p, near)
		}
	}
	for of, w := range wishes {
		slices.Sort(w.addrs)
		w.addrs = slices.Compact(w.addrs)
		ps.learnFile(of, w)
	}
}

// wishAt adds the place of an address to wishes if it is in a file and not known.
func (ps *Processes) wishAt(wishes map[learnKey]*learnWish, p *process, near uint64) {
	p, i := p.lookup(near)
	if i < 0 || p.maps[i].Inode == 0 || strings.HasPrefix(p.maps[i].Path, "/memfd:") {
		return
	}
	o := ps.object(p, i)
	if o == nil {
		return
	}
	vaddr, ok := o.vaddr(near - p.maps[i].Start + p.maps[i].Offset)
	if !ok {
		return
	}
	of := learnKey{o, ps.userOf(p)}
	if _, known := ps.lean.get(of.user, o, vaddr); known {
		return
	}
	w := wishes[of]
	if w == nil {
		w = &learnWish{p: p, i: i}
		wishes[of] = w
	}
	w.addrs = append(w.addrs, vaddr)
}

// learnFile looks up addresses in the file of a mapping. Without an answer they are looked up again
// by the next call.
func (ps *Processes) learnFile(of learnKey, w *learnWish) {
	mapping := w.p.maps[w.i]
	l := ps.later[of.o]
	if l == nil {
		l = &laterFile{process: w.p, mapping: mapping}
		if ps.talk != nil {
			l.file = ps.talk.files[w.p.keys[w.i]]
		}
	}
	key := w.p.keys[w.i]
	//nolint:errcheck // the file is gone: the next process that has it will have names
	ps.askNames(of, of.o, l, w.addrs, func(addrs []uint64, into map[uint64]learned, err error) {
		if errors.Is(err, ErrUnavailable) {
			return
		}
		ps.wish(of, w.p, &mapping, key, addrs)
		for _, a := range addrs {
			ps.lean.put(of.user, of.o, a, into[a])
		}
	})
}

// learn looks up addresses in a file, or in d, which has its symbols; nil: there is none.
func (h *header) learn(d *header, addrs []uint64, into map[uint64]learned) error {
	err := h.learnNames(d, addrs, into)
	h.nameStubs(addrs, into)
	h.nameByBounds(addrs, into)
	return err
}

// learnNames looks up addresses in the symbols of a file.
func (h *header) learnNames(d *header, addrs []uint64, into map[uint64]learned) error {
	switch {
	case h.full():
		return h.scan(uint32(elf.SHT_SYMTAB), addrs, into)
	case d != nil && d.full() && d.isDebugOf(h):
		return d.scan(uint32(elf.SHT_SYMTAB), addrs, into)
	}
	var rest []uint64
	g := h.goTable()
	for _, a := range addrs {
		if l, ok := g.find(a); ok {
			into[a] = l
		} else {
			rest = append(rest, a)
		}
	}
	rest, err := h.scanMini(rest, into)
	if err != nil {
		return err
	}
	return h.scan(uint32(elf.SHT_DYNSYM), rest, into)
}

// A candidate is the best symbol found so far for an address.
type candidate struct {
	addr, size uint64
	name       uint32
	rank       int // -1: none
	nth        int // in the table
	typ        elf.SymType
	bind       elf.SymBind
}

// scan reads a table of symbols for the addresses, which are sorted. It finds what object.find
// would find in a table sorted by object.order.
func (h *header) scan(kind uint32, addrs []uint64, into map[uint64]learned) error {
	if len(addrs) == 0 {
		return nil
	}
	at := slices.IndexFunc(h.secs, func(s section) bool {
		return s.kind == kind && s.size > 0 &&
			int(s.link) < len(h.secs)
	})
	if at < 0 {
		return nil
	}
	table, text := &h.secs[at], &h.secs[h.secs[at].link]
	if table.size > maxTable || table.off > h.size || table.size > h.size-table.off {
		return ErrTooLong
	}
	each := 16
	if h.wide {
		each = 24
	}
	best := make([]candidate, len(addrs)) // of those with a size
	// of those without a size: the last one before an address and after the previous address
	open := make([]candidate, len(addrs))
	last := make([]uint64, len(addrs)) // start of the last symbol of any kind before it
	for i := range best {
		best[i].rank, open[i].rank = -1, -1
	}
	rank := func(c *candidate) int {
		return int(symbolRank(c.typ, c.bind, 0,
			h.text(text, c.name)))
	}
	// of two at one address; ranks are computed on demand
	better := func(c, than *candidate) bool {
		for _, x := range []*candidate{c, than} {
			if x.rank == 0 {
				x.rank = 1 + rank(x)
			}
		}
		return c.rank > than.rank || c.rank == than.rank && c.nth > than.nth
	}
	le := binary.LittleEndian
	low, high := addrs[0], addrs[len(addrs)-1]
	buf := make([]byte, 48<<10) // a multiple of both sizes
	nth := 0
	for off := uint64(0); off < table.size; off += uint64(len(buf)) {
		b := buf[:min(uint64(len(buf)), table.size-off)]
		if _, err := h.r.ReadAt(b, int64(table.off+off)); err != nil && err != io.EOF {
			return err
		}
		for ; len(b) >= each; b = b[each:] {
			nth++
			c := candidate{nth: nth}
			var info byte
			var shndx uint16
			if h.wide {
				c.addr = le.Uint64(b[8:])
				if c.addr > high || c.addr == 0 {
					continue
				}
				c.size, info, shndx = le.Uint64(b[16:]), b[4], le.Uint16(b[6:])
			} else {
				c.addr, c.size, info, shndx = uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])),
					b[12], le.Uint16(b[14:])
			}
			if c.addr > high || c.addr == 0 || shndx == uint16(elf.SHN_UNDEF) ||
				shndx == uint16(elf.SHN_ABS) {
				continue
			}
			c.name, c.typ, c.bind = le.Uint32(b), elf.SymType(info&15), elf.SymBind(info>>4)
			switch c.typ {
			case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_OBJECT:
			case elf.STT_NOTYPE:
				if int(shndx) >= len(h.secs) || h.secs[shndx].flags&uint64(elf.SHF_EXECINSTR) == 0 {
					continue
				}
				if n := h.text(text, c.name); len(n) == 0 || n[0] == '$' {
					continue
				}
			default:
				continue
			}
			if c.addr+c.size < c.addr {
				c.size = 0
			}
			i := 0
			if c.addr > low {
				i = sort.Search(len(addrs), func(i int) bool { return addrs[i] >= c.addr })
			}
			last[i] = max(last[i], c.addr)
			if c.size == 0 {
				if o := &open[i]; o.rank < 0 || c.addr > o.addr || c.addr == o.addr &&
					better(&c, o) {
					*o = c
				}
				continue
			}
			for ; i < len(addrs) && addrs[i]-c.addr < c.size; i++ {
				if o := &best[i]; o.rank < 0 || c.addr > o.addr || c.addr == o.addr &&
					better(&c, o) {
					*o = c
				}
			}
		}
	}
	names := map[uint32]string{}
	for i, a := range addrs {
		if i > 0 { // what begins before the previous address also begins before this one
			if last[i] == 0 {
				last[i] = last[i-1]
			}
			if open[i].rank < 0 || open[i].addr < open[i-1].addr {
				open[i] = open[i-1]
			}
		}
		c, z := best[i], open[i]
		if z.rank >= 0 && z.addr == last[i] && (c.rank < 0 || z.addr > c.addr || better(&z, &c)) {
			c = z
		}
		if c.rank < 0 {
			continue
		}
		name, ok := names[c.name]
		if !ok {
			name = Readable(string(h.text(text, c.name)))
			names[c.name] = name
		}
		if name != "" {
			into[a] = learned{name: name, from: a - c.addr, open: c.size == 0}
		}
	}
	return nil
}

// text returns a name from a table of names; nil when there is none.
func (h *header) text(s *section, at uint32) []byte {
	var out []byte
	for len(out) < 1<<16 {
		off := uint64(at) + uint64(len(out))
		if off >= s.size {
			return nil
		}
		var b [256]byte
		n, err := h.r.ReadAt(b[:min(uint64(len(b)), s.size-off)], int64(s.off+off))
		if n == 0 && err != nil {
			return nil
		}
		if end := bytes.IndexByte(b[:n], 0); end >= 0 {
			return append(out, b[:end]...)
		}
		out = append(out, b[:n]...)
	}
	return out
}

// A goTable is the function table of programs of Go 1.18 and later (runtime/symtab.go, pcHeader),
// read from the file.
type goTable struct {
	h     *header
	at    uint64 // of the table in the file
	size  uint64
	text  uint64 // base of the functions' offsets
	n     uint64 // functions
	names uint64 // offset of the names from the table's start
	funcs uint64 // offset of the functions
}

// goTable finds the table; nil when there is none of a known version.
func (h *header) goTable() *goTable {
	var table, text *section
	for i := range h.secs {
		switch s := &h.secs[i]; h.nameOf(s) {
		case ".gopclntab", ".data.rel.ro.gopclntab":
			table = s
		case ".text":
			text = s
		}
	}
	if table == nil || text == nil || !h.wide {
		return nil
	}
	var b [72]byte
	if _, err := h.r.ReadAt(b[:], int64(table.off)); err != nil {
		return nil
	}
	le := binary.LittleEndian
	if m := le.Uint32(b[:]); m != 0xfffffff0 && m != 0xfffffff1 || b[7] != 8 {
		return nil
	}
	word := func(n int) uint64 { return le.Uint64(b[8+8*n:]) }
	start, ok := h.goText(table, text)
	if !ok {
		return nil
	}
	g := &goTable{h: h, at: table.off, size: table.size, text: start, n: word(0), names: word(3),
		funcs: word(7)}
	if g.names > g.size || g.funcs > g.size || g.n > (g.size-g.funcs)/8 {
		return nil
	}
	return g
}

var errOutside = errors.New("it lies outside of its table")

// read reads two numbers of 32 bits.
func (g *goTable) read(off uint64) (a, b uint32, err error) {
	var raw [8]byte
	if off > g.size-min(8, g.size) {
		return 0, 0, errOutside
	}
	if _, err := g.h.r.ReadAt(raw[:], int64(g.at+off)); err != nil {
		return 0, 0, err
	}
	return binary.LittleEndian.Uint32(raw[:]), binary.LittleEndian.Uint32(raw[4:]), nil
}

// find returns the function of an address.
func (g *goTable) find(addr uint64) (learned, bool) {
	if g == nil || addr < g.text || g.n == 0 {
		return learned{}, false
	}
	off := addr - g.text
	var failed error
	i, _ := sort.Find(int(g.n), func(i int) int {
		entry, _, err := g.read(g.funcs + 8*uint64(i))
		failed = cmp.Or(failed, err)
		if uint64(entry) > off {
			return 0
		}
		return 1
	}) // the first function after it
	end, _, err := g.read(g.funcs + 8*uint64(i)) // the entry after the last function is its end
	if i == 0 || failed != nil || err != nil || off >= uint64(end) {
		return learned{}, false
	}
	entry, at, err := g.read(g.funcs + 8*uint64(i-1))
	if err != nil {
		return learned{}, false
	}
	_, name, err := g.read(g.funcs + uint64(at))
	if err != nil {
		return learned{}, false
	}
	text := g.h.text(&section{off: g.at + g.names, size: g.size - g.names}, name)
	if len(text) == 0 {
		return learned{}, false
	}
	return learned{name: Readable(string(text)), from: off - uint64(entry)}, true
}
