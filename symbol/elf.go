package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"debug/gosym"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"

	"culprit/symbol/unwind"
)

// An object is the symbols of one ELF file, and which part of it is loaded where.
type object struct {
	buildID string // in hexadecimal; "" when it has none
	link    DebugLink
	loads   []segment
	syms    []entry // by address
	text    []byte  // names, each with a 0 behind it
	names   map[uint32]string

	noInlined bool   // it has no information on inlined functions
	full      bool   // see header.full
	payer     uint32 // see payerOf
}

// A segment is a part of the file that is loaded.
type segment struct{ offset, vaddr, filesz, memsz uint64 }

// An entry is a symbol: 24 bytes.
type entry struct {
	addr, size uint64 // size 0: up to the next symbol
	name       uint32 // where it begins in text
	rank       uint8
}

// Limits against files that are not what they say.
const (
	maxHeaders = 4096     // program and section headers
	maxTable   = 1 << 30  // bytes of a symbol table or its names
	maxNotes   = 64 << 10 // bytes of notes
)

var (
	errNotELF = errors.New("not an ELF file that this machine could run")
	// ErrTooLong is of a table that is longer than it can be, or than is read.
	ErrTooLong = unwind.ErrTooLong // table: never changed
)

// size estimates the bytes that an object takes.
func (o *object) size() int { return 24*cap(o.syms) + cap(o.text) + 1024 }

// vaddr returns the file's own address for an offset in it; !ok: nothing there is loaded.
func (o *object) vaddr(offset uint64) (uint64, bool) {
	for _, s := range o.loads {
		if offset >= s.offset && offset-s.offset < max(s.filesz, 1) {
			return offset - s.offset + s.vaddr, true
		}
	}
	// Mappings are whole pages: what stands before and behind a segment in its pages is mapped too.
	for _, s := range o.loads {
		if offset >= s.offset&^4095 && offset < (s.offset+s.filesz+4095)&^4095 {
			return offset - s.offset + s.vaddr, true
		}
	}
	return 0, false
}

// find returns the symbol of an address of the file. Of several it is the one that begins last.
func (o *object) find(addr uint64) (name string, offset uint64, ok bool) {
	const inner = 32 // how many symbols within another one are looked past
	i := sort.Search(len(o.syms), func(i int) bool { return o.syms[i].addr > addr }) - 1
	for n := 0; i >= 0 && n < inner; i, n = i-1, n+1 {
		s := &o.syms[i]
		if addr-s.addr < s.size || s.size == 0 && n == 0 {
			return o.name(s.name), addr - s.addr, true
		}
	}
	return "", 0, false
}

// name returns a name, demangled for C++ and Rust. Demangled names are cached.
func (o *object) name(at uint32) string {
	if s, ok := o.names[at]; ok {
		return s
	}
	text := o.text[at:]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	s := Readable(string(text))
	if o.names == nil {
		o.names = map[uint32]string{}
	}
	o.names[at] = s
	return s
}

// A header is the parts of an ELF header that 32-bit and 64-bit files share.
type header struct {
	r       io.ReaderAt
	size    uint64 // bytes of the file
	wide    bool
	machine uint16
	entry   uint64 // where the program begins; 0: it is none
	progs   []prog
	secs    []section
	section []byte     // names of the sections
	checked *header    // of a debug file: the file to which it belongs; nil: see isDebugOf
	minis   *miniCache // nil: nothing is cached
	file    fileKey    // for minis
}

type prog struct {
	kind                    uint32
	flags                   uint32
	off, vaddr, filesz, mem uint64
	align                   uint64
}

type section struct {
	name, kind, link    uint32
	flags               uint64
	addr, off, size, by uint64
}

func (h *header) read(off, n uint64) ([]byte, error) {
	if n > maxTable || off > h.size || n > h.size-off {
		return nil, ErrTooLong
	}
	out := make([]byte, n)
	if _, err := h.r.ReadAt(out, int64(off)); err != nil && !(err == io.EOF && n == 0) {
		return nil, err
	}
	return out, nil
}

