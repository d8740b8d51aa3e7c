package symbol

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/symbol/instruction"
)

// code answers the requests of a Code.
func (r *OwnReader) code(q *Request, h *header, a *Answer, until time.Duration) (err error) {
	switch q.Op {
	case OpCode:
		a.BuildID, a.Loads, a.Full = h.buildID(), segmentsOf(h.segments()), h.full()
		a.Link = h.debugLink()
		a.Code, a.Go = segmentsOf(h.codeSegments()), ownRegisters(h)
		a.Numbers = []uint64{uint64(h.class())}
	case OpFunctions:
		a.Found, err = h.eachNamed(r.debugOf(q, h, until), until, q.Function)
	case OpInstructions, OpReturns:
		err = h.instructions(q, a)
	case OpProbeable:
		for _, offset := range q.Addrs {
			a.Numbers = append(a.Numbers, uint64(h.probeable(offset)))
		}
	case OpNotes:
		a.Notes, err = readNotes(h)
	case OpSlots:
		if len(q.Addrs) != 1 {
			return errNotELF
		}
		a.Numbers, err = h.slots(q.Addrs[0], string(q.Text), until)
	case OpVariable:
		name := string(q.Text)
		if addr, ok := h.variables(map[string]bool{name: true})[name]; ok {
			a.Numbers = []uint64{addr}
		}
	}
	return err
}

// class returns the class of the code of a file.
func (h *header) class() Class {
	switch {
	case h.wide && h.machine == machineOf[runtime.GOARCH]:
		return Native
	case !h.wide && h.machine == uint16(elf.EM_386) && runtime.GOARCH == "amd64":
		return I386
	}
	return Foreign
}

// machineOf is the machine in headers of ELF files, by GOARCH.
//
// table: never changed
var machineOf = map[string]uint16{
	"amd64": uint16(elf.EM_X86_64), "arm64": uint16(elf.EM_AARCH64),
}

// ownRegisters reports whether a file is a Go program that passes arguments in registers.
func ownRegisters(h *header) bool {
	if !slices.ContainsFunc(h.secs, func(s section) bool {
		return h.nameOf(&s) == ".gopclntab" || h.nameOf(&s) == ".data.rel.ro.gopclntab"
	}) {
		return false
	}
	info, err := buildinfo.Read(h.r)
	if err != nil {
		return false
	}
	version, _ := strings.CutPrefix(info.GoVersion, "go1.")
	minor, _, _ := strings.Cut(version, ".")
	c := proc.Scan([]byte(minor))
	n := c.Uint()
	return c.Err() == nil && n >= 17 || strings.HasPrefix(info.GoVersion, "devel")
}

// eachNamed passes on the functions of the file, or of its debug file if only that has the names of
// its own functions. beside: they come from the debug file.
func (h *header) eachNamed(d *header, until time.Duration, each func(Function) error) (
	beside bool, err error) {
	from := h
	if d != nil && d.full() && !h.full() {
		from, beside = d, true
	}
	list, err := from.functions()
	if err != nil {
		return beside, err
	}
	for i, e := range list.all {
		name := list.name(e)
		f := Function{Name: clean(string(name)), Readable: Readable(string(name)), Start: e.start,
			Size: e.size, Indirect: e.indirect}
		if f.Readable != f.Name {
			f.Signature = signature(string(name))
		}
		if f.Readable == f.Name || len(f.Readable) > MostName {
			f.Readable = f.Name
		}
		if i%1024 == 0 && threadTime() > until {
			return beside, ErrLimit
		}
		if err := each(f); err != nil {
			return beside, err
		}
	}
	return beside, nil
}

// functions returns the functions of .symtab, else of .dynsym, else of the table of Go's runtime,
// in the order of Code.Functions.
func (h *header) functions() (*functionList, error) {
	list := &functionList{}
	if err := h.addSymbolFunctions(list); err != nil {
		return nil, err
	}
	if !h.full() {
		if err := h.addGoFunctions(list); err != nil && (len(list.all) == 0 ||
			!errors.Is(err, errNotELF)) {
			return nil, err
		}
	}
	slices.SortStableFunc(list.all, func(a, b functionEntry) int {
		if c := cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.rank, b.rank)); c != 0 {
			return c
		}
		x, y := list.name(a), list.name(b)
		return cmp.Or(cmp.Compare(len(y), len(x)), bytes.Compare(y, x))
	})
	return list, nil
}

