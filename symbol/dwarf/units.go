package dwarf

import (
	"bufio"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"culprit/symbol/window"
)

// A File reads the debug information of one file by pages: some hundreds of kilobytes are in
// memory at once, whatever its size. It is used by one goroutine.
type File struct {
	info, abbrev, text, lineText, textOffsets, addrs, ranges, lists *window.Window

	readable  func(string) string // of names
	most      uint64              // bytes of a section that are unpacked
	unpackers unpackers
	entries   stream // of info
	other     stream // of abbreviations and ranges
	shapes    abbreviations
	shaped    unit // whose abbreviations those are; version 0: nobody's
	first     abbreviations
	root      entry
}

// A unit is the head of a unit and its first entry.
type unit struct {
	// in .debug_info: where it begins, its first entry, and where the next one begins
	at, first, end uint64
	abbrev         uint64
	version        int
	wide, address  int    // bytes of offsets, of addresses
	low            uint64 // what addresses in ranges count from
	// where its part of .debug_str_offsets, .debug_addr, .debug_rnglists begins
	texts, addrs, lists uint64
}

// MostPacked is how many bytes of a section are decompressed.
const MostPacked = 256 << 20

// ErrTooMuch is the error of a file with more compressed debug information than is read.
var ErrTooMuch = errors.New("more debug information than is looked at")

var errSection = errors.New("a compressed section is smaller than its header")

// NewDebugFile returns a File that has read nothing yet. readable demangles a name.
func NewDebugFile(readable func(string) string) *File {
	d := &File{readable: readable, most: MostPacked, unpackers: unpackers{},
		info: window.New(8), abbrev: window.New(4), text: window.New(4),
		lineText: window.New(2), textOffsets: window.New(2), addrs: window.New(4),
		ranges: window.New(4), lists: window.New(4)}
	d.entries.w = d.info
	return d
}

// Over moves the File to another file; false: it has no debug information. The error is ErrTooMuch,
// or that of a file that is no ELF file.
func (d *File) Over(r io.ReaderAt) (bool, error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return false, err
	}
	of := map[string]*window.Window{
		".debug_info": d.info, ".debug_abbrev": d.abbrev, ".debug_str": d.text,
		".debug_line_str": d.lineText, ".debug_str_offsets": d.textOffsets,
		".debug_addr": d.addrs, ".debug_ranges": d.ranges, ".debug_rnglists": d.lists}
	for _, w := range of {
		w.Over(r, 0, 0, nil)
	}
	d.shaped = unit{}
	for _, s := range f.Sections {
		w := of[s.Name]
		switch {
		case w == nil || s.Type == elf.SHT_NOBITS:
		case s.Flags&elf.SHF_COMPRESSED == 0:
			w.Over(r, int64(s.Offset), s.Size, nil)
		case s.Size > d.most:
			return false, ErrTooMuch
		default:
			w.Over(nil, 0, s.Size, d.unpackers.of(w, r, s, f.Class == elf.ELFCLASS64))
		}
	}
	return d.info.Size() > 0 && d.abbrev.Size() > 0, nil
}

// unpackers are what decompresses the section of each window. They are used again for the next file
// and when a window goes back: each has buffers of 40 kB.
type unpackers map[*window.Window]*unpacker

// of returns the function that begins to decompress a section.
func (all unpackers) of(
	w *window.Window, r io.ReaderAt, s *elf.Section, wide bool,
) func() (io.Reader, error) {
	u := all[w]
	if u == nil {
		u = &unpacker{}
		all[w] = u
	}
	u.left = mostOpened
	head := int64(12) // struct Elf32_Chdr: u32 type, size, alignment
	if wide {
		head = 24 // struct Elf64_Chdr: u32 type, reserved, u64 size, alignment
	}
	if head > int64(min(s.FileSize, math.MaxInt64)) || s.Offset > math.MaxInt64 {
		return func() (io.Reader, error) { return nil, errSection }
	}
	return func() (io.Reader, error) {
		var kind [4]byte
		if _, err := r.ReadAt(kind[:], int64(s.Offset)); err != nil {
			return nil, err
		}
		if elf.CompressionType(binary.LittleEndian.Uint32(kind[:])) == elf.COMPRESS_ZLIB {
			return u.zlib(io.NewSectionReader(r, int64(s.Offset)+head, int64(s.FileSize)-head))
		}
		if u.left--; u.left < 0 {
			return nil, ErrTooMuch
		}
		return s.Open(), nil
	}
}

// mostOpened is how often a section is decompressed whose buffers cannot be used again (zstd).
const mostOpened = 16

// An unpacker decompresses sections, one after the other.
type unpacker struct {
	in   *bufio.Reader
	out  io.ReadCloser // a zlib.Resetter; nil: none was made yet
	left int           // how often other formats may still be begun
}

