package symbol

import (
	"encoding/binary"

	"culprit/symbol/unwind"
)

// A stackState is where the frame of a function is at one of its instructions, as far as the
// instructions before it show. Distances are in bytes from the canonical frame address (CFA)
// downwards: after `push %rbp; mov %rsp,%rbp` sp, fp and bp are 16.
type stackState struct {
	sp int32 // of the stack pointer; 0: not known; noCaller: the function has none
	fp int32 // of the frame pointer, where it points into this frame; 0: it does not
	// of where the caller's frame pointer is saved; 0: it is in its register; bpLost: not known
	bp int32
}

const (
	bpLost   = -1
	noCaller = -1
	// mostFrame is the largest frame that is followed.
	mostFrame = 1 << 24
)

// atEntry is the state at the first instruction of a function: the return address is on the stack.
//
// table: never changed
var atEntry = stackState{sp: 8}

// rule returns how to find the caller; the zero rule: unknown.
func (s stackState) rule() unwind.Rule {
	r := unwind.Rule{}
	switch {
	case s.sp == noCaller:
		return unwind.Rule{CFA: unwind.CFAEnd}
	case s.fp > 0:
		r = unwind.Rule{CFA: unwind.CFABP, Offset: s.fp}
	case s.sp > 0:
		r = unwind.Rule{CFA: unwind.CFASP, Offset: s.sp}
	default:
		return r
	}
	switch {
	case s.bp > 0:
		r.BP, r.BPOffset = unwind.BPAtCFA, -s.bp
	case s.bp == bpLost:
		r.BP = unwind.BPLost
	}
	return r
}

// atProgram is the state at the first instruction of a program, whose function has no caller.
//
// table: never changed
var atProgram = stackState{sp: noCaller, bp: bpLost}

// merge returns what two states have in common.
func (s stackState) merge(o stackState) stackState {
	if s.sp != o.sp {
		s.sp = 0
	}
	if s.fp != o.fp {
		s.fp = 0
	}
	if s.bp != o.bp {
		s.bp = bpLost
	}
	return s
}

// move lets the stack grow by n bytes.
func (s *stackState) move(n int64) {
	if s.sp <= 0 {
		return
	}
	if n += int64(s.sp); n < 8 || n > mostFrame {
		n = 0
	}
	s.sp = int32(n)
}

// setBP applies a write to the frame pointer. fp is its new distance; 0: unknown.
func (s *stackState) setBP(fp int32) {
	s.fp = fp
	if s.bp == 0 {
		s.bp = bpLost
	}
}

// loadBP applies a load of the frame pointer from a distance below the CFA.
func (s *stackState) loadBP(from int32) {
	s.fp = 0
	if from != 0 && from == s.bp {
		s.bp = 0
	} else {
		s.bp = bpLost
	}
}

// A flowKind is where the processor continues after an instruction.
type flowKind uint8

const (
	flowNext     flowKind = iota
	flowBranch            // next, or at the target
	flowJump              // at the target
	flowCall              // next; a function begins at the target
	flowIndirect          // at an unknown place
	flowEnd               // nowhere in the function
)

// A flow is where the processor continues, with the target relative to the end of the instruction.
type flow struct {
	kind   flowKind
	target int64
	called bool // flowCall: the target is known
}

// Numbers of registers.
const (
	regSP = 4
	regBP = 5
)

// operands are the first bytes of an instruction of x86-64: prefixes, opcode and ModRM.
type operands struct {
	rex    byte
	op     byte // of the second table where two
	two    bool
	at     int // behind the opcode
	modRM  byte
	length int
}

// operandsOf splits an instruction of length bytes; !ok: its opcode table has no instruction that
// changes the stack, as that of AVX.
func operandsOf(code []byte, length int) (o operands, ok bool) {
	o.length = length
	i := 0
	for ; i < length; i++ {
		switch code[i] {
		case 0x66, 0x67, 0xf2, 0xf3, 0xf0, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65:
			continue
		}
		break
	}
	if i < length && code[i]&0xf0 == 0x40 {
		o.rex = code[i]
		i++
	}
	if i >= length {
		return o, false
	}
	o.op = code[i]
	i++
	switch o.op {
	case 0xc4, 0xc5, 0x62:
		return o, false
	case 0x8f:
		if i < length && code[i]&31 >= 8 {
			return o, false
		}
	case 0x0f:
		if i >= length {
			return o, false
		}
		o.two, o.op = true, code[i]
		i++
		if o.op == 0x38 || o.op == 0x3a {
			return o, false
		}
	}
	o.at = i
	if i < length {
		o.modRM = code[i]
	}
	return o, true
}

