package symbol

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// Bounds of what is read of .eh_frame.
const (
	maxUnwindRows   = 1 << 22
	maxUnwindBytes  = 48 << 20
	maxUnwindStates = 64 // remembered within one another
)

var errUnwind = errors.New("malformed unwind table")

// The registers of x86-64 by the numbers that DWARF gives them (System V ABI, AMD64 supplement).
const (
	dwarfBP = 6
	dwarfSP = 7
	dwarfPC = 16
)

// A saved says where a register of the caller is: one of DWARF's register rules.
type saved struct {
	how savedHow
	off int32
}

type savedHow uint8

const (
	savedNot savedHow = iota // the same value; also where nothing is said of it
	savedUndefined
	savedAtCFA
	savedAtBP
	savedAtSP
	savedOther
)

// A frameState is what DWARF's instructions work on, as far as it is kept.
type frameState struct {
	cfa    CFARule
	off    int32
	plt    int32
	bp, pc saved
}

// rule gives what a state comes to.
func (s *frameState) rule() UnwindRule {
	switch {
	case s.pc.how == savedUndefined:
		return UnwindRule{CFA: CFAEnd}
	case s.cfa == CFAAtSP && s.off == SignalSP && s.pc == saved{savedAtSP, SignalPC} && s.bp == saved{savedAtSP, SignalBP}:
		return UnwindRule{CFA: CFASignal}
	case s.pc != saved{savedAtCFA, -8} || s.cfa == CFANone || s.cfa == CFAPLT && s.bp.how != savedNot:
		return UnwindRule{CFA: CFAOther}
	}
	r := UnwindRule{CFA: s.cfa, Offset: s.off}
	switch s.bp.how {
	case savedNot:
	case savedAtCFA:
		r.BP, r.BPOffset = BPAtCFA, s.bp.off
	case savedAtBP:
		r.BP, r.BPOffset = BPAtBP, s.bp.off
	default:
		r.BP = BPLost
	}
	switch r.CFA {
	case CFAPLT:
		r.BPOffset = s.plt
	case CFAOther:
		return UnwindRule{CFA: CFAOther}
	}
	return r
}

// A common is a CIE: what several functions have in common.
type common struct {
	code, data int64 // factors
	encoding   byte  // of pointers
	augmented  bool
	start      frameState
}

// A described is an FDE: how one stretch of code is walked through, by the instructions at a place in the section.
type described struct {
	from, to uint32
	at, end  int32 // in the section
	of       *common
}

// A frameReader makes a table of a section.
type frameReader struct {
	b      []byte
	addr   uint64 // where the section is loaded
	debug  bool   // it is .debug_frame, which says a few things otherwise
	table  UnwindTable
	number map[UnwindRule]uint16
	recent [256]recentRule
	kept   []frameState // room for those that are remembered
	parts  []described
	common map[int]*common // by place; nil: can't be read
}

// parseUnwind reads the bytes of .eh_frame, which is loaded at an address, or of .debug_frame. With an error, what came before the
// mistake counts.
func parseUnwind(b []byte, addr uint64, debug bool) (*UnwindTable, error) {
	f := &frameReader{b: b, addr: addr, debug: debug, number: map[UnwindRule]uint16{{}: 0}, common: map[int]*common{}}
	f.table.Rules = []UnwindRule{{}}
	err := f.read()
	f.common = nil
	if e := f.order(); e != nil {
		err = e
	}
	t := f.table // by itself: a pointer into f would keep b, which is many times as large as what is kept of a table
	return &t, err
}

func (f *frameReader) read() error {
	for at := 0; at+4 <= len(f.b); {
		c, ok := f.entry(at)
		if !ok {
			return errUnwind
		}
		if c.left() == 0 {
			if !f.debug {
				return nil // the terminator
			}
			at += 4
			continue
		}
		at = c.end
		place := c.at
		id := c.fixed(c.width)
		if isCommon, cie := f.refers(id, place, c.width); !isCommon {
			if err := f.describe(c, cie); err != nil {
				return err
			}
		}
	}
	return nil
}

