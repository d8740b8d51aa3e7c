package symbol

import (
	"cmp"
	"slices"
)

// An UnwindTable tells of each instruction of a file how its caller is found: what compilers write into .eh_frame, worked out. It
// is of x86-64, and of the registers that a walk up the stack needs: the stack pointer, the frame pointer, the place returned to. Of one whose rows
// were given to an UnwindLoader nothing is kept: it stands for the file.
type UnwindTable struct {
	Rules []UnwindRule // each once; the first is that of no rule
	Rows  []UnwindRow  // by PC; each holds up to the next one
}

// An UnwindRow says by which of the rules the caller is found from PC on, an address of the file's own.
type UnwindRow struct {
	PC   uint32
	Rule uint16
}

// An UnwindLoader takes the rows of a table. Read gives it each of them, in the order of addresses, with the rule that holds from there on up to the next one, and ends with
// the first error. What read returns is to be returned, unless the loader has an error of its own.
type UnwindLoader func(t *UnwindTable, read func(row func(pc uint32, rule UnwindRule) error) error) error

// An UnwindRule says where the caller's frame is. The canonical frame address (CFA) is what the stack pointer was before the call; the
// place returned to stands 8 bytes below it.
type UnwindRule struct {
	CFA      CFARule
	BP       BPRule
	Offset   int32
	BPOffset int32
}

// A CFARule is the way to the CFA.
type CFARule uint8

const (
	CFANone   CFARule = iota // nothing is said of these instructions
	CFAEnd                   // there is no caller
	CFASP                    // stack pointer + Offset
	CFABP                    // frame pointer + Offset
	CFAPLT                   // stack pointer + Offset, and 8 more in the last bytes of each 16, from byte BPOffset on
	CFAAtSP                  // what stands at stack pointer + Offset
	CFAAtBP                  // what stands at frame pointer + Offset
	CFASignal                // the kernel called a handler: it left all registers at the stack pointer
	CFAOther                 // said in a way that is not understood
)

// A BPRule is where the caller's frame pointer is.
type BPRule uint8

const (
	BPSame  BPRule = iota // where it was
	BPAtCFA               // saved at CFA + BPOffset
	BPAtBP                // saved at frame pointer + BPOffset
	BPLost                // not known
)

// Where the registers stand from the stack pointer on when a signal's handler returns: rt_sigframe of the kernel, which begins with a
// struct ucontext there.
const (
	SignalBP = 120
	SignalSP = 160
	SignalPC = 168
)

// Find gives the rule for an address of the file.
func (t *UnwindTable) Find(pc uint64) UnwindRule {
	if t == nil || pc > 1<<32-1 {
		return UnwindRule{}
	}
	i, ok := slices.BinarySearchFunc(t.Rows, uint32(pc), func(r UnwindRow, pc uint32) int { return cmp.Compare(r.PC, pc) })
	if !ok {
		i--
	}
	if i < 0 {
		return UnwindRule{}
	}
	return t.Rules[t.Rows[i].Rule]
}
