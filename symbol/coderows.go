package symbol

import (
	"bytes"
	"encoding/binary"

	"culprit/symbol/instruction"
	"culprit/symbol/unwind"
)

// Code without an unwind table is read instruction by instruction: from where each of its functions
// begins, along its jumps, with what each instruction does to the stack pointer and the frame
// pointer. A place that two ways lead to has what both have in common. So the work is a few steps
// for each byte, whatever the code is.
//
//	leaf:  lea 1(%rdi),%eax    caller at SP
//	       ret                 the same
//	other: push %rbp           caller at SP
//	       mov %rsp,%rbp       caller at SP+8
//	       call leaf           caller at BP+8
//	       pop %rbp            caller at BP+8
//	       ret                 caller at SP

// A codeReader computes the stack states of the instructions of a piece of code.
type codeReader struct {
	text     []byte
	at       []uint16 // of each byte: the number of its state; stateNone, or stateInner
	states   []stackState
	number   map[stackState]uint16
	todo     []uint32
	starts   bits
	fixed    bits     // starts known by symbols or calls: no code falls through into them
	indirect bits     // jumps to an unknown target: through a table, or to another function
	called   []uint32 // targets of calls
	named    []uint32 // addresses that the code mentions: functions that are called by a pointer
	base     uint64   // address of the text
	whole    bool     // symbols name all functions
	steps    int      // instructions that were followed, again after each change of state
}

// bits is a set of offsets.
type bits []uint64

func (b bits) add(i uint32)      { b[i/64] |= 1 << (i % 64) }
func (b bits) has(i uint32) bool { return b[i/64]>>(i%64)&1 != 0 }

const (
	stateNone  = 0      // nothing leads there
	stateInner = 0xffff // within an instruction, or padding
	mostStates = 0xfff0
)

// readCode returns the states of a piece of code that is loaded at an address. Starts are where its
// functions begin, as far as symbols tell, and labels other places that have a symbol; whole:
// symbols tell all functions. entry is the address where the program begins.
func readCode(text []byte, base uint64, starts, labels []uint32, whole bool,
	entry uint64) *codeReader {
	words := (len(text) + 63) / 64
	r := &codeReader{text: text, base: base, at: make([]uint16, len(text)),
		states: make([]stackState, 1, 64), number: map[stackState]uint16{},
		starts: make(bits, words), fixed: make(bits, words), indirect: make(bits, words),
		whole: whole}
	r.numberOf(stackState{bp: bpLost})
	for _, s := range starts {
		if int(s) < len(text) {
			r.fixed.add(s)
		}
	}
	if at := entry - base; at < uint64(len(text)) {
		r.fixed.add(uint32(at))
		r.starts.add(uint32(at))
		r.reach(uint32(at), atProgram)
	}
	r.sweep()
	for _, s := range starts {
		r.begin(s)
	}
	r.follow()
	for _, s := range labels {
		r.begin(s)
		r.follow()
	}
	for _, s := range r.named {
		if r.at[s] == stateNone && ((base+uint64(s))%16 == 0 || beginsFunction(text[s:])) {
			r.begin(s)
			r.follow()
		}
	}
	r.fillHoles(true)
	r.fillHoles(false)
	return r
}

// sweep decodes the instructions in order, to find which functions are called.
func (r *codeReader) sweep() {
	for at := 0; at < len(r.text); {
		code := r.text[at:min(len(r.text), at+15)]
		n := instruction.LengthAMD64(code)
		if n == 0 {
			at++
			continue
		}
		at += n
		if n < 5 || code[n-5] != 0xe8 {
			continue
		}
		target := int64(at) + int64(int32(binary.LittleEndian.Uint32(code[n-4:])))
		if target >= 0 && target < int64(len(r.text)) &&
			((r.base+uint64(target))%16 == 0 || beginsFunction(r.text[target:])) {
			r.fixed.add(uint32(target))
		}
	}
}

// numberOf returns the number of a state.
func (r *codeReader) numberOf(s stackState) uint16 {
	n, ok := r.number[s]
	if !ok {
		if len(r.states) >= mostStates {
			return r.number[stackState{bp: bpLost}]
		}
		n = uint16(len(r.states))
		r.number[s], r.states = n, append(r.states, s)
	}
	return n
}