// refers tells what the word behind the length of an entry says: it is a CIE, or where its CIE begins.
func (f *frameReader) refers(id uint64, place, width int) (isCommon bool, cie int) {
	if f.debug {
		return id == math.MaxUint32 && width == 4 || id == math.MaxUint64, int(min(id, math.MaxInt32))
	}
	if id > uint64(place) {
		return false, -1
	}
	return id == 0, place - int(id)
}

// entry gives the entry that begins at an offset, behind its length.
func (f *frameReader) entry(at int) (c cursor, ok bool) {
	if at < 0 || at+4 > len(f.b) {
		return c, false
	}
	n, head, width := uint64(binary.LittleEndian.Uint32(f.b[at:])), 4, 4
	if n == math.MaxUint32 {
		if at+12 > len(f.b) {
			return c, false
		}
		n, head = binary.LittleEndian.Uint64(f.b[at+4:]), 12
		if f.debug {
			width = 8
		}
	}
	if n > uint64(len(f.b)-at-head) {
		return c, false
	}
	return cursor{b: f.b, at: at + head, end: at + head + int(n), width: width}, true
}

// cie reads the CIE at an offset; nil: it says what is not understood.
func (f *frameReader) cie(at int) *common {
	if u, ok := f.common[at]; ok {
		return u
	}
	u := f.readCommon(at)
	f.common[at] = u
	return u
}

func (f *frameReader) readCommon(at int) *common {
	c, ok := f.entry(at)
	if !ok || c.left() == 0 {
		return nil
	}
	id := c.fixed(c.width)
	if isCommon, _ := f.refers(id, at, c.width); !isCommon {
		return nil
	}
	version := c.byte()
	augmentation := c.text()
	u := &common{start: frameState{cfa: CFAOther}}
	if version >= 4 {
		if address, segment := c.byte(), c.byte(); address != 8 || segment != 0 {
			return nil
		}
	}
	u.code, u.data = int64(c.uleb()), c.sleb()
	register := uint64(0)
	if version == 1 {
		register = uint64(c.byte())
	} else {
		register = c.uleb()
	}
	if c.bad || register != dwarfPC || version == 0 || version == 2 || version > 4 {
		return nil
	}
	rest := c
	if augmentation != "" {
		if augmentation[0] != 'z' {
			return nil
		}
		u.augmented = true
		n := c.uleb()
		if c.bad || n > uint64(c.left()) {
			return nil
		}
		rest = c
		rest.at += int(n)
		c.end = rest.at
		for _, letter := range augmentation[1:] {
			switch letter {
			case 'R':
				u.encoding = c.byte()
			case 'P':
				c.pointer(c.byte(), 0)
			case 'L':
				c.byte()
			case 'S', 'B':
			default:
				return nil
			}
		}
		if c.bad {
			return nil
		}
	}
	if !f.run(rest, u, &u.start, frameState{cfa: CFAOther}, nil) {
		return nil
	}
	return u
}

// describe reads an FDE.
func (f *frameReader) describe(c cursor, cie int) error {
	u := f.cie(cie)
	if u == nil {
		return nil // of others more may be known
	}
	from := c.pointer(u.encoding, f.addr)
	size := c.pointer(u.encoding&0x0f, f.addr) // a length has the form of a pointer, and nothing to add
	if u.augmented {
		n := c.uleb()
		if n > uint64(c.left()) {
			return errUnwind
		}
		c.at += int(n)
	}
	if c.bad {
		return errUnwind
	}
	if from == 0 || size == 0 || from > math.MaxUint32 || size > math.MaxUint32 || from+size > math.MaxUint32 {
		return nil // of code that the linker left out; or beyond what a row holds
	}
	f.parts = append(f.parts, described{uint32(from), uint32(from + size), int32(c.at), int32(c.end), u})
	return nil
}

// rows gives the rows of a stretch of code behind some others.
func (f *frameReader) rows(out []UnwindRow, d *described) []UnwindRow {
	state := d.of.start
	pc, from, to := uint64(d.from), uint64(d.from), uint64(d.to)
	row := func(s *frameState) bool {
		if pc >= to {
			return true
		}
		rule := f.ruleOf(s)
		n := len(out)
		switch {
		case n > 0 && out[n-1].PC == uint32(pc):
			out[n-1].Rule = rule
		case n > 0 && out[n-1].Rule == rule:
		default:
			out = append(out, UnwindRow{uint32(pc), rule})
		}
		return len(out) < maxUnwindRows
	}
	c := cursor{b: f.b, at: int(d.at), end: int(d.end)}
	good := f.run(c, d.of, &state, d.of.start, func(s *frameState, by uint64, absolute bool) bool {
		if !row(s) {
			return false
		}
		if absolute {
			by -= min(by, pc)
		}
		pc = min(pc+min(by, to-from), to)
		return true
	})
	if !good {
		state = frameState{}
	}
	row(&state)
	return out
}

