// Package ir is what a checked D program comes to, one step before instructions: clauses of simple steps over numbered
// registers, and where in memory everything lies. It knows no machine: lang/gen makes BPF of it, and an interpreter in the
// tests runs it, so that the two can be held against each other.
//
// What culprit's user space needs to read what the program leaves behind is here too: the layout of records, of keys and of
// values of aggregations.
package ir

import (
	"strconv"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/syntax"
)

// A Program is what all clauses share, and the clauses.
type Program struct {
	Source   *check.Program
	StrSize  int          // bytes of memory that a string has: strsize, made a multiple of 8
	StrMost  int          // most bytes of a string's text: strsize - 1
	Globals  int          // bytes of the globals
	Self     int          // bytes of what a thread has
	Scratch  int          // bytes of a firing: this->, temporaries, keys, records; zeroed are the first This bytes alone
	This     int          // bytes of this->, at the start of Scratch
	Alloca   Region       // of Scratch: what alloca and copyin hand out; it lives until the firing ends
	Literals []byte       // read-only; each literal begins at a multiple of 8 and is followed by zeroes up to the next
	Places   []VarStorage // of the variables, by check.Var.ID
	Tables   []AssocArray
	Aggs     []Agg // by check.Aggregation.ID
	Records  []Record
	Clauses  []*Func // by check.Clause.Index

	taken  int // in this->: u64, bytes of Alloca that this firing has handed out
	strtok int // in this->: u64, 1 + where to go on, 0: nowhere; and the string behind it
}

// A Region is a part of a memory.
type Region struct{ Off, Size int }

// A VarStorage is where a variable without keys lives; of one with keys: its table. A string has a u64 before its text, 0 or 1:
// whether it was ever given a value. One that was not is no string at all: it is less than the empty one, and using its
// text is a fault at the address 0.
//
// All strings in the script's memory have zeroes behind their end, as far as they have room. Steps that take a string may
// look at StrSize bytes from where it begins, and there are as many, for short ones too.
type VarStorage struct {
	Table int // -1: none
	Mem   Mem
}

// A AssocArray is an associative array: a hash map.
type AssocArray struct {
	Var   *check.Var
	Key   Tuple
	Value int // bytes
}

// A Tuple is several values behind one another, each at a multiple of its alignment. All bytes count in a key, so the gaps
// are zero, and so is what stands in a string behind its end.
//
//	| u64 or i64: 8 | u32: 4 | u16: 2 | u8: 1 | stack: 4 | bytes: their length, aligned to 8
//	| string: a multiple of 8 that the longest one which can come has room in, at most StrSize, aligned to 8
//	| symbol: u64 address; of a process: u64 address, u32 process, u32 0
//
// A tuple of self-> arrays begins with the thread's id (u32) and a zero u32; of the idle threads, which all have the id 0,
// with that and 1 + the CPU: Thread.
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

// An Agg is how an aggregation is kept: per CPU, by key.
//
//	Count     u64 count
//	Sum       i64 sum, u64 count
//	Min, Max  i64 value, u64 count      a count of 0: nothing yet
//	Avg       i64 sum, u64 count
//	Stddev    u64 count, i64 sum, u64 low and i64 high half of the sum of squares
//	Quantize, Lquantize, Llquantize
//	          u64 counts, one a bucket of lang/format's bucket functions; Sparse: the key is followed by the number of the
//	          bucket (u32) and a zero u32, and the value is one u64
type Agg struct {
	Agg     *check.Aggregation
	Key     Tuple
	Value   int            // bytes
	Buckets int            // of a distribution: how many there are
	Dist    format.Buckets // and which value counts into which
	Sparse  bool
	Marked  bool // no keys, but weights, which may add up to 0: before the counts stands a u64, how often something was added
}

// A Record is a group of actions that one clause performs together: the layout of what it writes for user space.
//
//	0   u64  time, ns of the monotonic clock
//	8   u32  number of the Record
//	12  u32  probe: check.Probe.ID
//	16  u32  CPU
//	20  u32  thread
//	24  ...  the fields
//
// The actions behind a Speculate belong to that speculation. What the clause writes in another record after it begins with the
// Speculate again.
type Record struct {
	Clause  int
	Actions []RecordAction
	Size    int // a multiple of 8
}

// RecordHeader is how many bytes stand before the fields of a record.
const RecordHeader = 24

// A RecordAction is an action and where its arguments are.
type RecordAction struct {
	Action *check.Record
	Fields []TupleField // one for each of Action.Args; Size 0: a constant, in the action; offsets from the record's start. Stack, UStack: the one of the stack
}

// FaultRecord is the number of the Record that tells of a fault. Behind the header:
//
//	24  u32  clause      28  u32  kind of fault: Fault
//	32  u32  from, and   36  u32  to: where in the text
//	40  u64  address or value
const FaultRecord = 0xffffffff

// Fault is why a clause was abandoned.
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

// Speculations is how many there may be at a time: -x nspec, 1 as in dtrace.
func (p *Program) Speculations() int {
	n, err := strconv.Atoi(p.Source.Options.All["nspec"])
	if err != nil || n < 1 {
		return 1
	}
	return min(n, 1024)
}

