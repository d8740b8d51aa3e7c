// Package unwind reads tables that say where the caller of a function is: .eh_frame and
// .debug_frame of x86-64 (DWARF call frame information). It opens nothing. It parses what strangers
// wrote.
package unwind

import (
	"cmp"
	"slices"

	"culprit/symbol/interp"
)

// A Table contains, for each instruction of a file, how to find the caller: the interpreted
// .eh_frame. It is for x86-64 and the registers that a stack walk needs: stack pointer, frame
// pointer, return address. If its rows were passed to a Loader, it only identifies the file.
type Table struct {
	Owner uint32 // the user whose file it is; see symbol.IsBounded
	// Interpreter describes the interpreter in the file; nil: it has none.
	Interpreter interp.Layout
	Rules       []Rule // each once; the first is that of no rule
	Rows        []Row  // by PC; each holds up to the next one
}

// A Row is the rule by which the caller is found from PC on, an address of the file.
type Row struct {
	PC   uint32
	Rule uint16
}

// A Loader takes the rows of a table. read passes each row to its argument, in the order of
// addresses; a rule holds up to the next row. read ends with the first error, which the loader
// returns unless it has its own.
type Loader func(t *Table, read func(row func(pc uint32,
	rule Rule) error) error) error

// A Rule says where the caller's frame is. The canonical frame address (CFA) is the value of
// the stack pointer before the call; the return address is 8 bytes below it.
type Rule struct {
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
func (t *Table) Find(pc uint64) Rule {
	if t == nil || pc > 1<<32-1 {
		return Rule{}
	}
	i, ok := slices.BinarySearchFunc(t.Rows, uint32(pc),
		func(r Row, pc uint32) int { return cmp.Compare(r.PC, pc) })
	if !ok {
		i--
	}
	if i < 0 {
		return Rule{}
	}
	return t.Rules[t.Rows[i].Rule]
}