func (u *unpacker) zlib(r io.Reader) (_ io.Reader, err error) {
	if u.in == nil {
		u.in = bufio.NewReader(r)
	}
	u.in.Reset(r)
	if u.out == nil {
		u.out, err = zlib.NewReader(u.in)
		return u.out, err
	}
	return u.out, u.out.(zlib.Resetter).Reset(u.in, nil)
}

// unit reads the head of the unit at an offset (DWARF 5, section 7.5.1) and its first entry; e is
// nil when that is not understood. !ok: no unit begins there.
func (d *File) unit(at uint64) (u unit, e *entry, ok bool) {
	s := &d.entries
	s.seek(at)
	u.at, u.wide = at, 4
	length, begin := s.fixed(4), uint64(4)
	if length == 0xffffffff {
		length, begin, u.wide = s.fixed(8), 12, 8
	}
	if s.bad || length < 8 || at+begin > d.info.Size() || length > d.info.Size()-at-begin {
		return u, nil, false
	}
	u.end = at + begin + length
	kind := uint64(1)
	if u.version = int(s.fixed(2)); u.version >= 5 {
		kind, u.address = s.fixed(1), int(s.fixed(1))
		u.abbrev = s.fixed(u.wide)
	} else {
		u.abbrev, u.address = s.fixed(u.wide), int(s.fixed(1))
	}
	switch kind {
	case 4, 5: // skeleton, split: an id
		s.skip(8)
	case 2, 6: // types
		s.skip(uint64(8 + u.wide))
	}
	u.first = s.at
	if u.version < 2 || u.version > 5 || u.address != 8 && u.address != 4 || s.bad {
		return u, nil, true
	}
	code := s.uleb()
	d.other.w = d.abbrev
	shape := d.first.read(&d.other, u.abbrev, &u, code).of(code)
	if shape == nil {
		return u, nil, true
	}
	e = &d.root // until the next unit
	if !d.entry(&u, shape, e, false) {
		return u, nil, true
	}
	u.texts, u.addrs, u.lists = e.bases[0], e.bases[1], e.bases[2]
	if e.lowForm != 0 {
		u.low, _ = d.addressOf(&u, e.lowForm, e.low)
	}
	return u, e, true
}

// shapesOf returns the abbreviations of a unit.
func (d *File) shapesOf(u *unit) *abbreviations {
	if d.shaped.abbrev != u.abbrev || d.shaped.version != u.version || d.shaped.wide != u.wide ||
		d.shaped.address != u.address {
		d.other.w = d.abbrev
		d.shapes.read(&d.other, u.abbrev, u, 0)
		d.shaped = *u
	}
	return &d.shapes
}

// A entry is the attributes that are read of an entry.
type entry struct {
	tag               uint32
	low, high, ranges uint64 // as they stand there
	lowForm, highForm uint16 // 0: there is none
	rangesForm        uint16
	origin, specifies uint64 // places in .debug_info; 0: none
	sibling           uint64
	name, linkage     text
	bases             [3]uint64 // of .debug_str_offsets, .debug_addr, .debug_rnglists
}

// A text is a text, or its position.
type text struct {
	w    *window.Window // nil: text has it
	at   uint64
	text string
}

func (t *text) there() bool { return t.w != nil || t.text != "" }

// entry reads the attributes of the current entry, after its number. Names are read if names is
// set. false: the entry is not understood.
func (d *File) entry(u *unit, shape *abbreviation, e *entry, names bool) bool {
	s := &d.entries
	*e = entry{tag: shape.tag}
	for i := range shape.forms {
		f := &shape.forms[i]
		switch {
		case f.attr == atLow:
			e.low, e.lowForm = d.value(u, f), f.form
		case f.attr == atHigh:
			e.high, e.highForm = d.value(u, f), f.form
		case f.attr == atRanges:
			e.ranges, e.rangesForm = d.value(u, f), f.form
		case f.attr == atOrigin:
			e.origin = d.reference(u, f)
		case f.attr == atSpecifies:
			e.specifies = d.reference(u, f)
		case f.attr == atSibling:
			e.sibling = d.reference(u, f)
		case f.attr == atStringsBase:
			e.bases[0] = d.value(u, f)
		case f.attr == atAddrBase || f.attr == atGNUAddrBase:
			e.bases[1] = d.value(u, f)
		case f.attr == atRangesBase:
			e.bases[2] = d.value(u, f)
		case names && f.attr == atName:
			e.name = d.textAt(u, f)
		case names && (f.attr == atLinkage || f.attr == atLinkageOfOld):
			e.linkage = d.textAt(u, f)
		default:
			s.skipForm(u, f.form)
		}
	}
	return !s.bad
}

// skipEntry skips the attributes of the current entry.
func (d *File) skipEntry(u *unit, shape *abbreviation) {
	if shape.fixed >= 0 {
		d.entries.skip(uint64(shape.fixed))
		return
	}
	for i := range shape.forms {
		d.entries.skipForm(u, shape.forms[i].form)
	}
}

