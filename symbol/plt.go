package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
)

// Calls of functions of other files go through stubs: the sections .plt, .plt.sec and .plt.got. A
// stub has no symbol. Its name is that of the function which is bound to the slot that it jumps by:
//
//	fastf@plt:  endbr64                  in files for CPUs with indirect branch tracking
//	            jmp *fastf@GOT(%rip)

const (
	// mostStubs is how many stubs of a file are named, and mostStubRelocs how many relocations are
	// read for them.
	mostStubs      = 1 << 16
	mostStubRelocs = 1 << 20
	// mostStubNames is how many bytes of names are kept of a file.
	mostStubNames = 8 << 20
)

// A stub is code that jumps to a function of another file (PLT).
type stub struct {
	from, to uint64
	name     string // fastf@plt
}

// stubSections returns the sections with stubs.
func (h *header) stubSections() []section {
	if !h.wide || h.machine != uint16(elf.EM_X86_64) {
		return nil
	}
	var out []section
	for _, s := range h.secs {
		if s.flags&uint64(elf.SHF_EXECINSTR) != 0 && s.kind == uint32(elf.SHT_PROGBITS) &&
			strings.HasPrefix(h.nameOf(&s), ".plt") {
			out = append(out, s)
		}
	}
	return out
}

// stubs returns the stubs with a name, sorted by address.
func (h *header) stubs() []stub {
	sections := h.stubSections()
	if len(sections) == 0 {
		return nil
	}
	slots, lazy := h.stubSlots()
	var out []stub
	left := h.size // of what is read: bad files have many sections in one place
	for _, s := range sections {
		size := uint64(16)
		text, err := h.read(s.off, min(s.size, mostStubs*size, left))
		if err != nil {
			continue
		}
		left -= uint64(len(text))
		if h.nameOf(&s) == ".plt.got" && !bytes.HasPrefix(text, []byte(endbr64)) {
			size = 8
		}
		for at := uint64(0); at+size <= uint64(len(text)) && len(out) < mostStubs; at += size {
			name := stubName(text[at:at+size], s.addr+at, slots, lazy)
			if name != "" {
				out = append(out, stub{s.addr + at, s.addr + at + size, clean(name) + "@plt"})
			}
		}
	}
	slices.SortFunc(out, func(a, b stub) int { return int(int64(a.from - b.from)) })
	return out
}

const endbr64 = "\xf3\x0f\x1e\xfa"

// stubName returns the function that a stub jumps to; "": unknown. slots has names by the addresses
// of slots, lazy has the names of relocations to which a stub refers by number.
func stubName(code []byte, addr uint64, slots map[uint64]string, lazy []string) string {
	at := 0
	if bytes.HasPrefix(code, []byte(endbr64)) {
		at = len(endbr64)
	}
	if at < len(code) && code[at] == 0xf2 { // bnd
		at++
	}
	le := binary.LittleEndian
	switch {
	case at+6 <= len(code) && code[at] == 0xff && code[at+1] == 0x25: // jmp *X(%rip)
		return slots[addr+uint64(at)+6+uint64(int64(int32(le.Uint32(code[at+2:]))))]
	case at+5 <= len(code) && code[at] == 0x68: // push $X
		if n := le.Uint32(code[at+1:]); uint64(n) < uint64(len(lazy)) {
			return lazy[n]
		}
	}
	return ""
}

// stubSlots returns the names of functions by the addresses of the slots that the dynamic linker
// fills in, and those of .rela.plt in its order.
func (h *header) stubSlots() (slots map[uint64]string, lazy []string) {
	slots = map[uint64]string{}
	le := binary.LittleEndian
	const each, symSize = 24, 24
	names := map[uint32]string{}
	left, read := h.size, 0 // left as in stubs
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != uint32(elf.SHT_RELA) || int(s.link) >= len(h.secs) ||
			s.flags&uint64(elf.SHF_ALLOC) == 0 {
			continue
		}
		syms := &h.secs[s.link]
		if int(syms.link) >= len(h.secs) {
			continue
		}
		text, isLazy := &h.secs[syms.link], h.nameOf(s) == ".rela.plt"
		table, err := h.read(s.off, min(s.size, mostStubRelocs*each, left))
		if err != nil {
			continue
		}
		left -= uint64(len(table))
		for ; len(table) >= each; table = table[each:] {
			info := le.Uint64(table[8:])
			name, n := "", uint32(info>>32)
			if kind := elf.R_X86_64(info & 0xffffffff); (kind == elf.R_X86_64_JMP_SLOT ||
				kind == elf.R_X86_64_GLOB_DAT) && n != 0 {
				known := false
				if name, known = names[n]; !known && len(names) < mostStubs &&
					read < mostStubNames {
					if b, err := h.read(syms.off+uint64(n)*symSize, 4); err == nil &&
						uint64(n) < syms.size/symSize {
						name = Readable(string(h.text(text, le.Uint32(b))))
					}
					names[n] = name
					read += len(name)
				}
			}
			if name != "" && len(slots) < 2*mostStubs {
				slots[le.Uint64(table)] = name
			}
			if isLazy && len(lazy) < mostStubs {
				lazy = append(lazy, name)
			}
		}
	}
	return slots, lazy
}

// nameStubs resolves those addresses, which are sorted, that are in stubs.
func (h *header) nameStubs(addrs []uint64, into map[uint64]learned) {
	sections := h.stubSections()
	if !slices.ContainsFunc(addrs, func(a uint64) bool {
		return slices.ContainsFunc(sections, func(s section) bool {
			return a >= s.addr &&
				a-s.addr < s.size
		})
	}) {
		return
	}
	stubs := h.stubs()
	for _, a := range addrs {
		for len(stubs) > 0 && stubs[0].to <= a {
			stubs = stubs[1:]
		}
		if len(stubs) > 0 && a >= stubs[0].from {
			if l := into[a]; l.name == "" || l.open {
				into[a] = learned{name: stubs[0].name, from: a - stubs[0].from}
			}
		}
	}
}

// addUnnamed adds stubs, and functions without a name, to the symbols of an object, so that find
// returns the same as learn.
func (o *object) addUnnamed(h *header) {
	add := func(name string, from, size uint64) {
		o.syms = append(o.syms, entry{addr: from, size: size, name: uint32(len(o.text)), rank: 1})
		o.text = append(append(o.text, name...), 0)
	}
	for _, s := range h.stubs() {
		if !o.holds(s.from) {
			add(s.name, s.from, s.to-s.from)
		}
	}
	o.order()
	var bare []span
	h.eachFunction(func(from, to uint64) bool {
		if !o.holds(from) {
			bare = append(bare, span{from, to})
		}
		return len(bare) < maxBounds
	})
	for _, b := range bare {
		add(boundary(b.from), b.from, b.to-b.from)
	}
	o.order()
}

// holds reports whether an address is in a symbol with a size, or at the start of one without.
func (o *object) holds(addr uint64) bool {
	const inner = 32 // as find
	i := sort.Search(len(o.syms), func(i int) bool { return o.syms[i].addr > addr }) - 1
	for n := 0; i >= 0 && n < inner; i, n = i-1, n+1 {
		if s := &o.syms[i]; addr-s.addr < s.size || s.addr == addr {
			return true
		}
	}
	return false
}

// maxBounds is how many functions without a name are kept of a file.
const maxBounds = 1 << 20
