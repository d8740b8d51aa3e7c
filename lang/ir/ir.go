// Package ir lowers a checked D program to its last form before instructions: clauses of simple
// steps on numbered registers, with all offsets in memory. It is independent of the machine:
// lang/gen generates BPF from it, and an interpreter in the tests runs it, so that the two can be
// compared.
//
// It also defines the layouts that user space reads: records, keys and values of aggregations.
package ir

import (
	"strconv"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/syntax"
)

// A Program is the clauses and everything that they share.
type Program struct {
	Source *check.Program
	// size in memory of a string in bytes: strsize rounded up to a multiple of 8
	StrSize int
	StrMost int // highest length of a string in bytes: strsize - 1
	Globals int // size of the globals in bytes
	Self    int // size of a thread's variables in bytes
	// size of a firing's memory in bytes: this->, temporaries, keys, records; only the first This
	// bytes are zeroed
	Scratch int
	This    int    // size of this-> in bytes, at the start of Scratch
	Alloca  Region // part of Scratch for alloca and copyin; valid until the firing ends
	// read-only; each literal begins at a multiple of 8 and is followed by zeroes up to the next
	Literals []byte
	Places   []VarStorage // of the variables, by check.Var.ID
	Tables   []AssocArray
	Aggs     []Agg // by check.Aggregation.ID
	Records  []Record
	Clauses  []*Func // by check.Clause.Index

	taken int // offset in this-> of a u64: bytes of Alloca that this firing has allocated
	// offset in this-> of a u64: 1 + the position where strtok continues, 0: none; followed by the
	// string
	strtok int
}

// A Region is a part of a memory.
type Region struct{ Off, Size int }

// A VarStorage is the location of a variable without keys, or the table of one with keys. A string
// has a u64 before its text, 0 or 1: whether it has been assigned. An unassigned string is NULL: it
// is less than the empty string, and using its text is a fault at the address 0.
//
// All strings in the script's memory are zero-filled after their end. Steps that take a string may
// read StrSize bytes from its start, which always exist.
type VarStorage struct {
	Table int // -1: none
	Mem   Mem
}

// An AssocArray is the table of an associative array: a hash map.
type AssocArray struct {
	Var   *check.Var
	Key   Tuple
	Value int // bytes
}

// A Tuple is several values in sequence, each at a multiple of its alignment. All bytes of a key
// are compared, so gaps are zero, and so are the bytes after a string's end.
//
//	| u64 or i64: 8 | u32: 4 | u16: 2 | u8: 1 | stack: 4 | bytes: their length, aligned to 8
//	| string: the longest possible, rounded up to a multiple of 8, at most StrSize, aligned to 8
//	| symbol: u64 address; of a process: u64 address, u32 process, u32 0
//
// A tuple of self-> arrays begins with Thread: the thread's id (u32) and a zero u32. The idle
// threads all have the id 0; they begin with 0 and 1 + the CPU.
type Tuple struct {
	Fields []TupleField
	Thread bool
	Size   int // a multiple of 8
}

// A TupleField is one value of a tuple.
type TupleField struct {
	Type   check.Type
	Offset int
	Size   int
}

// An Agg is the storage of an aggregation: per CPU, by key.
//
//	Count     u64 count
//	Sum       i64 sum, u64 count
//	Min, Max  i64 value, u64 count      a count of 0: no value yet
//	Avg       i64 sum, u64 count
//	Stddev    u64 count, i64 sum, u64 low and i64 high half of the sum of squares
//	Quantize, Lquantize, Llquantize
//	          u64 counts, one per bucket of lang/format's bucket functions; Sparse: the key is
//	          followed by the number of the bucket (u32) and a zero u32, and the value is one u64
type Agg struct {
	Agg     *check.Aggregation
	Key     Tuple
	Value   int            // bytes
	Buckets int            // of a distribution: the number of its buckets
	Dist    format.Buckets // of a distribution: the bucket of each value
	Sparse  bool
	// no keys, but weights, which may add up to 0: a u64 before the counts contains the number of
	// additions
	Marked bool
}