// A recentRule is a state, and the number of its rule.
type recentRule struct {
	of     frameState
	number uint16
	known  bool
}

// ruleOf gives the number of the rule that a state comes to. Functions have few states, and nearly all the same ones.
func (f *frameReader) ruleOf(s *frameState) uint16 {
	h := uint32(s.cfa) ^ uint32(s.off)*0x9e3779b1 ^ uint32(s.bp.off)*0x85ebca6b ^ uint32(s.bp.how)<<5 ^ uint32(s.pc.off)*0xc2b2ae35 ^ uint32(s.plt)<<3
	r := &f.recent[h>>24]
	if !r.known || r.of != *s {
		*r = recentRule{*s, f.rule(s.rule()), true}
	}
	return r.number
}

// rule gives the number of a rule.
func (f *frameReader) rule(r UnwindRule) uint16 {
	n, ok := f.number[r]
	if !ok {
		if len(f.table.Rules) == math.MaxUint16 {
			return f.rule(UnwindRule{CFA: CFAOther}) // which was among the first
		}
		if len(f.table.Rules) == 1 && r.CFA != CFAOther {
			f.rule(UnwindRule{CFA: CFAOther})
		}
		n = uint16(len(f.table.Rules))
		f.table.Rules = append(f.table.Rules, r)
		f.number[r] = n
	}
	return n
}

// order puts the rows of all parts into the order of their addresses, with the end of each part where no other begins.
func (f *frameReader) order() error {
	slices.SortStableFunc(f.parts, func(a, b described) int { return cmp.Compare(a.from, b.from) })
	out := make([]UnwindRow, 0, min(len(f.b)/5, maxUnwindRows)) // as many as compilers write into so many bytes
	put := func(r UnwindRow) {
		if n := len(out); n > 0 && out[n-1].PC == r.PC {
			out = out[:n-1]
		}
		if n := len(out); n > 0 && out[n-1].Rule == r.Rule {
			return
		}
		out = append(out, r)
	}
	reached := uint32(0)
	var rows []UnwindRow
	for i := range f.parts {
		d := &f.parts[i]
		if d.from < reached {
			continue // said twice
		}
		rows = f.rows(rows[:0], d)
		if len(out)+len(rows) >= maxUnwindRows {
			return errTooLong
		}
		for _, r := range rows {
			put(r)
		}
		reached = d.to
		if i+1 == len(f.parts) || f.parts[i+1].from != d.to {
			put(UnwindRow{d.to, 0})
		}
	}
	f.table.Rows, f.parts = slices.Clip(out), nil
	return nil
}

// run runs DWARF's instructions on a state. Step is called before the address moves, by how much or where to; nil: it may not. It is
// false where an instruction is not understood, or makes no sense.
func (f *frameReader) run(c cursor, u *common, s *frameState, initial frameState, step func(s *frameState, to uint64, absolute bool) bool) bool {
	f.kept = f.kept[:0]
	move := func(n uint64) bool {
		if step == nil || u.code < 0 || n > math.MaxUint32 || uint64(u.code) > math.MaxUint32 {
			return false
		}
		return step(s, n*uint64(u.code), false)
	}
	offset := func(factored int64) saved {
		v := factored * u.data
		if factored != int64(int32(factored)) || u.data != int64(int32(u.data)) || v != int64(int32(v)) {
			return saved{how: savedOther}
		}
		return saved{savedAtCFA, int32(v)}
	}
	for c.left() > 0 && !c.bad {
		op := c.byte()
		low := uint64(op & 0x3f)
		good := true
		switch op >> 6 {
		case 1: // advance_loc
			good = move(low)
		case 2: // offset
			s.set(low, offset(int64(min(c.uleb(), math.MaxInt64))))
		case 3: // restore
			s.set(low, initial.get(low))
		default:
			good = f.more(op, &c, u, s, initial, &f.kept, move, offset, step)
		}
		if !good {
			return false
		}
	}
	return !c.bad
}