// begin starts a function at a place that nothing reaches yet.
func (r *codeReader) begin(at uint32) {
	if int(at) >= len(r.at) || r.at[at] != stateNone {
		return
	}
	r.starts.add(at)
	r.reach(at, atEntry)
}

// reach records that a place is reached with a state.
func (r *codeReader) reach(at uint32, s stackState) {
	switch old := r.at[at]; old {
	case stateInner: // of an instruction that was taken to begin elsewhere
		return
	case stateNone:
		r.at[at] = r.numberOf(s)
	default:
		n := r.numberOf(r.states[old].merge(s))
		if n == old {
			return
		}
		r.at[at] = n
	}
	r.todo = append(r.todo, at)
}

// follow follows all known paths, also into the functions that are called.
func (r *codeReader) follow() {
	for {
		for len(r.todo) > 0 {
			at := r.todo[len(r.todo)-1]
			r.todo = r.todo[:len(r.todo)-1]
			r.instruction(at)
		}
		if len(r.called) == 0 {
			return
		}
		at := r.called[len(r.called)-1]
		r.called = r.called[:len(r.called)-1]
		r.begin(at)
	}
}

// instruction decodes the instruction at a place and follows its successors.
func (r *codeReader) instruction(at uint32) {
	r.steps++
	code := r.text[at:min(len(r.text), int(at)+15)]
	n := instruction.LengthAMD64(code)
	if n == 0 {
		return
	}
	for i := range n - 1 {
		if p := &r.at[int(at)+1+i]; *p == stateNone {
			*p = stateInner
		}
	}
	s := r.states[r.at[at]]
	f := s.step(code, n)
	next := int64(at) + int64(n)
	target := next + f.target
	inside := target >= 0 && target < int64(len(r.text))
	switch f.kind {
	case flowBranch, flowJump:
		switch {
		case !inside:
		case !r.fixed.has(uint32(target)):
			r.reach(uint32(target), s)
		case r.at[target] == stateNone:
			r.called = append(r.called, uint32(target))
		}
	case flowCall:
		if f.called && inside && r.at[target] == stateNone {
			r.called = append(r.called, uint32(target))
		}
	case flowIndirect:
		r.indirect.add(at)
	case flowNext:
		r.mention(code[:n], next)
	}
	if (f.kind <= flowBranch || f.kind == flowCall) && next < int64(len(r.text)) &&
		!r.fixed.has(uint32(next)) {
		if f.kind == flowCall && !r.whole {
			s = r.afterCall(int(next), s)
		}
		r.reach(uint32(next), s)
	}
}

// afterCall returns the state behind a call, where symbols do not tell all functions: if the call
// does not return, another function may begin there.
func (r *codeReader) afterCall(at int, s stackState) stackState {
	to := at
	for to < len(r.text) {
		n := paddingAt(r.text[to:])
		if n == 0 {
			break
		}
		to += n
	}
	if to >= len(r.text) || (r.base+uint64(to))%16 != 0 {
		return s
	}
	if savesRegisters(r.text[to:]) {
		r.called = append(r.called, uint32(to))
		return stackState{bp: bpLost}
	}
	if to > at {
		return stackState{bp: bpLost}
	}
	return s
}

// mention records an address that an instruction contains: lea X(%rip),%reg or mov $X,%reg.
func (r *codeReader) mention(code []byte, next int64) {
	o, ok := operandsOf(code, len(code))
	if !ok || o.two || len(r.named) >= len(r.text)/4 {
		return
	}
	at := int64(-1)
	switch {
	case o.op == 0x8d && o.modRM&0xc7 == 5:
		at = next + o.immediate(code, 4)
	case o.op >= 0xb8 && o.op < 0xc0 && !o.wide() && len(code) >= 5, o.op == 0xc7 && o.register() &&
		len(code) >= 6:
		at = o.immediate(code, 4) - int64(r.base)
	}
	if at >= 0 && at < int64(len(r.text)) && r.at[at] == stateNone {
		r.named = append(r.named, uint32(at))
	}
}

// beginsFunction reports whether code begins as only functions do.
func beginsFunction(code []byte) bool {
	code, _ = bytes.CutPrefix(code, []byte{0xf3, 0x0f, 0x1e, 0xfa}) // endbr64
	return bytes.HasPrefix(code, []byte{0x55, 0x48, 0x89, 0xe5}) ||
		bytes.HasPrefix(code, []byte{0x55, 0x48, 0x8b, 0xec})
}