// value reads an attribute that is a number, an address, an offset or an index of one.
func (d *File) value(u *unit, f *attribute) uint64 {
	s := &d.entries
	switch f.form {
	case formUdata, formAddrx, formRnglistx, formGNUAddr, formStrx, formGNUStr, formRefUleb:
		return s.uleb()
	case formSdata:
		return uint64(s.sleb())
	case formImplicit:
		return uint64(f.implicit)
	}
	if n, ok := u.fixedSize(f.form); ok && n <= 8 {
		return s.fixed(n)
	}
	s.skipForm(u, f.form)
	return 0
}

// reference reads an attribute that refers to another entry; 0: it is in another file.
func (d *File) reference(u *unit, f *attribute) uint64 {
	switch f.form {
	case formRef1, formRef2, formRef4, formRef8, formRefUleb:
		return u.at + d.value(u, f)
	case formRefAddr:
		return d.value(u, f)
	}
	d.entries.skipForm(u, f.form)
	return 0
}

// textAt reads an attribute that is a text.
func (d *File) textAt(u *unit, f *attribute) text {
	switch f.form {
	case formString:
		return text{text: d.entries.text()}
	case formStrp:
		return text{w: d.text, at: d.value(u, f)}
	case formLineStrp:
		return text{w: d.lineText, at: d.value(u, f)}
	case formStrx, formStrx1, 0x26, formStrx3, formStrx4, formGNUStr:
		n := d.value(u, f)
		if at, ok := d.textOffsets.Number(u.texts+n*uint64(u.wide), u.wide); ok &&
			n < d.textOffsets.Size() {
			return text{w: d.text, at: at}
		}
		return text{}
	}
	d.entries.skipForm(u, f.form)
	return text{}
}

// addressOf returns the address in an attribute, or the one whose index it contains.
func (d *File) addressOf(u *unit, form uint16, v uint64) (uint64, bool) {
	switch form {
	case formAddr:
		return v, true
	case formAddrx, formAddrx1, 0x2a, formAddrx3, formAddrx4, formGNUAddr:
		if v >= d.addrs.Size() {
			return 0, false
		}
		return d.addrs.Number(u.addrs+v*uint64(u.address), u.address)
	}
	return 0, false
}

// mostRanges is how many ranges an entry may have.
const mostRanges = 1 << 14

// rangesOf passes the address ranges of an entry to give.
func (d *File) rangesOf(u *unit, e *entry, give func(low, high uint64)) {
	switch {
	case e.rangesForm != 0 && u.version >= 5:
		at := e.ranges
		if e.rangesForm == formRnglistx {
			off, ok := d.lists.Number(u.lists+at*uint64(u.wide), u.wide)
			if !ok || at >= d.lists.Size() {
				return
			}
			at = u.lists + off
		}
		d.listed(u, at, give)
	case e.rangesForm != 0:
		d.paired(u, e.ranges, give)
	case e.lowForm != 0 && e.highForm != 0:
		low, ok := d.addressOf(u, e.lowForm, e.low)
		high, absolute := d.addressOf(u, e.highForm, e.high)
		if !absolute {
			high = low + e.high
		}
		if ok && low < high {
			give(low, high)
		}
	}
}

// paired reads a list of .debug_ranges (DWARF 4, section 2.17.3).
func (d *File) paired(u *unit, at uint64, give func(low, high uint64)) {
	s := &d.other
	s.w = d.ranges
	s.seek(at)
	all := uint64(1)<<(8*u.address-1)<<1 - 1
	base := u.low
	for range mostRanges {
		low, high := s.fixed(u.address), s.fixed(u.address)
		switch {
		case s.bad || low == 0 && high == 0:
			return
		case low == all:
			base = high
		case low < high:
			give(base+low, base+high)
		}
	}
}

// listed reads a list of .debug_rnglists (DWARF 5, section 7.25).
func (d *File) listed(u *unit, at uint64, give func(low, high uint64)) {
	s := &d.other
	s.w = d.lists
	s.seek(at)
	base := u.low
	numbered := func() uint64 {
		a, _ := d.addressOf(u, formAddrx, s.uleb())
		return a
	}
	for range mostRanges {
		var low, high uint64
		switch kind := s.fixed(1); {
		case s.bad || kind == 0:
			return
		case kind == 1: // base_addressx
			base = numbered()
		case kind == 2: // startx_endx
			low, high = numbered(), numbered()
		case kind == 3: // startx_length
			low = numbered()
			high = low + s.uleb()
		case kind == 4: // offset_pair
			low, high = base+s.uleb(), base+s.uleb()
		case kind == 5: // base_address
			base = s.fixed(u.address)
		case kind == 6: // start_end
			low, high = s.fixed(u.address), s.fixed(u.address)
		case kind == 7: // start_length
			low = s.fixed(u.address)
			high = low + s.uleb()
		default:
			return
		}
		if low < high && !s.bad {
			give(low, high)
		}
	}
}