// addSymbolFunctions adds the functions of .symtab, else of .dynsym.
func (h *header) addSymbolFunctions(list *functionList) (err error) {
	kind := uint32(elf.SHT_DYNSYM)
	if h.full() {
		kind = uint32(elf.SHT_SYMTAB)
	}
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != kind || s.size == 0 || int(s.link) >= len(h.secs) {
			continue
		}
		if list.text, err = h.readBounded(&h.secs[s.link], MostFunctionBytes); err != nil {
			return err
		}
		return h.eachPiece(s, func(table []byte) error { return list.addTable(h, table) })
	}
	return nil
}

// addGoFunctions adds the functions of the table of Go's runtime.
func (h *header) addGoFunctions(list *functionList) error {
	g := h.goTable()
	if g == nil { // of versions before Go 1.18
		o := &object{}
		err := o.readGo(h)
		for _, s := range o.syms {
			name, _, _ := bytes.Cut(o.text[s.name:], []byte{0})
			if err := list.addNew(s.addr, s.size, name); err != nil {
				return err
			}
		}
		return err
	}
	for i := range g.n {
		entry, at, err := g.read(g.funcs + 8*i)
		if err != nil {
			return err
		}
		end, _, err := g.read(g.funcs + 8*(i+1))
		if err != nil || end <= entry {
			continue
		}
		if _, name, err := g.read(g.funcs + uint64(at)); err == nil {
			text := h.text(&section{off: g.at + g.names, size: g.size - g.names}, name)
			err = list.addNew(g.text+uint64(entry), uint64(end-entry), text)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// mostSymbolBytes is how many bytes of a table of symbols are read, and symbolPiece how many at a
// time: whole entries of both sizes.
const (
	mostSymbolBytes = 96 << 20
	symbolPiece     = 24 * 16 << 10
)

// eachPiece passes on a section by pieces.
func (h *header) eachPiece(s *section, each func(piece []byte) error) error {
	if s.size > mostSymbolBytes || s.off > h.size || s.size > h.size-s.off {
		return ErrTooLong
	}
	for at := uint64(0); at < s.size; at += symbolPiece {
		b, err := h.read(s.off+at, min(symbolPiece, s.size-at))
		if err != nil {
			return err
		}
		if err := each(b); err != nil {
			return err
		}
	}
	return nil
}

// readBounded reads a section of at most that many bytes.
func (h *header) readBounded(s *section, most uint64) ([]byte, error) {
	if s.size > most {
		return nil, ErrTooLong
	}
	return h.read(s.off, s.size)
}

// A functionList is functions of a file, within the limits of an answer.
type functionList struct {
	all   []functionEntry
	text  []byte // names
	bytes int    // of names
}

// A functionEntry is a function: 32 bytes.
type functionEntry struct {
	start, size uint64
	name        uint32 // where it begins in text
	length      uint32
	rank        uint8
	indirect    bool
}

func (l *functionList) name(e functionEntry) []byte { return l.text[e.name : e.name+e.length] }

// add adds a function whose name is in text. The error is ErrTooLong.
func (l *functionList) add(e functionEntry) error {
	if e.length == 0 || e.length > MostName {
		return nil
	}
	l.bytes += int(e.length)
	if len(l.all) == MostFunctions || l.bytes > MostFunctionBytes {
		return ErrTooLong
	}
	l.all = append(l.all, e)
	return nil
}

// addNew adds a function of Go and its name.
func (l *functionList) addNew(start, size uint64, name []byte) error {
	const goRank = 64
	if l.bytes+len(name) > MostFunctionBytes {
		return ErrTooLong
	}
	at := len(l.text)
	l.text = append(l.text, name...)
	return l.add(functionEntry{start, size, uint32(at), uint32(len(name)), goRank, false})
}

// addTable adds the functions of a piece of a table of symbols.
func (l *functionList) addTable(h *header, table []byte) error {
	le := binary.LittleEndian
	each := 16
	if h.wide {
		each = 24
	}
	for ; len(table) >= each; table = table[each:] {
		var e functionEntry
		var info, other byte
		var shndx uint16
		e.name = le.Uint32(table)
		if h.wide {
			info, other, shndx = table[4], table[5], le.Uint16(table[6:])
			e.start, e.size = le.Uint64(table[8:]), le.Uint64(table[16:])
		} else {
			e.start, e.size = uint64(le.Uint32(table[4:])), uint64(le.Uint32(table[8:]))
			info, other, shndx = table[12], table[13], le.Uint16(table[14:])
		}
		typ := elf.SymType(info & 15)
		if typ != elf.STT_FUNC && typ != elf.STT_GNU_IFUNC || shndx == uint16(elf.SHN_UNDEF) ||
			e.start == 0 || e.start+e.size < e.start || uint64(e.name) >= uint64(len(l.text)) {
			continue
		}
		b := l.text[e.name:min(uint64(e.name)+MostName+1, uint64(len(l.text)))]
		b, _, _ = bytes.Cut(b, []byte{0})
		if at := bytes.IndexByte(b, '@'); at > 0 { // which version of a library's function it is
			b = b[:at]
		}
		e.length, e.indirect = uint32(len(b)), typ == elf.STT_GNU_IFUNC
		e.rank = symbolRank(typ, elf.SymBind(info>>4), elf.SymVis(other&3), b)
		if err := l.add(e); err != nil {
			return err
		}
	}
	return nil
}

// maxCode is the longest function whose instructions are decoded.
const maxCode = 1 << 20

// instructions decodes a part of the file.
func (h *header) instructions(q *Request, a *Answer) error {
	if len(q.Addrs) != 2 || q.Addrs[1] <= q.Addrs[0] || q.Addrs[1]-q.Addrs[0] > maxCode {
		return errNotELF
	}
	text, err := h.read(q.Addrs[0], q.Addrs[1]-q.Addrs[0])
	if err != nil {
		return err
	}
	starts, end := instruction.Starts(text, h.class() == I386)
	a.Cut, a.To = end < len(text), int64(end)
	if q.Op == OpReturns {
		starts = slices.DeleteFunc(starts,
			func(at uint64) bool { return !instruction.Returns(text[at:]) })
	}
	a.Numbers = starts
	return nil
}

// unknownInstruction returns the error of an instruction at an offset from a function's start.
func unknownInstruction(at int64) error {
	return fmt.Errorf("no instruction is known that begins as at +0x%x: %w", at,
		measure.ErrUnsupported)
}

// probeable reports whether the instruction at an offset in the file can have a probe.
func (h *header) probeable(offset uint64) Probeability {
	if runtime.GOARCH != "amd64" {
		return CanProbe
	}
	var b [16]byte
	if offset >= h.size {
		return ProbeUnread
	}
	n, err := h.r.ReadAt(b[:min(uint64(len(b)), h.size-offset)], int64(offset))
	if n == 0 || err != nil && !errors.Is(err, io.EOF) {
		return ProbeUnread
	}
	return probeableAMD64(b[:n])
}

// variables returns the addresses of variables of the file by their names, as far as it has them.
func (h *header) variables(names map[string]bool) map[string]uint64 {
	found := map[string]uint64{}
	for i := range h.secs {
		s := &h.secs[i]
		if s.kind != uint32(elf.SHT_SYMTAB) && s.kind != uint32(elf.SHT_DYNSYM) ||
			int(s.link) >= len(h.secs) || len(names) == 0 {
			continue
		}
		text, err := h.readBounded(&h.secs[s.link], MostFunctionBytes)
		if err != nil {
			return found
		}
		err = h.eachPiece(s, func(table []byte) error {
			for ; len(table) >= h.symbolSize(); table = table[h.symbolSize():] {
				at := binary.LittleEndian.Uint32(table)
				addr, section := h.symbolValue(table)
				if addr == 0 || uint64(at) >= uint64(len(text)) ||
					section == uint16(elf.SHN_UNDEF) {
					continue
				}
				b := text[at:min(uint64(at)+maxVariable+1, uint64(len(text)))]
				name, _, whole := bytes.Cut(b, []byte{0})
				if _, known := found[string(name)]; whole && !known && names[string(name)] {
					found[string(name)] = addr
				}
			}
			return nil
		})
		if err != nil {
			return found
		}
	}
	return found
}

// symbolSize returns the size of an entry of a table of symbols.
func (h *header) symbolSize() int {
	if h.wide {
		return 24
	}
	return 16
}

// symbolValue returns the address in an entry of a table of symbols, and its section.
func (h *header) symbolValue(entry []byte) (addr uint64, section uint16) {
	le := binary.LittleEndian
	if h.wide {
		return le.Uint64(entry[8:]), le.Uint16(entry[6:])
	}
	return uint64(le.Uint32(entry[4:])), le.Uint16(entry[14:])
}

// maxVariable is the length of the longest name of a variable in an argument.
const maxVariable = 256