// savesRegisters reports whether code begins with an instruction that is rare except at the start
// of a function: endbr64, a push of a callee-saved register, or the allocation of a frame.
func savesRegisters(code []byte) bool {
	for _, head := range [...]string{"\xf3\x0f\x1e\xfa", "\x55", "\x53", "\x41\x54", "\x41\x55",
		"\x41\x56", "\x41\x57", "\x48\x83\xec", "\x48\x81\xec"} {
		if bytes.HasPrefix(code, []byte(head)) {
			return true
		}
	}
	return false
}

// fillHoles interprets code that nothing reaches: functions that are called by pointers only, or
// targets of jumps through tables, which have the state of the jump. Ambiguous code has no state.
// sure: only what begins as functions do.
func (r *codeReader) fillHoles(sure bool) {
	// of the function at hand: its jumps without a target, and their state
	jumps, state := 0, uint16(0)
	padded := false
	for at := 0; at < len(r.text); at++ {
		i := uint32(at)
		if r.starts.has(i) {
			jumps = 0
		}
		if r.indirect.has(i) {
			if jumps++; jumps == 1 {
				state = r.at[i]
			} else if state != r.at[i] {
				state = stateNone
			}
		}
		if r.at[i] != stateNone {
			padded = false
			continue
		}
		if n := paddingAt(r.text[at:]); n > 0 {
			for k := range min(n, len(r.text)-at) {
				if r.at[at+k] != stateNone {
					break
				}
				r.at[at+k] = stateInner
			}
			padded = true
			continue
		}
		if s, ok := r.holeState(i, sure, padded, jumps, state); ok {
			if s == atEntry && jumps == 0 {
				r.starts.add(i)
			}
			r.reach(i, s)
			r.follow()
			at-- // it is looked at again, as what it is now
			continue
		}
		at = r.passOver(at) - 1
	}
}

// holeState returns the state of the first instruction of a hole; !ok: unknown.
func (r *codeReader) holeState(at uint32, sure, padded bool, jumps int, state uint16) (s stackState,
	ok bool) {
	aligned := (r.base+uint64(at))%16 == 0
	switch {
	case beginsFunction(r.text[at:]) || aligned && savesRegisters(r.text[at:]):
		return atEntry, true
	case sure:
		return s, false
	case jumps == 0:
		return atEntry, aligned && !r.whole
	case state == stateNone || state == stateInner:
		return s, false
	}
	s = r.states[state]
	return s, s == atEntry || r.whole
}

// passOver returns the end of a sequence of instructions: one that does not continue, or code with
// a known state.
func (r *codeReader) passOver(at int) int {
	for at < len(r.text) && r.at[at] == stateNone {
		code := r.text[at:min(len(r.text), at+15)]
		n := instruction.LengthAMD64(code)
		if n == 0 {
			return at + 1
		}
		at += n
		var s stackState
		if f := s.step(code, n); f.kind == flowEnd || f.kind == flowJump || f.kind == flowIndirect {
			break
		}
	}
	return min(at, len(r.text))
}

// paddingAt returns how many bytes of padding code begins with; 0: none.
func paddingAt(code []byte) int {
	switch code[0] {
	case 0xcc, 0x00, 0x90:
		return 1
	}
	i := 0
	for i < len(code) && i < 12 && (code[i] == 0x66 || code[i] == 0x2e) {
		i++
	}
	if i < len(code) && i > 0 && code[i] == 0x90 {
		return i + 1
	}
	if i+2 < len(code) && code[i] == 0x0f && code[i+1] == 0x1f {
		return instruction.LengthAMD64(code[:min(len(code), 15)])
	}
	return 0
}

// rows calls row at each place where the rule changes. The zero rule: unknown.
func (r *codeReader) rows(row func(at uint32, rule unwind.Rule) error) error {
	last, begun := unwind.Rule{}, false
	for at, n := range r.at {
		rule := unwind.Rule{}
		switch n {
		case stateInner:
			continue
		case stateNone:
		default:
			rule = r.states[n].rule()
		}
		if begun && rule == last || !begun && rule == (unwind.Rule{}) {
			continue
		}
		last, begun = rule, true
		if err := row(uint32(at), rule); err != nil {
			return err
		}
	}
	return nil
}
