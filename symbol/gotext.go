package symbol

import (
	"debug/elf"
	"encoding/binary"
)

// mostData is how much of a program's data is searched for the start of its functions.
const mostData = 64 << 20

// pieceOfData is how much of it is in memory at a time.
const pieceOfData = 64 << 10

// goText finds the address from which the offsets in the function table of a Go program count. It
// is the start of .text unless C code was linked in before. false: unknown, and all names would be
// wrong.
func (h *header) goText(table, text *section) (uint64, bool) {
	le := binary.LittleEndian
	inside := func(a uint64) bool { return a >= text.addr && a-text.addr < text.size }
	var head [72]byte
	if !h.wide {
		return 0, false
	}
	if _, err := h.r.ReadAt(head[:], int64(table.off)); err != nil {
		return 0, false
	}
	// textStart of runtime.pcHeader, until Go 1.26
	if start := le.Uint64(head[24:]); inside(start) {
		return start, true
	}
	funcs := le.Uint64(head[64:])
	var first [4]byte // offset of the first function
	if _, err := h.r.ReadAt(first[:], int64(table.off+funcs)); err != nil {
		return 0, false
	}
	// runtime.moduledata begins with the address of the table; behind six slices and a word stand
	// the addresses of the first function, behind the last one, and of where they begin.
	const (
		lowest = 8 + 6*24 + 8
		begin  = lowest + 16
	)
	// The linker writes into it, or the one that loads the program: it lies where can be written.
	piece := make([]byte, pieceOfData+begin)
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != uint32(elf.SHT_PROGBITS) || s.flags&uint64(elf.SHF_EXECINSTR) != 0 ||
			s.flags&uint64(elf.SHF_ALLOC|elf.SHF_WRITE) != uint64(elf.SHF_ALLOC|elf.SHF_WRITE) ||
			s.size > mostData {
			continue
		}
		for from := uint64(0); from < s.size; from += pieceOfData {
			b := piece[:min(uint64(len(piece)), s.size-from)]
			if _, err := h.r.ReadAt(b, int64(s.off+from)); err != nil {
				break
			}
			for at := 0; at < pieceOfData && at+begin+8 <= len(b); at += 8 {
				if le.Uint64(b[at:]) != table.addr {
					continue
				}
				if start := le.Uint64(b[at+begin:]); inside(start) &&
					le.Uint64(b[at+lowest:]) == start+uint64(le.Uint32(first[:])) {
					return start, true
				}
			}
		}
	}
	for _, p := range h.progs {
		// C code may be there, and moduledata is filled in when the program starts
		if p.kind == uint32(elf.PT_INTERP) {
			return 0, false
		}
	}
	return text.addr, true
}
