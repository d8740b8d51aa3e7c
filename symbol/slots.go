package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MostSlots is how many words an answer to OpSlots has.
const MostSlots = 64

// Chosen returns the function of a file that a running process uses for an indirect function, under
// the name of the latter. all is the code that the process executes; c is one of them, or the same
// file by OpenCode. The dynamic linker has stored the address in the process; ErrUnchosen: it has
// not, or the function is in no file, as those of the vDSO are.
func (ps *Processes) Chosen(pid int, all []*Code, c *Code, f Function) (Function, error) {
	var own *Code
	for _, o := range all {
		if o.key == c.key {
			own = o
		}
	}
	if own == nil {
		return f, ErrUnchosen
	}
	ps.mu.Lock()
	p, err := ps.readProcess(pid)
	ps.mu.Unlock()
	if err != nil {
		return f, ps.unseen(pid, err)
	}
	for _, o := range append([]*Code{own}, all...) { // those of the file itself first
		resolver, name := uint64(0), f.Name
		if o == own {
			resolver = f.Start
		}
		slots, err := o.Slots(resolver, name)
		if errors.Is(err, ErrUnavailable) {
			return f, err
		}
		for _, slot := range slots {
			at, ok := ps.wordOf(p, o.Bias+slot, o.Class)
			if at -= own.Bias; !ok {
				continue
			}
			if at != f.Start && c.Executable(at) {
				return c.at(f, at), nil
			}
		}
	}
	return f, ErrUnchosen
}

// wordOf reads an address from the memory of a process.
func (ps *Processes) wordOf(p *process, at uint64, class Class) (word uint64, ok bool) {
	size := uint64(8)
	if class == I386 {
		size = 4
	}
	b, _ := ps.memoryOf(p, at, at+size)
	if uint64(len(b)) < size {
		return 0, false
	}
	var all [8]byte
	copy(all[:], b[:size])
	return binary.LittleEndian.Uint64(all[:]), true
}

// at returns f at another address, with the size of the function that begins there.
func (c *Code) at(f Function, at uint64) Function {
	f.Start, f.Size, f.Indirect = at, 0, false
	list, _ := c.Functions()
	i, _ := slices.BinarySearchFunc(list, at, func(g Function, at uint64) int {
		return cmp.Compare(g.Start, at)
	})
	for ; i < len(list) && list[i].Start == at; i++ {
		f.Size = max(f.Size, list[i].Size)
	}
	return f
}

// ErrUnchosen is the error of an indirect function whose choice is not known.
var ErrUnchosen = errors.New("which function it chooses is not known")

// Slots returns the addresses in the file of words that contain, in a process, the function that an
// indirect function has chosen (STT_GNU_IFUNC). resolver is the indirect function if it is in this
// file, otherwise 0: the dynamic linker fills the word of its own calls at the start of a process.
// Other files refer to it by name; the dynamic linker may fill their words at the first call. The
// error is of the file's format, ErrLimit or ErrUnavailable.
func (c *Code) Slots(resolver uint64, name string) ([]uint64, error) {
	if c.Class == Foreign {
		return nil, nil
	}
	a, err := c.ask(&Request{Op: OpSlots, Addrs: []uint64{resolver}, Text: []byte(name)})
	if err != nil {
		return nil, fmt.Errorf("read the relocations of %s: %w", c.Name, err)
	}
	return a.Numbers, nil
}

// The relocations of words with the address of a function, by machine: of an indirect function of
// the file itself, and of one of a name.
//
// table: the psABI of each machine
var functionRelocations = map[elf.Machine]struct{ own, data, jump uint32 }{
	elf.EM_X86_64: {
		uint32(elf.R_X86_64_IRELATIVE), uint32(elf.R_X86_64_GLOB_DAT),
		uint32(elf.R_X86_64_JMP_SLOT),
	},
	elf.EM_AARCH64: {
		uint32(elf.R_AARCH64_IRELATIVE), uint32(elf.R_AARCH64_GLOB_DAT),
		uint32(elf.R_AARCH64_JUMP_SLOT),
	},
	elf.EM_386: {
		uint32(elf.R_386_IRELATIVE), uint32(elf.R_386_GLOB_DAT), uint32(elf.R_386_JMP_SLOT),
	},
}

// slots returns the words of Code.Slots. A relocation of 64 bits, and one of 32 bits, whose addend
// is the word itself:
//
//	| u64 address | u32 type | u32 index of the symbol | i64 addend |
//	| u32 address | u8 type, u24 index of the symbol |
func (h *header) slots(resolver uint64, name string, until time.Duration) (
	out []uint64, err error) {
	kinds, ok := functionRelocations[elf.Machine(h.machine)]
	if !ok {
		return nil, nil
	}
	le, each, want := binary.LittleEndian, 24, elf.SHT_RELA
	if !h.wide {
		each, want = 8, elf.SHT_REL
	}
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != uint32(want) || s.flags&uint64(elf.SHF_ALLOC) == 0 {
			continue
		}
		named := h.symbolsNamed(s, name)
		err = h.eachPiece(s, func(table []byte) error {
			if threadTime() > until {
				return ErrLimit
			}
			for ; len(table) >= each && len(out) < MostSlots; table = table[each:] {
				var at uint64
				var kind, sym uint32
				if h.wide {
					at, kind, sym = le.Uint64(table), le.Uint32(table[8:]), le.Uint32(table[12:])
				} else {
					at, kind = uint64(le.Uint32(table)), uint32(table[4])
					sym = le.Uint32(table[4:]) >> 8
				}
				own := kind == kinds.own && resolver != 0 && h.addend(table, at) == resolver
				if own || (kind == kinds.data || kind == kinds.jump) && named[sym] {
					out = append(out, at)
				}
			}
			return nil
		})
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// addend returns the addend of a relocation of the word at an address; 0: it cannot be read.
func (h *header) addend(relocation []byte, at uint64) uint64 {
	if h.wide {
		return binary.LittleEndian.Uint64(relocation[16:])
	}
	for _, s := range h.segments() {
		if at >= s.vaddr && at-s.vaddr < s.filesz {
			if b, err := h.read(at-s.vaddr+s.offset, 4); err == nil {
				return uint64(binary.LittleEndian.Uint32(b))
			}
		}
	}
	return 0
}

// symbolsNamed returns the indexes of the symbols of a name in the table that relocations refer to.
func (h *header) symbolsNamed(relocations *section, name string) map[uint32]bool {
	if name == "" || relocations.link == 0 || int(relocations.link) >= len(h.secs) {
		return nil
	}
	symbols := &h.secs[relocations.link]
	if symbols.kind != uint32(elf.SHT_DYNSYM) || int(symbols.link) >= len(h.secs) {
		return nil
	}
	text, err := h.readBounded(&h.secs[symbols.link], MostFunctionBytes)
	if err != nil {
		return nil
	}
	out, want, n := map[uint32]bool{}, append([]byte(name), 0), uint32(0)
	//nolint:errcheck // what could be read counts
	h.eachPiece(symbols, func(table []byte) error {
		for each := h.symbolSize(); len(table) >= each; table = table[each:] {
			at := uint64(binary.LittleEndian.Uint32(table))
			if at < uint64(len(text)) && bytes.HasPrefix(text[at:], want) && len(out) < MostSlots {
				out[n] = true
			}
			n++
		}
		return nil
	})
	return out
}
