package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"sort"

	"culprit/symbol/interp"
	"culprit/symbol/interp/languages"
)

// An interpreterFile is an interp.File.
type interpreterFile struct{ *header }

// gnuHash is SHT_GNU_HASH, a table of the symbols that a file exports.
const gnuHash = 0x6ffffff6

// longestBucket is how many symbols of a bucket are looked at.
const longestBucket = 256

// layoutOf returns the layout of the interpreter in a file; nil: there is none. path is
// where a process has the file.
func (h *header) layoutOf(path string) interp.Layout {
	if !h.unwindable() {
		return nil
	}
	return languages.Find(interpreterFile{h}, path)
}

// Exported implements interp.File. It looks a symbol up by its hash (the GNU hash table of the
// dynamic linker): most files without the symbol cost a read of eight bytes.
//
//	| u32 buckets | u32 first symbol | u32 words | u32 shift |
//	| words times u64 | buckets times u32: the first symbol of each |
//	| u32 for each symbol from the first on: its hash, bit 0 ends the bucket |
func (f interpreterFile) Exported(name string) (addr, size uint64, ok bool) {
	table, symbols, texts := f.exports()
	if table == nil {
		return 0, 0, false
	}
	b, err := f.read(table.off, 16)
	if err != nil {
		return 0, 0, false
	}
	le := binary.LittleEndian
	buckets, first := le.Uint32(b), le.Uint32(b[4:])
	words, shift := le.Uint32(b[8:]), le.Uint32(b[12:])
	if buckets == 0 || words == 0 || uint64(words)*8+uint64(buckets)*4+16 > table.size {
		return 0, 0, false
	}
	hash := uint32(5381)
	for _, c := range []byte(name) {
		hash = hash*33 + uint32(c)
	}
	b, err = f.read(table.off+16+8*uint64(hash/64%words), 8)
	if bits := uint64(1)<<(hash%64) | 1<<(hash>>(shift&31)%64); err != nil ||
		le.Uint64(b)&bits != bits {
		return 0, 0, false
	}
	at := 16 + 8*uint64(words)
	if b, err = f.read(table.off+at+4*uint64(hash%buckets), 4); err != nil {
		return 0, 0, false
	}
	at += 4 * uint64(buckets)
	n := le.Uint32(b)
	for range longestBucket {
		if n < first || at+4*uint64(n-first)+4 > table.size {
			break
		}
		of, err := f.read(table.off+at+4*uint64(n-first), 4)
		if err != nil {
			break
		}
		if h := le.Uint32(of); h|1 == hash|1 {
			if addr, size, ok = f.symbol(symbols, texts, n, name); ok {
				return addr, size, true
			}
		}
		if le.Uint32(of)&1 == 1 {
			break
		}
		n++
	}
	return 0, 0, false
}

// exports returns the sections of the exported symbols: their hash table, they, and their names;
// nil: there are none.
func (f interpreterFile) exports() (table, symbols, texts *section) {
	for i := range f.secs {
		s := &f.secs[i]
		if s.kind != gnuHash || int(s.link) >= len(f.secs) || s.size < 16 {
			continue
		}
		symbols = &f.secs[s.link]
		if symbols.kind != uint32(elf.SHT_DYNSYM) || int(symbols.link) >= len(f.secs) {
			return nil, nil, nil
		}
		return s, symbols, &f.secs[symbols.link]
	}
	return nil, nil, nil
}

// symbol returns symbol number n if it has a name and is in the file.
func (f interpreterFile) symbol(symbols, texts *section, n uint32, name string) (
	addr, size uint64, ok bool) {
	const each = 24
	if (uint64(n)+1)*each > symbols.size {
		return 0, 0, false
	}
	b, err := f.read(symbols.off+uint64(n)*each, each)
	if err != nil || binary.LittleEndian.Uint16(b[6:]) == uint16(elf.SHN_UNDEF) {
		return 0, 0, false
	}
	at := uint64(binary.LittleEndian.Uint32(b))
	addr, size = binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])
	want := append([]byte(name), 0)
	if at+uint64(len(want)) > texts.size {
		return 0, 0, false
	}
	text, err := f.read(texts.off+at, uint64(len(want)))
	return addr, size, err == nil && bytes.Equal(text, want)
}

// Data implements interp.File.
func (f interpreterFile) Data(addr uint64, n int) ([]byte, error) {
	for _, p := range f.progs {
		if p.kind == uint32(elf.PT_LOAD) && addr >= p.vaddr && addr-p.vaddr < p.filesz &&
			uint64(n) <= p.filesz-(addr-p.vaddr) {
			return f.read(p.off+addr-p.vaddr, uint64(n))
		}
	}
	return nil, errNotELF
}

// Bounds of what is read of the file of an interpreter.
const (
	mostInterpreterBytes = 64 << 20
	mostRelocationBytes  = 16 << 20
	relocationChunk      = 24 * 4096
)