// A Record is a group of actions that one clause performs together: the layout of its data for user
// space.
//
//	0   u64  time, ns of the monotonic clock
//	8   u32  number of the Record
//	12  u32  probe: check.Probe.ID
//	16  u32  CPU
//	20  u32  thread
//	24  ...  the fields
//
// The actions after a Speculate belong to that speculation. A further record of the clause begins
// with the Speculate again.
type Record struct {
	Clause  int
	Actions []RecordAction
	Size    int // a multiple of 8
}

// RecordHeader is the size of a record before its fields, in bytes.
const RecordHeader = 24

// A RecordAction is an action with the locations of its arguments.
type RecordAction struct {
	Action *check.Record
	// one per Action.Args; Size 0: a constant in the action; offsets from the start of the record.
	// For Stack and UStack: the stack
	Fields []TupleField
}

// FaultRecord is the number of the Record of a fault. After the header:
//
//	24  u32  clause      28  u32  kind of fault: Fault
//	32  u32  from, and   36  u32  to: the position in the text
//	40  u64  address or value
const FaultRecord = 0xffffffff

// Fault is the reason why a clause was aborted.
type Fault uint8

// The faults, numbered as in DTrace's ERROR probe.
const (
	FaultUnknown Fault = iota
	FaultBadAddr
	FaultBadAlign
	FaultIllOp
	FaultDivZero
	FaultNoScratch
	FaultKPriv
	FaultUPriv
	FaultTupOflow
	FaultBadStack
	FaultBadSize
	FaultBadIndex
)

// Speculations returns the highest number of simultaneous speculations: -x nspec, 1 as in dtrace.
func (p *Program) Speculations() int {
	n, err := strconv.Atoi(p.Source.Options.All["nspec"])
	if err != nil || n < 1 {
		return 1
	}
	return min(n, 1024)
}

// CountsCosts reports whether the clauses count how often and how long they run: -x cost.
func (p *Program) CountsCosts() bool {
	_, on := p.Source.Options.All["cost"]
	return on
}

// Drop is a kind of loss that the kernel side counts; each has a u64 per CPU.
type Drop uint8

// The drops.
const (
	DropRecord  Drop = iota // the ring buffer was full
	DropAgg                 // an aggregation's map was full
	DropDynamic             // an associative array or a thread's variables were full
	DropStack               // the map of stacks was full
	DropSpec                // no speculation was free
	DropNested              // a probe fired within itself deeper than the scratch memory allows
	// the kernel skipped a firing because the program was running; the kernel counts these
	DropMissed
	DropHeld // a speculation was full; user space counts these
	DropLate // a tick was too late to be repeated; user space counts these
	DropCount
)

// A Reg is a 64-bit register. There are as many as needed. Each is assigned at exactly one place of
// a Func, except those that join the branches of ?: and logic.
type Reg int32

// None is the absence of a register.
const None Reg = -1

// Base is the memory that a Mem refers to.
type Base uint8

// The bases.
const (
	InScratch Base = iota
	InGlobals
	// of the thread; when it can't be allocated, the step counts DropDynamic: loads return 0,
	// stores do nothing
	InSelf
	InLiteral // in Program.Literals
	InValue   // at the address in Reg: the result of Find or Make, never 0 here
)

// A Mem is a place in the script's memory; Off -1: none.
type Mem struct {
	Base Base
	Reg  Reg
	Off  int
}

// A Func is the code of a clause. It starts at the first block; at its end the next clause of the
// probe runs.
type Func struct {
	Clause *check.Clause
	Regs   int
	Blocks []*Block
}

// A Block is a sequence of steps. Its last step, and only that, is a Jump, Branch, Fault or End.
// Blocks jump only forward: a loop is a single step.
type Block struct{ Steps []Step }

