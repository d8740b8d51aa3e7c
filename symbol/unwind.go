package symbol

import (
	"cmp"
	"slices"

	"culprit/symbol/interp"
)

// An UnwindTable contains, for each instruction of a file, how to find the caller: the interpreted
// .eh_frame. It is for x86-64 and the registers that a stack walk needs: stack pointer, frame
// pointer, return address. If its rows were passed to an UnwindLoader, it only identifies the file.
type UnwindTable struct {
	Owner uint32 // the user whose file it is; see payerOf
	// Interpreter describes the interpreter in the file; nil: it has none.
	Interpreter interp.Layout
	Rules       []UnwindRule // each once; the first is that of no rule
	Rows        []UnwindRow  // by PC; each holds up to the next one
}

// An UnwindRow is the rule by which the caller is found from PC on, an address of the file.
type UnwindRow struct {
	PC   uint32
	Rule uint16
}

// An UnwindLoader takes the rows of a table. read passes each row to its argument, in the order of
// addresses; a rule holds up to the next row. read ends with the first error, which the loader
// returns unless it has its own.
type UnwindLoader func(t *UnwindTable, read func(row func(pc uint32,
	rule UnwindRule) error) error) error

// An UnwindRule says where the caller's frame is. The canonical frame address (CFA) is the value of
// the stack pointer before the call; the return address is 8 bytes below it.
type UnwindRule struct {
	CFA      CFARule
	BP       BPRule
	Offset   int32
	BPOffset int32
}

// A CFARule is how to compute the CFA.
type CFARule uint8

const (
	CFANone CFARule = iota // nothing is said of these instructions
	CFAEnd                 // there is no caller
	CFASP                  // stack pointer + Offset
	CFABP                  // frame pointer + Offset
	// stack pointer + Offset, and 8 more in the last bytes of each 16, from byte BPOffset on
	CFAPLT
	CFAAtSP // what stands at stack pointer + Offset
	CFAAtBP // what stands at frame pointer + Offset
	// the kernel called a handler: it left all registers at the stack pointer
	CFASignal
	CFAOther // said in a way that is not understood
)

// A BPRule is where the caller's frame pointer is.
type BPRule uint8

const (
	BPSame  BPRule = iota // where it was
	BPAtCFA               // saved at CFA + BPOffset
	BPAtBP                // saved at frame pointer + BPOffset
	BPLost                // not known
)

// Where the registers stand from the stack pointer on when a signal's handler returns: rt_sigframe
// of the kernel, which begins with a struct ucontext there.
const (
	SignalBP = 120
	SignalSP = 160
	SignalPC = 168
)

// Find returns the rule for an address of the file.
func (t *UnwindTable) Find(pc uint64) UnwindRule {
	if t == nil || pc > 1<<32-1 {
		return UnwindRule{}
	}
	i, ok := slices.BinarySearchFunc(t.Rows, uint32(pc),
		func(r UnwindRow, pc uint32) int { return cmp.Compare(r.PC, pc) })
	if !ok {
		i--
	}
	if i < 0 {
		return UnwindRule{}
	}
	return t.Rules[t.Rows[i].Rule]
}