// Symbols implements interp.File.
func (f interpreterFile) Symbols(names ...string) [][2]uint64 {
	out := make([][2]uint64, len(names))
	kind := uint32(elf.SHT_DYNSYM)
	if f.full() {
		kind = uint32(elf.SHT_SYMTAB)
	}
	for i := range f.secs {
		s := &f.secs[i]
		if s.kind != kind || int(s.link) >= len(f.secs) || s.size > mostInterpreterBytes ||
			f.secs[s.link].size > mostInterpreterBytes {
			continue
		}
		text, err := f.read(f.secs[s.link].off, f.secs[s.link].size)
		if err != nil {
			return out
		}
		table, err := f.read(s.off, s.size)
		if err != nil {
			return out
		}
		le := binary.LittleEndian
		for ; len(table) >= 24; table = table[24:] {
			at := uint64(le.Uint32(table))
			if at >= uint64(len(text)) || le.Uint16(table[6:]) == uint16(elf.SHN_UNDEF) {
				continue
			}
			for k, name := range names {
				if rest := text[at:]; len(rest) > len(name) && rest[len(name)] == 0 &&
					string(rest[:len(name)]) == name {
					out[k] = [2]uint64{le.Uint64(table[8:]), le.Uint64(table[16:])}
				}
			}
		}
		break // there is one
	}
	return out
}

// Function implements interp.File. .eh_frame_hdr has where functions begin; each ends before the
// next one.
func (f interpreterFile) Function(addr uint64) (from, to uint64, ok bool) {
	const head, each = 12, 8
	for i := range f.progs {
		p := &f.progs[i]
		if p.kind != uint32(elf.PT_GNU_EH_FRAME) || p.filesz < head+2*each {
			continue
		}
		b, err := f.read(p.off, head)
		if err != nil || string(b[:4]) != "\x01\x1b\x03\x3b" {
			return 0, 0, false
		}
		n := min(uint64(binary.LittleEndian.Uint32(b[8:])), (p.filesz-head)/each)
		start := func(i uint64) uint64 {
			b, err := f.read(p.off+head+each*i, 4)
			if err != nil {
				return 0
			}
			return p.vaddr + uint64(int64(int32(binary.LittleEndian.Uint32(b))))
		}
		after := uint64(sort.Search(int(n), func(i int) bool { return start(uint64(i)) > addr }))
		if after == 0 || after == n {
			return 0, 0, false
		}
		return start(after - 1), start(after), true
	}
	return 0, 0, false
}

// Relocations implements interp.File.
func (f interpreterFile) Relocations(each func(interp.Relocation) bool) {
	left := uint64(mostRelocationBytes)
	for i := range f.secs {
		s := &f.secs[i]
		if s.kind != uint32(elf.SHT_RELA) || s.flags&uint64(elf.SHF_ALLOC) == 0 {
			continue
		}
		n := min(s.size, left)
		left -= n
		for at := uint64(0); at < n; at += relocationChunk {
			b, err := f.read(s.off+at, min(n-at, relocationChunk))
			if err != nil {
				return
			}
			le := binary.LittleEndian
			for ; len(b) >= 24; b = b[24:] {
				if !each(interp.Relocation{At: le.Uint64(b), Kind: le.Uint32(b[8:]),
					Symbol: le.Uint32(b[12:]), Addend: le.Uint64(b[16:])}) {
					return
				}
			}
		}
	}
}

// ThreadStorage implements interp.File.
func (f interpreterFile) ThreadStorage() (size uint64, program bool) {
	for i := range f.progs {
		switch p := &f.progs[i]; p.kind {
		case uint32(elf.PT_TLS):
			align := max(p.align, 1)
			size = (p.mem + align - 1) / align * align
		case uint32(elf.PT_INTERP):
			program = true
		}
	}
	return size, program
}

// Code implements interp.File.
func (f interpreterFile) Code() (addr, size uint64) {
	for i := range f.progs {
		p := &f.progs[i]
		if p.kind == uint32(elf.PT_LOAD) && p.flags&uint32(elf.PF_X) != 0 && p.filesz > size {
			addr, size = p.vaddr, p.filesz
		}
	}
	return addr, size
}

// Needs implements interp.File.
func (f interpreterFile) Needs(prefix string) bool {
	const needed, most = 1, 1 << 16
	for i := range f.secs {
		s := &f.secs[i]
		if s.kind != uint32(elf.SHT_DYNAMIC) || int(s.link) >= len(f.secs) || s.size > most {
			continue
		}
		b, err := f.read(s.off, s.size)
		if err != nil {
			return false
		}
		le := binary.LittleEndian
		for ; len(b) >= 16; b = b[16:] {
			texts := &f.secs[s.link]
			at := le.Uint64(b[8:])
			if le.Uint64(b) != needed || at >= texts.size ||
				texts.size-at < uint64(len(prefix)) {
				continue
			}
			name, err := f.read(texts.off+at, uint64(len(prefix)))
			if err == nil && string(name) == prefix {
				return true
			}
		}
	}
	return false
}
