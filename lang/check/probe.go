package check

import (
	"github.com/cilium/ebpf/btf"
)

// Site is how a probe calls a program, and so the location of its arguments.
type Site uint8

// The sites.
const (
	// BEGIN, END, ERROR, tick: run by user space, as a raw tracepoint's program whose arguments are
	// those of D
	SiteRun           Site = iota
	SiteRawTracepoint      // args by number, not typed for the verifier
	SiteTracepointBTF      // args by number, typed for the verifier
	SiteSyscallEntry       // the raw tracepoint sys_enter: pt_regs and the number
	SiteSyscallReturn      // the raw tracepoint sys_exit
	// profile: arg0 is the kernel's program counter or 0, arg1 that of the process
	SitePerfEvent
	SiteKprobe    // pt_regs at a function's entry; kprobe.multi too
	SiteKretprobe // pt_regs at its return; arg1 is the return value
	SiteFentry    // args by number, typed for the verifier
	SiteFexit     // the same, followed by the return value
	SiteUprobe    // pt_regs of a process
	SiteUretprobe
	SiteTracepoint // the record of a classic tracepoint in tracefs
)

// CompatCalls is added to the numbers of system calls of 32-bit processes on a 64-bit kernel, to
// distinguish them from 64-bit ones.
const CompatCalls = 1024

// A Probe is a place where clauses can run.
type Probe struct {
	// as culprit trace -l prints it; from 1; BEGIN, END, ERROR are 1, 2, 3
	ID                               uint32
	Provider, Module, Function, Name string
	Site                             Site
	// distinguishes the probes of one program: a cookie, or the number of a system call
	Key uint64
	// for a system call that 32-bit processes can make: CompatCalls plus its number there; else 0
	Compat uint64
	// args[0], args[1] ...; nil: only arg0 ... exist. Use Arguments
	Args []Arg
	// why Args is nil although the kernel should have types; for the diagnostic
	ArgsWhy string
	// Learn, unless nil, returns Args and ArgsWhy. It reads types of the kernel, which is expensive
	// and which most programs don't need.
	Learn func() ([]Arg, string)
	// Operands, unless nil, are the locations of the site's arguments, for places in a process
	// other than a function's entry by the C ABI. Arguments without an operand are 0.
	Operands []Operand
	// Narrow: the process's words have 32 bits.
	Narrow bool
	// AtEntry: the site is the first instruction of a function, where the return address is still
	// where the call instruction put it.
	AtEntry bool
	// Also lists the same probe at places with other operands: each has a program of its own.
	Also []*Probe
	// Meaning, unless nil, derives the probe from another event of the kernel.
	Meaning *Meaning
}

// A Meaning defines a probe that is the same on every system by an event of this kernel: only some
// firings count, the thread meant may not be the current one, and args[] are computed.
type Meaning struct {
	Why   string // why the probe is not available, all else being empty; "": it is available
	Event string // the underlying tracepoint; "": none
	Names []Arg  // names of the site's arguments for the expressions below
	When  string // an expression of D: the probe fires when it is not 0; "": always
	// 1 + the index of the argument, at SiteTracepointBTF, that points to the thread meant:
	// curthread, pid, self-> ... refer to it; 0: the current thread
	Thread int
	Before string // clauses of D that run before those of a program that names the probe
	After  string // clauses that run after them
}

// An Operand is the location of an argument when a process probe fires: a register, memory, or a
// constant in the code. Registers have the 64-bit names of the machine's manual ("rax", "x0", "sp",
// "pc"), never the names of their parts.
type Operand struct {
	Kind   OperandKind
	Size   int // bytes of it: 1, 2, 4, 8
	Signed bool
	Number int64  // the constant, or the offset added to the register
	Reg    string // "": none
	Shift  int    // the lowest bit of the register that counts
	Index  string // another register, added times Scale; "": none
	Scale  int64
	Why    string // for OperandNone: why it is not available
}

// OperandKind is where an operand is.
type OperandKind uint8

// The kinds of operands.
const (
	OperandNone   OperandKind = iota // not available
	OperandNumber                    // Number
	OperandReg                       // Reg + Number
	OperandMemory                    // the memory at Reg + Number + Index * Scale
)

// Arguments returns Args and ArgsWhy; the first call computes them. It is not safe for concurrent
// use on one probe.
func (p *Probe) Arguments() ([]Arg, string) {
	if p.Learn != nil {
		p.Args, p.ArgsWhy = p.Learn()
		p.Learn = nil
	}
	return p.Args, p.ArgsWhy
}

// Result returns the size in bytes of the integer that the function of a return probe returns, and
// whether it is signed. The size is 8 when the function returns another type, or when Args don't
// contain it.
func (p *Probe) Result() (size int, signed bool) {
	for i := range p.Args {
		if p.Args[i].From >= 0 || p.Args[i].Type == nil {
			continue
		}
		switch t := btf.UnderlyingType(p.Args[i].Type).(type) {
		case *btf.Int:
			if t.Size < 8 {
				return int(t.Size), t.Encoding == btf.Signed
			}
		case *btf.Enum:
			if t.Size < 8 {
				return int(t.Size), t.Signed
			}
		}
	}
	return 8, false
}

// FieldKind is how a field of a trace event's record contains its value.
type FieldKind uint8

// The kinds of fields.
const (
	FieldNone     FieldKind = iota // the argument is no field of a record
	FieldUnsigned                  // an integer or pointer
	FieldSigned
	FieldArray // the value is an array: its address is used
	FieldFar   // 32 bits whose lower half is the offset of an array in the record
)

// An Arg is one of args[].
type Arg struct {
	Name string
	Type btf.Type // nil: by C
	C    string   // its type as C text, where there is no BTF: "const char *"
	User bool     // a pointer into the process, not into the kernel
	From int      // the index among the site's arguments; -1: the return value
	// of a field of a trace event's record, which is From bytes from its start: its size in bytes,
	// and the kind of access
	Size  int
	Field FieldKind
	// Xlate names the type that a translator converts this argument to: io:::start's args[0]
	// becomes a bufinfo_t.
	Xlate string
	// D, unless "", is the value as an expression of the Names of the probe's Meaning.
	D string
	// With defines members of the translated type by expressions of the probe's Meaning.
	With map[string]string
}

// String returns provider:module:function:name.
func (p *Probe) String() string {
	return p.Provider + ":" + p.Module + ":" + p.Function + ":" +
		p.Name
}
