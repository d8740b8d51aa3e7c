package symbol

import (
	"bytes"
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
	maxUnwindParts  = 1 << 20 // of a section without a header
	maxUnwindCommon = 1 << 12 // kept at once
	maxUnwindStates = 64      // remembered within one another
	unwindPages     = 16      // of a section, in memory at once
)

var errUnwind = errors.New("malformed unwind table")

// The registers of x86-64 by their numbers in DWARF (System V ABI, AMD64 supplement).
const (
	dwarfBP = 6
	dwarfSP = 7
	dwarfPC = 16
)

// A saved is where a register of the caller is: one of DWARF's register rules.
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

// A frameState is the state of DWARF's instructions, as far as it is needed.
type frameState struct {
	cfa    CFARule
	off    int32
	plt    int32
	bp, pc saved
}

// rule returns the rule of a state.
func (s *frameState) rule() UnwindRule {
	switch {
	case s.pc.how == savedUndefined:
		return UnwindRule{CFA: CFAEnd}
	case s.cfa == CFAAtSP && s.off == SignalSP && s.pc == saved{savedAtSP, SignalPC} &&
		s.bp == saved{savedAtSP, SignalBP}:
		return UnwindRule{CFA: CFASignal}
	case s.pc != saved{savedAtCFA, -8} || s.cfa == CFANone || s.cfa == CFAPLT &&
		s.bp.how != savedNot:
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

// A common is a CIE: what several functions share.
type common struct {
	code, data int64 // factors
	encoding   byte  // of pointers
	augmented  bool
	start      frameState
}

// A described is an FDE: how to unwind one range of code. Its instructions are valid until another
// one is read.
type described struct {
	from, to uint32
	steps    cursor
	of       *common
}

// A frameReader reads a section by pages and passes on its rows.
type frameReader struct {
	w      *window
	addr   uint64 // where the section is loaded
	debug  bool   // it is .debug_frame, which says a few things otherwise
	give   func(UnwindRow) error
	rules  []UnwindRule
	number map[UnwindRule]uint16
	recent [256]recentRule
	kept   []frameState       // buffer of remembered states
	common map[uint64]*common // by place; nil: can't be read
}

// A framePart is an FDE: the start of its code, and its offset in the section.
type framePart struct{ from, at uint32 }

func newFrameReader(w *window, addr uint64, debug bool, give func(UnwindRow) error) *frameReader {
	return &frameReader{w: w, addr: addr, debug: debug, give: give, rules: []UnwindRule{{}},
		number: map[UnwindRule]uint16{{}: 0}, common: map[uint64]*common{}}
}

// parseUnwind parses the bytes of .eh_frame, loaded at addr, or of .debug_frame. With an error,
// what came before it counts.
func parseUnwind(b []byte, addr uint64, debug bool) (*UnwindTable, error) {
	w := newWindow(unwindPages)
	w.over(bytes.NewReader(b), 0, uint64(len(b)), nil)
	t := &UnwindTable{}
	f := newFrameReader(w, addr, debug, func(r UnwindRow) error {
		t.Rows = append(t.Rows, r)
		return nil
	})
	err := f.read(nil)
	t.Rules = f.rules
	return t, err
}

// read passes on the rows of the section in the order of addresses. header is .eh_frame_hdr, which
// has that order; nil: the section is read twice. With an error other than ErrTooLong, what came
// before it counts.
func (f *frameReader) read(header *frameHeader) error {
	if header != nil {
		return f.order(header.parts)
	}
	all, err := f.find()
	slices.SortStableFunc(all, func(a, b framePart) int { return cmp.Compare(a.from, b.from) })
	if e := f.order(slices.Values(all)); e != nil {
		return e
	}
	return err
}

// find finds the FDEs of the section, in its order.
func (f *frameReader) find() (parts []framePart, err error) {
	for at := uint64(0); at+4 <= f.w.size; {
		c, next, ok := f.entry(at)
		if !ok {
			return parts, errUnwind
		}
		if c.left() == 0 {
			if !f.debug {
				return parts, nil // the terminator
			}
			at = next
			continue
		}
		place := at
		at = next
		d, ok, err := f.describe(c)
		if err != nil {
			return parts, err
		}
		if ok {
			if len(parts) == maxUnwindParts {
				return nil, ErrTooLong
			}
			parts = append(parts, framePart{d.from, uint32(place)})
		}
	}
	return parts, nil
}

// refers interprets the word after the length of an entry: the entry is a CIE, or its CIE is at
// cie.
func (f *frameReader) refers(id uint64, place, width int) (isCommon bool, cie int) {
	if f.debug {
		return id == math.MaxUint32 && width == 4 || id == math.MaxUint64,
			int(min(id, math.MaxInt32))
	}
	if id > uint64(place) {
		return false, -1
	}
	return id == 0, place - int(id)
}

// entry returns the entry at an offset, after its length, and where the next one begins. It is
// valid until the next call.
func (f *frameReader) entry(at uint64) (c cursor, next uint64, ok bool) {
	b := f.w.bytes(at, 4)
	if b == nil {
		return c, 0, false
	}
	n, head, width := uint64(binary.LittleEndian.Uint32(b)), uint64(4), 4
	if n == math.MaxUint32 {
		if b = f.w.bytes(at, 12); b == nil {
			return c, 0, false
		}
		n, head = binary.LittleEndian.Uint64(b[4:]), 12
		if f.debug {
			width = 8
		}
	}
	if b = f.w.bytes(at+head, n); b == nil {
		return c, 0, false
	}
	return cursor{b: b, from: int(at + head), end: len(b), width: width}, at + head + n, true
}

// cie reads the CIE at an offset; nil: it is not understood. With fresh, what was read before is no
// longer valid.
func (f *frameReader) cie(at int) (u *common, fresh bool) {
	if u, ok := f.common[uint64(at)]; ok {
		return u, false
	}
	if len(f.common) >= maxUnwindCommon {
		clear(f.common)
	}
	u = nil
	if at >= 0 {
		u = f.readCommon(uint64(at))
	}
	f.common[uint64(at)] = u
	return u, true
}

func (f *frameReader) readCommon(at uint64) *common {
	c, _, ok := f.entry(at)
	if !ok || c.left() == 0 {
		return nil
	}
	id := c.fixed(c.width)
	if isCommon, _ := f.refers(id, int(at), c.width); !isCommon {
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

// describe reads an FDE; !ok: the entry is none, or is of no use.
func (f *frameReader) describe(c cursor) (d described, ok bool, err error) {
	place := c.from
	id := c.fixed(c.width)
	isCommon, cie := f.refers(id, place, c.width)
	if isCommon {
		return d, false, nil
	}
	u, fresh := f.cie(cie)
	if u == nil {
		return d, false, nil // of others more may be known
	}
	if fresh {
		b := f.w.bytes(uint64(c.from), uint64(c.end))
		if b == nil {
			return d, false, errUnwind
		}
		c.b = b
	}
	from := c.pointer(u.encoding, f.addr)
	// a length has the form of a pointer, and nothing to add
	size := c.pointer(u.encoding&0x0f, f.addr)
	if u.augmented {
		n := c.uleb()
		if n > uint64(c.left()) {
			return d, false, errUnwind
		}
		c.at += int(n)
	}
	if c.bad {
		return d, false, errUnwind
	}
	if from == 0 || size == 0 || from > math.MaxUint32 || size > math.MaxUint32 ||
		from+size > math.MaxUint32 {
		return d, false, nil // of code that the linker left out; or beyond what a row holds
	}
	return described{uint32(from), uint32(from + size), c, u}, true, nil
}

// rows appends the rows of a range of code to out.
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
	good := f.run(d.steps, d.of, &state, d.of.start,
		func(s *frameState, by uint64, absolute bool) bool {
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

// A recentRule is a state and the number of its rule.
type recentRule struct {
	of     frameState
	number uint16
	known  bool
}

// ruleOf returns the number of the rule of a state. Functions have few states, and nearly all share
// them.
func (f *frameReader) ruleOf(s *frameState) uint16 {
	h := uint32(s.cfa) ^ uint32(s.off)*0x9e3779b1 ^ uint32(s.bp.off)*0x85ebca6b ^ uint32(
		s.bp.how)<<5 ^ uint32(s.pc.off)*0xc2b2ae35 ^ uint32(s.plt)<<3
	r := &f.recent[h>>24]
	if !r.known || r.of != *s {
		*r = recentRule{*s, f.rule(s.rule()), true}
	}
	return r.number
}

// rule returns the number of a rule.
func (f *frameReader) rule(r UnwindRule) uint16 {
	n, ok := f.number[r]
	if !ok {
		if len(f.rules) == math.MaxUint16 {
			return f.rule(UnwindRule{CFA: CFAOther}) // which was among the first
		}
		if len(f.rules) == 1 && r.CFA != CFAOther {
			f.rule(UnwindRule{CFA: CFAOther})
		}
		n = uint16(len(f.rules))
		f.rules = append(f.rules, r)
		f.number[r] = n
	}
	return n
}

// run interprets DWARF's instructions. step is called before the address moves, with the distance
// or the target; nil: it must not move. It returns false at an instruction that is not understood
// or not valid.
func (f *frameReader) run(c cursor, u *common, s *frameState, initial frameState,
	step func(s *frameState, to uint64, absolute bool) bool) bool {
	f.kept = f.kept[:0]
	move := func(n uint64) bool {
		if step == nil || u.code < 0 || n > math.MaxUint32 || uint64(u.code) > math.MaxUint32 {
			return false
		}
		return step(s, n*uint64(u.code), false)
	}
	offset := func(factored int64) saved {
		v := factored * u.data
		if factored != int64(int32(factored)) || u.data != int64(int32(u.data)) ||
			v != int64(int32(v)) {
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

// more interprets the instructions with an opcode of their own (DWARF 5, section 7.24).
func (f *frameReader) more(op byte, c *cursor, u *common, s *frameState, initial frameState,
	kept *[]frameState, move func(uint64) bool, offset func(int64) saved,
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

// scaled returns a product; an overflow returns a number that fits nowhere.
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

// base sets the CFA to a register and an offset.
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

// move sets the offset of the CFA.
func (s *frameState) move(off int64) {
	if off != int64(int32(off)) {
		s.cfa, off = CFAOther, 0
	}
	s.off = int32(off)
}