// A Step is one operation. Op determines which fields are used.
type Step struct {
	Op      Opcode
	Dst     Reg
	A, B, C Reg
	Imm     int64
	Size    int  // bytes
	Signed  bool // the signedness of the value loaded, compared, divided or shifted
	Mem     Mem
	From    Mem
	From2   Mem
	Cond    Cond
	To      int // block
	Else    int
	N       int // table, aggregation, record, builtin's number, frames
	Which   check.BuiltinVar
	Sub     check.Subroutine
	Space   check.Space
	Fault   Fault
	At      syntax.Span
}

// Cond compares two registers.
type Cond uint8

// The conditions. Signed determines the meaning of the orders.
const (
	Eq Cond = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

// Opcode is the operation of a step.
type Opcode uint8

// The operations. A, B and C denote the contents of those registers. Memory steps do not fail; Read
// steps fault with FaultBadAddr at an invalid address.
const (
	OpConst Opcode = iota // Dst = Imm
	OpMove                // Dst = A
	OpAdd                 // Dst = A + B; if B is None: A + Imm; the same down to OpSar
	OpSub
	OpMul
	OpDiv // Signed; B is not 0: ir checks before. The lowest number divided by -1 is itself
	OpMod // Signed
	OpAnd
	OpOr
	OpXor
	OpShl
	OpShr // Signed: sar. Counts are modulo 64 (or 32: ir masks)
	OpNeg
	OpNot
	OpExtend // Dst = the lowest Size bytes of A, extended by Signed
	OpSet    // Dst = A Cond B (or Imm) ? 1 : 0
	OpJump   // To
	OpBranch // A Cond B (or Imm) ? To : Else

	OpLoad    // Dst = Size bytes at Mem, Signed
	OpStore   // Size bytes at Mem = A; None: Imm
	OpZero    // Size bytes at Mem = 0
	OpCopy    // Size bytes at Mem = those at From
	OpAddress // Dst = the address of Mem, for arithmetic and Read

	// Dst = Size bytes at the address A + Imm in Space, Signed. The fault's address is A + Imm, or
	// 0 when A is 0
	OpRead
	// Size bytes at Mem = those at the address A in Space; B: a number of bytes at most Size (None:
	// Size), the rest 0
	OpReadMem
	// Mem (Size bytes, zero-filled after the end) = the string at A in Space, of at most Imm bytes,
	// fewer than Size; Dst = its length
	OpReadStr
	// Size bytes at the address A + Imm = B; it must be in this->, Program.Alloca or Globals,
	// otherwise FaultBadAddr
	OpPoke

	OpBuiltin    // Dst = Which, N
	OpBuiltinStr // Mem = Which, a string, truncated to Size - 1 bytes, zero-filled up to Size
	// Dst = -1, 0, 1: compares the string at Mem with the one at From; Size bytes decide. With Cond
	// Eq the result is 0 or any other number
	OpStrCompare
	OpCall // subroutine Sub: its operands are in calls.go

	OpFind // Dst = address of the value in table N of the key at Mem, 0: none
	// the same, but adds a zero value if there is none; 0: the table is full, and DropDynamic was
	// counted
	OpMake
	OpDelete // removes the key at Mem from table N

	// aggregation N, key at Mem, followed by 8 free bytes for the bucket and the CPU: value A
	// (None: Imm; for count: none), weight B (None: 1)
	OpAggregate
	// Dst = id of the stack of Space, of at most N frames; for User the process is part of it; 0:
	// DropStack was counted
	OpStack
	OpEmit      // writes record N, built at Mem (gen fills its header in); buffer full: DropRecord
	OpExit      // from here on only END fires; the status is in the record
	OpSpeculate // Dst = a new speculation, 0: none free
	// the action N (a check.ActionKind), performed in the kernel. Raise: signal A. Stop. Chill: A
	// ns. Copyout: C bytes, at most MostCopyout, from A in Space to the process's address B.
	// Copyoutstr: the string From with its final 0 to the process's address B, at most C bytes. An
	// invalid address is FaultBadAddr
	OpAct
	OpRan   // the clause's predicate holds; only in programs with CountsCosts
	OpFault // Fault, address A (None: Imm): writes the fault record and ends the clause
	OpEnd   // the clause ends
)