// more runs the instructions that have an opcode of their own (DWARF 5, section 7.24).
func (f *frameReader) more(op byte, c *cursor, u *common, s *frameState, initial frameState, kept *[]frameState, move func(uint64) bool, offset func(int64) saved,
	step func(*frameState, uint64, bool) bool) bool {
	signed := func() int64 { return int64(min(c.uleb(), math.MaxInt64)) }
	switch op {
	case 0x00: // nop
	case 0x01: // set_loc
		to := c.pointer(u.encoding, f.addr)
		return step != nil && !c.bad && step(s, to, true)
	case 0x02: // advance_loc1
		return move(c.fixed(1))
	case 0x03: // advance_loc2
		return move(c.fixed(2))
	case 0x04: // advance_loc4
		return move(c.fixed(4))
	case 0x05: // offset_extended
		r := c.uleb()
		s.set(r, offset(signed()))
	case 0x06: // restore_extended
		r := c.uleb()
		s.set(r, initial.get(r))
	case 0x07: // undefined
		s.set(c.uleb(), saved{how: savedUndefined})
	case 0x08: // same_value
		s.set(c.uleb(), saved{})
	case 0x09: // register: in another one
		s.set(c.uleb(), saved{how: savedOther})
		c.uleb()
	case 0x0a: // remember_state
		if len(*kept) == maxUnwindStates {
			return false
		}
		*kept = append(*kept, *s)
	case 0x0b: // restore_state
		if len(*kept) == 0 {
			return false
		}
		*s = (*kept)[len(*kept)-1]
		*kept = (*kept)[:len(*kept)-1]
	case 0x0c: // def_cfa
		r := c.uleb()
		s.base(r, signed())
	case 0x0d: // def_cfa_register
		s.base(c.uleb(), int64(s.off))
	case 0x0e: // def_cfa_offset
		s.move(signed())
	case 0x0f: // def_cfa_expression
		s.cfaFrom(c.block())
	case 0x10: // expression
		r := c.uleb()
		s.set(r, savedFrom(c.block()))
	case 0x11: // offset_extended_sf
		r := c.uleb()
		s.set(r, offset(c.sleb()))
	case 0x12: // def_cfa_sf
		r := c.uleb()
		s.base(r, scaled(c.sleb(), u.data))
	case 0x13: // def_cfa_offset_sf
		s.move(scaled(c.sleb(), u.data))
	case 0x14, 0x15: // val_offset, val_offset_sf: the register is an address, and stands nowhere
		s.set(c.uleb(), saved{how: savedOther})
		c.uleb()
	case 0x16: // val_expression
		s.set(c.uleb(), saved{how: savedOther})
		c.block()
	case 0x2d: // GNU_window_save, of another machine
		return false
	case 0x2e: // GNU_args_size
		c.uleb()
	case 0x2f: // GNU_negative_offset_extended
		r := c.uleb()
		s.set(r, offset(-signed()))
	default:
		return false
	}
	return true
}

// scaled is a product, or what fits nowhere.
func scaled(a, b int64) int64 {
	if a != int64(int32(a)) || b != int64(int32(b)) {
		return math.MaxInt64
	}
	return a * b
}

func (s *frameState) get(register uint64) saved {
	switch register {
	case dwarfBP:
		return s.bp
	case dwarfPC:
		return s.pc
	}
	return saved{}
}

func (s *frameState) set(register uint64, to saved) {
	switch register {
	case dwarfBP:
		s.bp = to
	case dwarfPC:
		s.pc = to
	}
}

// base makes the CFA a register and an offset.
func (s *frameState) base(register uint64, off int64) {
	switch register {
	case dwarfSP:
		s.cfa = CFASP
	case dwarfBP:
		s.cfa = CFABP
	default:
		s.cfa = CFAOther // other registers are not followed up the stack
	}
	s.move(off)
}

// move gives the CFA another offset.
func (s *frameState) move(off int64) {
	if off != int64(int32(off)) {
		s.cfa, off = CFAOther, 0
	}
	s.off = int32(off)
}
