package gen

import (
	"slices"

	"github.com/cilium/ebpf/asm"
)

// A jump of BPF reaches 32,767 instructions (16 bits). A longer one is split by islands, which are
// jumps between other instructions that the normal flow skips:
//
//	    ...
//	    if r0 == 0 goto island1
//	    ...
//	    goto over
//	island1: goto island2 // or the target of the jump
//	over: ...
const (
	islandReach   = 20000 // the longest jump without islands; they make it longer
	islandSpacing = 6000  // distance between possible islands
)

// An island is a group of jumps before an instruction.
type island struct {
	before int // index
	jumps  []islandJump
}

// An islandJump jumps to the label to, or to the jump for it in another island.
type islandJump struct {
	at, to, next label
}

// islands inserts islands for jumps that are too long.
func (e *emitter) islands() {
	offset := e.offsets()
	var all []*island
	for i, last := 0, 0; i < len(e.ins); i++ {
		if offset[i]-last >= islandSpacing {
			all = append(all, &island{before: i})
			last = offset[i]
		}
	}
	if len(all) == 0 {
		return
	}
	var route func(from int, to label) label
	route = func(from int, to label) label {
		target := offset[e.labels[to]]
		if max(target-from, from-target) <= islandReach {
			return to
		}
		var by *island // the farthest one within reach
		for _, s := range all {
			at := offset[s.before]
			if forward := target > from; forward && at > from && at <= from+islandReach ||
				!forward && by == nil && at < from && at >= from-islandReach {
				by = s
			}
		}
		if by == nil {
			return to
		}
		for _, j := range by.jumps {
			if j.to == to {
				return j.at
			}
		}
		j := islandJump{at: e.label(), to: to}
		n := len(by.jumps)
		by.jumps = append(by.jumps, j)
		by.jumps[n].next = route(offset[by.before], to)
		return j.at
	}
	for i, f := range e.fixes {
		if !e.ins[f.ins].IsFunctionReference() {
			e.fixes[i].label = route(offset[f.ins], f.label)
		}
	}
	all = slices.DeleteFunc(all, func(s *island) bool { return len(s.jumps) == 0 })
	if len(all) > 0 {
		e.insert(all)
	}
}

// offsets returns the offset of each instruction in the verifier's counting: a 64-bit load counts
// as two.
func (e *emitter) offsets() []int {
	offset := make([]int, len(e.ins)+1)
	for i := range e.ins {
		offset[i+1] = offset[i] + int(e.ins[i].Width())
	}
	return offset
}

// leaves reports whether an instruction never continues with the next one.
func leaves(op asm.OpCode) bool {
	return op.Class() == asm.JumpClass && (op.JumpOp() == asm.Ja || op.JumpOp() == asm.Exit)
}

// insert inserts islands, sorted, into the instructions.
func (e *emitter) insert(all []*island) {
	moved := make([]int, len(e.ins)+1) // the new index by the old one
	var ins asm.Instructions
	var fixes []fix
	jump := asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja)}
	add := func(to label) {
		fixes = append(fixes, fix{len(ins), to})
		ins = append(ins, jump)
	}
	placed := map[label]int{} // of labels created here
	for i := range len(e.ins) + 1 {
		if len(all) > 0 && all[0].before == i {
			over := e.label()
			if i > 0 && !leaves(e.ins[i-1].OpCode) { // otherwise nothing falls through to it
				add(over)
			}
			for _, j := range all[0].jumps {
				placed[j.at] = len(ins)
				add(j.next)
			}
			placed[over] = len(ins)
			all = all[1:]
		}
		moved[i] = len(ins)
		if i < len(e.ins) {
			ins = append(ins, e.ins[i])
		}
	}
	for i := range e.fixes {
		e.fixes[i].ins = moved[e.fixes[i].ins]
	}
	for l, at := range e.labels {
		if to, ok := placed[label(l)]; ok {
			e.labels[l] = to
		} else if at >= 0 {
			e.labels[l] = moved[at]
		}
	}
	for i := range e.places {
		e.places[i].First = moved[e.places[i].First]
	}
	e.ins, e.fixes = ins, append(e.fixes, fixes...)
}
