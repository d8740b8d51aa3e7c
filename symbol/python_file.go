package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"culprit/symbol/python"
)

// An interpreterFile is the file of an interpreter, as package python reads it.
type interpreterFile struct{ *header }

// gnuHash is SHT_GNU_HASH, a table of the symbols that a file exports.
const gnuHash = 0x6ffffff6

// longestBucket is how many symbols of a bucket are looked at.
const longestBucket = 256

// layoutOf returns the layout of the interpreter of Python in a file; nil: there is none. path is
// where a process has the file.
func (h *header) layoutOf(path string) *python.Layout {
	if !h.unwindable() {
		return nil
	}
	return python.Find(interpreterFile{h}, path)
}

// Exported implements python.File. It looks a symbol up by its hash (the GNU hash table of the
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

// Data implements python.File.
func (f interpreterFile) Data(addr uint64, n int) ([]byte, error) {
	for _, p := range f.progs {
		if p.kind == uint32(elf.PT_LOAD) && addr >= p.vaddr && addr-p.vaddr < p.filesz &&
			uint64(n) <= p.filesz-(addr-p.vaddr) {
			return f.read(p.off+addr-p.vaddr, uint64(n))
		}
	}
	return nil, errNotELF
}