// readHeader reads the headers of an ELF file of this machine's byte order. size is the file's
// size.
func readHeader(r io.ReaderAt, size int64) (*header, error) {
	var e [64]byte
	if n, err := r.ReadAt(e[:], 0); n < 52 {
		if err == nil || err == io.EOF {
			err = errNotELF
		}
		return nil, err
	}
	if string(e[:4]) != elf.ELFMAG || e[5] != byte(elf.ELFDATA2LSB) ||
		e[4] != byte(elf.ELFCLASS64) && e[4] != byte(elf.ELFCLASS32) {
		return nil, errNotELF
	}
	le := binary.LittleEndian
	h := &header{r: r, size: uint64(max(size, 0)), machine: le.Uint16(e[18:]),
		wide: e[4] == byte(elf.ELFCLASS64)}
	var phoff, shoff uint64
	var sizes []byte
	if h.wide {
		h.entry, phoff, shoff, sizes = le.Uint64(e[24:]), le.Uint64(e[32:]), le.Uint64(e[40:]),
			e[54:]
	} else {
		phoff, shoff, sizes = uint64(le.Uint32(e[28:])), uint64(le.Uint32(e[32:])), e[42:]
	}
	phsize, phnum, shsize, shnum, names := le.Uint16(sizes), le.Uint16(sizes[2:]),
		le.Uint16(sizes[4:]), le.Uint16(sizes[6:]), le.Uint16(sizes[8:])
	if phnum > maxHeaders || shnum > maxHeaders {
		return nil, ErrTooLong
	}
	wantP, wantS := uint16(32), uint16(40)
	if h.wide {
		wantP, wantS = 56, 64
	}
	if phnum > 0 {
		if phsize < wantP {
			return nil, errNotELF
		}
		b, err := h.read(phoff, uint64(phsize)*uint64(phnum))
		if err != nil {
			return nil, err
		}
		for ; len(b) >= int(phsize); b = b[phsize:] {
			if h.wide {
				h.progs = append(h.progs, prog{le.Uint32(b), le.Uint32(b[4:]), le.Uint64(b[8:]),
					le.Uint64(b[16:]), le.Uint64(b[32:]), le.Uint64(b[40:]), le.Uint64(b[48:])})
			} else {
				h.progs = append(h.progs, prog{le.Uint32(b), le.Uint32(b[24:]),
					uint64(le.Uint32(b[4:])), uint64(le.Uint32(b[8:])), uint64(le.Uint32(b[16:])),
					uint64(le.Uint32(b[20:])), uint64(le.Uint32(b[28:]))})
			}
		}
	}
	// Sections are no part of what runs: a file may have lost them.
	if shnum > 0 && shsize >= wantS {
		b, err := h.read(shoff, uint64(shsize)*uint64(shnum))
		if err != nil {
			return h, nil
		}
		for ; len(b) >= int(shsize); b = b[shsize:] {
			if h.wide {
				h.secs = append(h.secs, section{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[40:]),
					le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:]),
					le.Uint64(b[56:])})
			} else {
				u := func(i int) uint64 { return uint64(le.Uint32(b[i:])) }
				h.secs = append(h.secs, section{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[24:]),
					u(8), u(12), u(16), u(20), u(36)})
			}
		}
		if int(names) < len(h.secs) {
			h.section, _ = h.read(h.secs[names].off, min(h.secs[names].size, 1<<20))
		}
	}
	return h, nil
}

// longestSection is above the length of the name of every section that is looked for.
const longestSection = 64

// nameOf returns the name of a section; what is beyond longestSection is left out. A file may have
// many sections with one name as long as all names.
func (h *header) nameOf(s *section) string {
	if uint64(s.name) >= uint64(len(h.section)) {
		return ""
	}
	b := h.section[s.name:]
	b = b[:min(len(b), longestSection)]
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

// buildID returns the build ID that the linker wrote into the file.
func (h *header) buildID() string {
	for i, p := range h.progs {
		if p.kind != uint32(elf.PT_NOTE) || p.filesz > maxNotes || i > 64 {
			continue
		}
		b, err := h.read(p.off, p.filesz)
		if err != nil {
			continue
		}
		if id := noteID(b); id != "" {
			return id
		}
	}
	looked := 0
	for i := range h.secs {
		if s := &h.secs[i]; s.kind == uint32(elf.SHT_NOTE) && s.size <= maxNotes && looked < 16 {
			looked++
			if b, err := h.read(s.off, s.size); err == nil {
				if id := noteID(b); id != "" {
					return id
				}
			}
		}
	}
	return ""
}

func noteID(b []byte) string {
	const gnuBuildID = 3
	for len(b) >= 12 {
		name, desc := uint64(binary.LittleEndian.Uint32(b)),
			uint64(binary.LittleEndian.Uint32(b[4:]))
		kind := binary.LittleEndian.Uint32(b[8:])
		b = b[12:]
		step := (name+3)&^3 + (desc+3)&^3
		if step > uint64(len(b)) {
			if (name+3)&^3+desc > uint64(len(b)) {
				return ""
			}
			step = uint64(len(b))
		}
		if kind == gnuBuildID && name == 4 && string(b[:4]) == "GNU\x00" && desc > 0 && desc <= 64 {
			return hex.EncodeToString(b[4 : 4+desc])
		}
		b = b[step:]
	}
	return ""
}

func (h *header) segments() []segment {
	var out []segment
	for _, p := range h.progs {
		if p.kind == uint32(elf.PT_LOAD) {
			out = append(out, segment{p.off, p.vaddr, p.filesz, p.mem})
		}
	}
	return out
}

// full reports whether the file has the symbols of its own functions, and not only those that
// others link to.
func (h *header) full() bool {
	for _, s := range h.secs {
		if s.kind == uint32(elf.SHT_SYMTAB) && s.size > 0 {
			return true
		}
	}
	return false
}

// readSymbols reads the symbols of a file: of .symtab, else of .dynsym, of .gnu_debugdata and of
// the table of Go's runtime.
func (o *object) readSymbols(h *header) error {
	kind := uint32(elf.SHT_DYNSYM)
	if h.full() {
		kind = uint32(elf.SHT_SYMTAB)
	}
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != kind || s.size == 0 || int(s.link) >= len(h.secs) ||
			s.kind == uint32(elf.SHT_NOBITS) {
			continue
		}
		text, err := h.read(h.secs[s.link].off, h.secs[s.link].size)
		if err != nil {
			return err
		}
		if uint64(len(text)) > 1<<32-1 {
			return ErrTooLong
		}
		table, err := h.read(s.off, s.size)
		if err != nil {
			return err
		}
		o.text = text
		o.addSymbols(h, table)
		break // there is one
	}
	if !h.full() {
		if err := o.readMini(h); errors.Is(err, ErrLimit) {
			return err
		}
		if err := o.readGo(h); err != nil && len(o.syms) == 0 {
			return err
		}
	}
	o.order()
	return nil
}

