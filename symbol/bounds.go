package symbol

import (
	"debug/elf"
	"runtime"
	"strconv"
	"strings"

	"culprit/symbol/unwind"
	"culprit/symbol/window"
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
	if size == 0 || size > unwind.MostBytes || off > h.size || size > h.size-off {
		return
	}
	w := window.New(4)
	w.Over(h.r, int64(off), size, nil)
	f := unwind.NewReader(w, addr, false, func(unwind.Row) error { return nil })
	f.Inside(h.frameHeader(window.New(2), addr, size), addrs, found)
}

// eachFunction calls found with the start and end of each function that .eh_frame describes, until
// found returns false.
func (h *header) eachFunction(found func(from, to uint64) bool) {
	if !h.unwindable() {
		return
	}
	off, size, addr := h.frames()
	if size == 0 || size > unwind.MostBytes || off > h.size || size > h.size-off {
		return
	}
	w := window.New(4)
	w.Over(h.r, int64(off), size, nil)
	f := unwind.NewReader(w, addr, false, func(unwind.Row) error { return nil })
	f.EachFunction(h.frameHeader(window.New(2), addr, size), found)
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