// Drop is a kind of loss that the kernel side counts; each has a u64 per CPU.
type Drop uint8

// The drops.
const (
	DropRecord  Drop = iota // the ring buffer was full
	DropAgg                 // an aggregation's map was full
	DropDynamic             // an associative array or a thread's variables had no room
	DropStack               // no room for another stack
	DropSpec                // a speculation was not to be had
	DropNested              // a probe fired within itself deeper than there is scratch memory for
	DropMissed              // the kernel left a firing out, as the program ran already: it is the kernel that counts these
	DropHeld                // a speculation held as much as it has room for: user space counts these
	DropLate                // a tick was later than is made up for: user space counts these
	DropCount
)

// A Reg is a register: 64 bits, as many as are needed, each given a value in exactly one place of the text of a Func but for
// those that join the branches of ?: and logic.
type Reg int32

// None stands where there is no register.
const None Reg = -1

// Base says from where a Mem counts.
type Base uint8

// The bases.
const (
	InScratch Base = iota
	InGlobals
	InSelf    // of the thread; a step that needs it and cannot have it counts DropDynamic: loads then give 0, stores nothing
	InLiteral // of Program.Literals
	InValue   // where Reg points: what Find or Make gave, never 0 there
)

// A Mem is a place in the script's memory; Off -1: none.
type Mem struct {
	Base Base
	Reg  Reg
	Off  int
}

// A Func is what a clause does. Blocks run from the first; what leaves it goes on with the next clause of the probe.
type Func struct {
	Clause *check.Clause
	Regs   int
	Blocks []*Block
}

// A Block is a row of steps; the last one, and only that, is a Jump, Branch, Fault or End. Blocks lead only forward: a step
// that must count in a loop is one step.
type Block struct{ Steps []Step }

// A Step is one thing to do. Which fields mean something is told by Op.
type Step struct {
	Op      Opcode
	Dst     Reg
	A, B, C Reg
	Imm     int64
	Size    int  // bytes
	Signed  bool // of what is loaded, compared, divided or shifted
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

// The conditions. Signed says how the orders are meant.
const (
	Eq Cond = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

// Opcode is what a step does.
type Opcode uint8

// The steps. [A] is what register A holds; memory steps do not fail, Read steps fault with FaultBadAddr at an address that
// is not there.
const (
	OpConst Opcode = iota // Dst = Imm
	OpMove                // Dst = A
	OpAdd                 // Dst = A + B; where B is None: A + Imm, and so on down to OpSar
	OpSub
	OpMul
	OpDiv // Signed; B is not 0: ir asks before. The smallest number by -1 gives itself
	OpMod // Signed
	OpAnd
	OpOr
	OpXor
	OpShl
	OpShr // Signed: sar. Counts are taken modulo 64 (or 32: ir masks)
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
	OpAddress // Dst = the address of Mem, as a number to compute with and to Read from

	OpRead    // Dst = Size bytes at the address A + Imm in Space, Signed. The fault tells A + Imm, and 0 where A is 0
	OpReadMem // Size bytes at Mem = those at the address A in Space; B: a number of bytes at most Size (None: Size), the rest 0
	OpReadStr // Mem (Size bytes, zeroes behind the end) = the string at A in Space, of at most Imm bytes, which are less than Size; Dst = its length
	OpPoke    // Size bytes at the address A + Imm = B; it must lie in this->, Program.Alloca or Globals, else FaultBadAddr

	OpBuiltin    // Dst = Which, N
	OpBuiltinStr // Mem = Which, a string, cut to Size - 1 bytes, zeroes up to Size
	OpStrCompare // Dst = -1, 0, 1: the string at Mem beside the one at From; they differ within Size bytes if at all. Cond Eq: any number but 0 will do for both others
	OpCall       // subroutine Sub: what it takes and gives stands in calls.go

	OpFind   // Dst = address of the value in table N of the key at Mem, 0: none
	OpMake   // the same, made with zeroes if need be; 0: no room, and DropDynamic was counted
	OpDelete // the key at Mem is taken out of table N

	OpAggregate // aggregation N, key at Mem, with room for 8 bytes behind it: the bucket, the CPU: value A (None: Imm; of count: none), weight B (None: 1)
	OpStack     // Dst = id of the stack of Space, of at most N frames; of User: the process is part of it; 0: DropStack was counted
	OpEmit      // record N, built at Mem (its header is filled in by gen), is written; full: DropRecord
	OpExit      // from here on only END fires; the status is in the record
	OpSpeculate // Dst = a speculation, 0: none to be had
	OpAct       // the action N (a check.ActionKind) that the kernel itself performs: Raise: signal A. Stop. Chill: A ns. Copyout: from A in Space to the process's B, C bytes, at most MostCopyout. Copyoutstr: the string From and its final 0 to the process's B, at most C bytes. What is not there is FaultBadAddr
	OpFault     // Fault, address A (None: Imm): the fault record is written, and the clause ends
	OpEnd       // the clause ends
)