func (o *operands) wide() bool     { return o.rex&8 != 0 }
func (o *operands) register() bool { return o.modRM >= 0xc0 }

// reg and rm return the two registers; 8 and more are those that came with 64 bits.
func (o *operands) reg() int { return int(o.modRM>>3&7) | int(o.rex&4)<<1 }
func (o *operands) rm() int  { return int(o.modRM&7) | int(o.rex&1)<<3 }

// memory returns the base register and distance of an address; !ok: another kind of address.
func (o *operands) memory(code []byte) (base int, off int64, ok bool) {
	at := o.at + 1
	base = o.rm()
	if o.modRM&7 == 4 {
		if at >= o.length || code[at] != 0x24 || o.rex&3 != 0 { // %rsp without an index
			return 0, 0, false
		}
		base = regSP
		at++
	}
	switch o.modRM >> 6 {
	case 0:
		return base, 0, base == regSP
	case 1:
		if at < o.length {
			return base, int64(int8(code[at])), true
		}
	case 2:
		if at+4 <= o.length {
			return base, int64(int32(binary.LittleEndian.Uint32(code[at:]))), true
		}
	}
	return 0, 0, false
}

// immediate returns the number of size bytes at the end of the instruction.
func (o *operands) immediate(code []byte, size int) int64 {
	b := code[o.length-size : o.length]
	if size == 1 {
		return int64(int8(b[0]))
	}
	return int64(int32(binary.LittleEndian.Uint32(b)))
}

// step applies the instruction at the start of code, which has n bytes.
func (s *stackState) step(code []byte, n int) flow {
	before := s.sp
	f := s.apply(code, n)
	if before == noCaller {
		*s = atProgram
	}
	return f
}

// apply is step for a function with a caller.
func (s *stackState) apply(code []byte, n int) flow {
	o, ok := operandsOf(code, n)
	if !ok {
		return flow{}
	}
	if o.two {
		return s.stepTwo(&o, code)
	}
	switch op := o.op; {
	case op >= 0x50 && op < 0x58:
		s.move(8)
		if op == 0x50+regBP && o.rex&1 == 0 && s.bp == 0 {
			s.bp = s.sp
			if s.sp == 0 {
				s.bp = bpLost
			}
		}
	case op >= 0x58 && op < 0x60:
		from := s.sp
		s.move(-8)
		switch {
		case op == 0x58+regBP && o.rex&1 == 0:
			s.loadBP(from)
		case op == 0x58+regSP && o.rex&1 == 0:
			s.sp = 0
		}
	case op == 0x68, op == 0x6a, op == 0x9c:
		s.move(8)
	case op == 0x9d:
		s.move(-8)
	case op == 0x8f:
		s.move(-8)
		s.written(&o, o.register(), o.rm())
	case op == 0xc9: // leave
		at := s.fp
		s.sp = at
		s.move(-8)
		s.loadBP(at)
	case op == 0xc8: // enter
		s.sp = 0
		s.setBP(0)
	case op == 0xff:
		return s.stepFF(&o)
	case op >= 0x70 && op < 0x80, op >= 0xe0 && op < 0xe4:
		return flow{kind: flowBranch, target: o.immediate(code, 1)}
	case op == 0xeb:
		return flow{kind: flowJump, target: o.immediate(code, 1)}
	case op == 0xe9:
		return flow{kind: flowJump, target: o.immediate(code, 4)}
	case op == 0xe8:
		target := o.immediate(code, 4)
		if target == 0 { // it reads its own address
			s.move(8)
			return flow{}
		}
		return flow{kind: flowCall, target: target, called: true}
	case op == 0xc2, op == 0xc3, op == 0xca, op == 0xcb, op == 0xcc, op == 0xcf, op == 0xf4:
		return flow{kind: flowEnd}
	default:
		s.stepMove(&o, code)
	}
	return flow{}
}

// stepTwo applies an instruction of the second table of opcodes.
func (s *stackState) stepTwo(o *operands, code []byte) flow {
	switch op := o.op; {
	case op >= 0x80 && op < 0x90:
		return flow{kind: flowBranch, target: o.immediate(code, 4)}
	case op == 0x0b, op == 0xb9, op == 0xff: // ud2, ud1, ud0
		return flow{kind: flowEnd}
	case op == 0xa0, op == 0xa8: // push %fs
		s.move(8)
	case op == 0xa1, op == 0xa9:
		s.move(-8)
	case op >= 0x40 && op < 0x50, op == 0xaf, op >= 0xb6 && op < 0xb8, op >= 0xbc && op < 0xc0:
		s.written(o, true, o.reg())
	case op == 0xb0, op == 0xb1, op == 0xa4, op == 0xa5, op == 0xac, op == 0xad, op >= 0x90 &&
		op < 0xa0:
		s.written(o, o.register(), o.rm())
	case op == 0xc0, op == 0xc1:
		s.written(o, o.register(), o.rm())
		s.written(o, true, o.reg())
	case op >= 0xc8 && op < 0xd0:
		s.written(o, true, int(op-0xc8)|int(o.rex&1)<<3)
	}
	return flow{}
}