func (o *object) addSymbols(h *header, table []byte) {
	le := binary.LittleEndian
	each := 16
	if h.wide {
		each = 24
	}
	o.syms = slices.Grow(o.syms, len(table)/each/2)
	for ; len(table) >= each; table = table[each:] {
		var e entry
		var info, other byte
		var shndx uint16
		e.name = le.Uint32(table)
		if h.wide {
			info, other, shndx = table[4], table[5], le.Uint16(table[6:])
			e.addr, e.size = le.Uint64(table[8:]), le.Uint64(table[16:])
		} else {
			e.addr, e.size = uint64(le.Uint32(table[4:])), uint64(le.Uint32(table[8:]))
			info, other, shndx = table[12], table[13], le.Uint16(table[14:])
		}
		if shndx == uint16(elf.SHN_UNDEF) || shndx == uint16(elf.SHN_ABS) || e.addr == 0 ||
			uint64(e.name) >= uint64(len(o.text)) || o.text[e.name] == 0 {
			continue
		}
		typ := elf.SymType(info & 15)
		switch typ {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC, elf.STT_OBJECT:
		// assembler's labels; not those that only mark where code and data begin
		case elf.STT_NOTYPE:
			if o.text[e.name] == '$' || int(shndx) >= len(h.secs) ||
				h.secs[shndx].flags&uint64(elf.SHF_EXECINSTR) == 0 {
				continue
			}
		default:
			continue
		}
		if e.addr+e.size < e.addr {
			e.size = 0
		}
		e.rank = symbolRank(typ, elf.SymBind(info>>4), elf.SymVis(other&3), o.text[e.name:])
		o.syms = append(o.syms, e)
	}
}

// symbolRank orders the names of one address, as rank does for the kernel.
func symbolRank(typ elf.SymType, bind elf.SymBind, _ elf.SymVis, name []byte) uint8 {
	r := uint8(0)
	if typ == elf.STT_FUNC || typ == elf.STT_GNU_IFUNC {
		r += 32
	}
	switch bind {
	case elf.STB_GLOBAL:
		r += 16
	case elf.STB_WEAK:
		r += 8
	}
	under := 0
	for under < len(name) && under < 7 && (name[under] == '_' || name[under] == '.' ||
		name[under] == '$') {
		under++
	}
	return r + 7 - uint8(under)
}

// readGo reads functions from the table that every Go program has for its own stack traces.
func (o *object) readGo(h *header) (err error) {
	var table, text *section
	for i := range h.secs {
		switch s := &h.secs[i]; h.nameOf(s) {
		case ".gopclntab", ".data.rel.ro.gopclntab":
			table = s
		case ".text":
			text = s
		}
	}
	if table == nil || text == nil || table.size > 256<<20 {
		return nil
	}
	start, ok := h.goText(table, text)
	if !ok {
		return nil
	}
	b, err := h.read(table.off, table.size)
	if err != nil {
		return err
	}
	defer func() {
		if r := recover(); r != nil { // debug/gosym trusts the table
			err = errNotELF
		}
	}()
	t, err := gosym.NewTable(nil, gosym.NewLineTable(b, start))
	if err != nil {
		return err
	}
	for i := range t.Funcs {
		f := &t.Funcs[i]
		if f.Sym == nil || f.Name == "" || f.End <= f.Entry || strings.IndexByte(f.Name, 0) >= 0 {
			continue
		}
		o.syms = append(o.syms, entry{addr: f.Entry, size: f.End - f.Entry,
			name: uint32(len(o.text)), rank: 64})
		o.text = append(append(o.text, f.Name...), 0)
	}
	return nil
}

// order sorts the symbols, of one address the best last, and drops those that find can't return.
func (o *object) order() {
	slices.SortStableFunc(o.syms, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.rank, b.rank))
	})
	kept := o.syms[:0]
	for _, s := range o.syms {
		if n := len(kept); n > 0 && kept[n-1].addr == s.addr &&
			(kept[n-1].size <= s.size || s.size == 0) {
			if s.size == 0 {
				s.size = kept[n-1].size
			}
			kept[n-1] = s
			continue
		}
		kept = append(kept, s)
	}
	o.syms = slices.Clip(kept)
}
