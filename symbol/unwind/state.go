package unwind

import "math"

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
func (s *frameState) rule() Rule {
	switch {
	case s.pc.how == savedUndefined:
		return Rule{CFA: CFAEnd}
	case s.cfa == CFAAtSP && s.off == SignalSP && s.pc == saved{savedAtSP, SignalPC} &&
		s.bp == saved{savedAtSP, SignalBP}:
		return Rule{CFA: CFASignal}
	case s.pc != saved{savedAtCFA, -8} || s.cfa == CFANone || s.cfa == CFAPLT &&
		s.bp.how != savedNot:
		return Rule{CFA: CFAOther}
	}
	r := Rule{CFA: s.cfa, Offset: s.off}
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
		return Rule{CFA: CFAOther}
	}
	return r
}

// run interprets DWARF's instructions. step is called before the address moves, with the distance
// or the target; nil: it must not move. It returns false at an instruction that is not understood
// or not valid.
func (f *Reader) run(c cursor, u *common, s *frameState, initial frameState,
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
func (f *Reader) more(op byte, c *cursor, u *common, s *frameState, initial frameState,
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
		if len(*kept) == mostStates {
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