// stepFF applies an instruction of the group of opcode 0xff.
func (s *stackState) stepFF(o *operands) flow {
	switch o.modRM >> 3 & 7 {
	case 0, 1:
		s.written(o, o.register(), o.rm())
	case 2, 3:
		return flow{kind: flowCall}
	case 4, 5:
		return flow{kind: flowIndirect}
	case 6:
		s.move(8)
	}
	return flow{}
}

// written handles an instruction that writes a register in a way that is not followed, if does is
// set.
func (s *stackState) written(o *operands, does bool, register int) {
	switch {
	case !does:
	case register == regSP:
		s.sp = 0
	case register == regBP:
		s.setBP(0)
	}
}

// stepMove applies an instruction that only computes.
func (s *stackState) stepMove(o *operands, code []byte) {
	switch op := o.op; {
	case op == 0x81 || op == 0x83:
		kind, size := o.modRM>>3&7, 4
		if op == 0x83 {
			size = 1
		} else if o.rex&8 == 0 && code[0] == 0x66 {
			size = 2
		}
		switch {
		case kind == 7: // compare
		case o.register() && o.rm() == regSP && o.wide() && kind == 5:
			s.move(o.immediate(code, size))
		case o.register() && o.rm() == regSP && o.wide() && kind == 0:
			s.move(-o.immediate(code, size))
		default:
			s.written(o, o.register(), o.rm())
		}
	case op == 0x8d:
		s.stepLea(o, code)
	case op == 0x89 && o.wide() && !o.register() && o.reg() == regBP:
		if base, off, ok := o.memory(code); ok && base == regSP && s.bp == 0 && s.sp > 0 &&
			int64(s.sp)-off >= 16 {
			s.bp = int32(int64(s.sp) - off)
		}
	case op == 0x8b && o.wide() && !o.register() && o.reg() == regBP:
		from := int32(0)
		if base, off, ok := o.memory(code); ok && base == regSP && s.sp > 0 {
			from = int32(int64(s.sp) - off)
		} else if ok && base == regBP && s.fp > 0 {
			from = int32(int64(s.fp) - off)
		}
		s.loadBP(from)
	case (op == 0x89 || op == 0x8b) && o.wide() && o.register():
		to, from := o.rm(), o.reg()
		if op == 0x8b {
			to, from = from, to
		}
		switch {
		case to == regBP && from == regSP:
			s.setBP(s.sp)
		case to == regSP && from == regBP:
			s.sp = s.fp
		default:
			s.written(o, true, to)
		}
	default:
		s.stepOther(o)
	}
}

// stepLea applies lea.
func (s *stackState) stepLea(o *operands, code []byte) {
	to := o.reg()
	if to != regSP && to != regBP {
		return
	}
	at := int64(0)
	if base, off, ok := o.memory(code); ok && o.wide() {
		switch {
		case base == regSP && s.sp > 0:
			at = int64(s.sp) - off
		case base == regBP && s.fp > 0:
			at = int64(s.fp) - off
		}
	}
	if at < 8 || at > mostFrame {
		at = 0
	}
	if to == regSP {
		s.sp = int32(at)
	} else {
		s.setBP(int32(at))
	}
}

// stepOther handles an instruction that may write a register; its value is not followed then.
func (s *stackState) stepOther(o *operands) {
	switch op := o.op; {
	case op < 0x38 && op&7 < 2, op == 0x88, op == 0x89, op == 0x80, op == 0xc0, op == 0xc1,
		op >= 0xd0 && op < 0xd4, op == 0xc6, op == 0xc7, op == 0xfe:
		s.written(o, o.register(), o.rm())
	case op < 0x38 && op&7 < 4, op == 0x8a, op == 0x8b, op == 0x63, op == 0x69, op == 0x6b:
		s.written(o, true, o.reg())
	case op == 0x86, op == 0x87:
		s.written(o, o.register(), o.rm())
		s.written(o, true, o.reg())
	case op >= 0xb8 && op < 0xc0, op >= 0xb0 && op < 0xb8, op >= 0x91 && op < 0x98:
		s.written(o, true, int(op&7)|int(o.rex&1)<<3)
	case op == 0xf6 || op == 0xf7:
		if kind := o.modRM >> 3 & 7; kind == 2 || kind == 3 {
			s.written(o, o.register(), o.rm())
		}
	}
}
