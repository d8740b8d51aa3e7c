// Package check resolves a D program: the variable or function of each name, the type of each
// expression, the offsets of kernel struct members, the probes of each clause. Its result is a tree
// without open questions: macros, inlines, typedefs, translators and the promotions of C are
// expanded. It gets types from BTF and probes from an Env; it reads nothing from the machine
// itself.
package check

import (
	"culprit/lang/format"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// An Env is the environment that a program is checked against. Its methods are called from one
// goroutine, and only when the text needs them.
type Env interface {
	// BTF returns the kernel's types, which it reads at the first call. An error becomes a
	// diagnostic at the text that needs a type.
	BTF() (*btf.Spec, error)
	// Probes returns the probes that a description matches. When there is none, the error says why
	// and names similar ones. Providers that create probes on demand (tick-5s) are the Env's
	// business. From an error that is or wraps a *syntax.Diagnostic the message, hint, near name
	// and tag of dtrace are used; its position and code are ignored.
	Probes(*syntax.Probe) ([]*Probe, error)
	// Symbol returns the address and the BTF type of a kernel variable; the type is nil when
	// unknown. It returns an error when there is no such variable.
	Symbol(module, name string) (uint64, btf.Type, error)
	// Topology returns the chip and the NUMA node of each CPU by its number. They are 0 for CPUs
	// beyond the end of a list.
	Topology() (chips, nodes []int)
}

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

// Options are the options of a program, from flags and pragmas. Numbers have dtrace's units: bytes,
// frames, nanoseconds. Check validates names and values; options that only trace needs are in All.
type Options struct {
	StrSize      int64 // bytes of a string with its final 0; 0: 256
	StackFrames  int   // most frames of stack(); 0: 100
	UStackFrames int   // of ustack(); 0: 100
	MaxFrames    int   // the highest depth of any stack; 0: no limit
	Quiet        bool
	Destructive  bool              // -w: actions that change the system are allowed
	DefaultArgs  bool              // undefined $1 ... are 0 and ""
	Args         []string          // $0 (the script's name), $1 ...; nil: none
	Target       int64             // $target; 0: none
	Words        map[string]string // the other macros: "pid", "uid" ...; see Macro
	Probes       bool              // -Z: descriptions that match nothing are allowed
	Namespace    *Namespace        // whose process IDs are used; nil: those of the initial one
	NoTypes      bool              // do not read BTF: for tests of programs that need none
	// the program is one of bpftrace: an invalid address reads as 0 or "", a division by 0 is 0,
	// elements that are 0 stay, and a variable may be read before the text assigns to it
	Bpftrace bool
	StrMost  int64             // bytes that str() reads at most; 0: StrSize - 1
	All      map[string]string // every option by name, with the last value set
}

// A Namespace is the PID namespace of the user who runs a program.
type Namespace struct {
	Level int    // its depth below the initial one; above 0
	Inum  uint32 // its number: the inode of /proc/self/ns/pid
}

// A Program is a checked text.
type Program struct {
	Text     string // for positions in messages
	File     string
	Options  Options
	Clauses  []*Clause
	Vars     []*Var         // all that are used, by ID
	Aggs     []*Aggregation // in the order of their first use, which is the order of printing
	Warnings syntax.Diagnostics
	// a stack in a variable gets another depth: numbers of stacks have StackBits bits, with a cut
	// in the bits above
	Cuts   bool
	stride uint32 // greater than the ID of any probe
}

// A Clause is one clause of the text with all its probes.
type Clause struct {
	Index     int // from 0, in the order of the text
	At        syntax.Span
	Probes    []*Probe
	Predicate Expr // nil: always; otherwise a truth value, 0 or not
	Body      []Stmt
	Default   bool           // without a body: traces the probe
	Hidden    bool           // it belongs to the meaning of a probe, not to the text
	numbers   map[uint32]int // dtrace's numbers, by probe ID
}

// NumberAt returns dtrace's number of the clause at a probe: each description of a clause has one.
func (c *Clause) NumberAt(p *Probe) int {
	if n, ok := c.numbers[p.ID]; ok {
		return n
	}
	return c.Index
}

// EPID returns the number of a probe within a clause. It is unique in the program.
func (p *Program) EPID(c *Clause, probe uint32) uint32 {
	return uint32(c.Index)*max(p.stride, 16) + probe
}

// Home is the scope of a variable.
type Home uint8

// The scopes of variables.
const (
	Global Home = iota
	Self        // one per thread
	This        // one per firing of a probe, shared by all its clauses; zero at its start
)

// A Var is a variable. With Keys it is an associative array.
type Var struct {
	ID   int
	Home Home
	Name string
	Type Type
	Keys []Type // nil: one value
	At   syntax.Span
}

// AggFunc is an aggregating function.
type AggFunc uint8

// The aggregating functions.
const (
	Count AggFunc = iota
	Sum
	Min
	Max
	Avg
	Stddev
	Quantize
	Lquantize
	Llquantize
)

// An Aggregation is an aggregation with its function and the types of its keys.
type Aggregation struct {
	ID   int
	Name string // "" for the aggregation without a name
	Func AggFunc
	// its values are signed: always true, as in dtrace, where values above 2^63 are negative
	Signed bool
	Keys   []Type // StringType, *Int, *Pointer, StackType, SymbolType, *Bytes
	// For Lquantize: base, limit, step. For Llquantize: factor, low, high, steps. Quantize has
	// none.
	Steps [4]int64
	At    syntax.Span
}

// A Stmt is *Do, *If or an action.
type Stmt interface {
	Place() syntax.Span // its position in the text
}

type place struct{ At syntax.Span }

// Place returns the position in the text.
func (p place) Place() syntax.Span { return p.At }

// The statements.
type (
	// Do evaluates an expression for its effect.
	Do struct {
		place
		X Expr
	}
	// If runs one of two lists.
	If struct {
		place
		Cond       Expr
		Then, Else []Stmt
	}
	// Aggregate adds a value to an aggregation. Value is nil for count; Weight nil for 1.
	Aggregate struct {
		place
		Agg           *Aggregation
		Keys          []Expr
		Value, Weight Expr
	}
	// Record is an action that user space performs when it reads the record. Args are computed in
	// the kernel and are in the record, in their order. Constant arguments are only in the action.
	Record struct {
		place
		Action Action
		Args   []Expr
	}
	// Forget removes an element of an associative array.
	Forget struct {
		place
		X *VarRef
	}
	// Speculate ... are Records, too: commit, discard.
)

// Action is the action of a Record.
type Action struct {
	Kind   ActionKind
	Format *format.Format // of Printf, Printa, System, Freopen; nil: the default
	Aggs   []*Aggregation // of Printa, Clear, Trunc, Normalize, Denormalize
	Frames int            // for Stack and UStack
	Size   int64          // for Tracemem: bytes
	Name   string         // for Setopt: the option
	Value  string         // for Setopt, unless Args has it
	Type   Type           // for Trace and Print: the type of the value
	Number int            // for Output: the number of the action in its translation
}

// ActionKind is the kind of an action.
type ActionKind uint8

// The actions.
const (
	Trace ActionKind = iota
	Printf
	Printa
	Stack
	UStack
	Exit // Args: the status
	Clear
	Trunc     // Args: how many rows to keep; none: 0
	Normalize // Args: the divisor
	Denormalize
	Tracemem
	Print
	Symbol // sym, func, mod ... as an action: Args: the address
	System
	Freopen
	Setopt
	Ftruncate
	Speculate // only as a subroutine's value
	Commit    // Args: the speculation
	Discard
	Raise
	Stop
	Chill
	Panic
	Copyout
	Copyoutstr
	DefaultTrace // a clause without a body
	Output       // an action of another front end, which knows it by Action.Number
)

// An Expr is an expression with its type. D computes in 64 bits, whatever the types: the operands
// of arithmetic are long or unsigned long. A Convert extends smaller operands by their own sign.
// Another Convert truncates the result only where it is stored, recorded or cast. So 5 * 1000000000
// in a comparison does not overflow. Other values - of variables, loads, constants, arguments of a
// Record - have their width in memory. Operands of a Binary have one type.
type Expr interface {
	Type() Type         // the type of its value
	Place() syntax.Span // its position in the text
}

type typed struct {
	At syntax.Span
	T  Type
}

// Type returns the type of the expression's value.
func (e typed) Type() Type { return e.T }

// Place returns the position in the text.
func (e typed) Place() syntax.Span { return e.At }

// The expressions.
type (
	// Const is a number, or a known address. A string that is 0 is NULL: the value of a variable
	// before its first assignment. A struct that is 0 is all zeroes.
	Const struct {
		typed
		Value int64 // unsigned ones as their bits
	}
	// Text is a string literal; T is StringType.
	Text struct {
		typed
		Value string
	}
	// Builtin is a built-in variable of D.
	Builtin struct {
		typed
		Which BuiltinVar
		N     int // of Arg, Uregs, Frame: the index
	}
	// VarRef is the value of a variable; for a struct or array, the operand of AddrOf.
	VarRef struct {
		typed
		Var  *Var
		Keys []Expr // of an associative array
	}
	// Unary is Neg, Not or BitNot. Not returns 0 or 1 for any scalar or string operand.
	Unary struct {
		typed
		Op syntax.Op
		X  Expr
	}
	// Binary computes in the type of its operands, which have one type. With pointers, Add and Sub
	// count bytes. Comparisons and logic return an int of 0 or 1; LogAnd and LogOr do not evaluate
	// Y when X decides. Strings compare by their text, pointers as unsigned longs. The operands of
	// logic are any scalars. Comma evaluates both and returns Y; X may be Void.
	Binary struct {
		typed
		Op   syntax.Op
		X, Y Expr
	}
	// Cond is Then or Else, which have its type.
	Cond struct {
		typed
		If, Then, Else Expr
	}
	// Convert changes the width, sign or type of an integer or pointer: truncated, or extended by
	// the sign of the old type. From a pointer to a pointer it does nothing. From a string to a
	// pointer it is the string's address, in the space Own. To a SymbolType it does nothing: user
	// space prints the symbol of the address.
	Convert struct {
		typed
		X Expr
	}
	// Load is the value at an address: an integer, pointer or bit field. X is a *Pointer to T. A
	// struct or array is never loaded: it is represented by its address, a *Pointer.
	Load struct {
		typed
		X Expr
	}
	// AddrOf is the address of a variable of the script, in the space Own.
	AddrOf struct {
		typed
		X *VarRef
	}
	// StringOf is the string at an address, which is a *Pointer, up to its first 0, strsize or Max.
	StringOf struct {
		typed
		X   Expr
		Max int64 // the highest number of bytes to read; 0: strsize
	}
	// Call is a call of a subroutine.
	Call struct {
		typed
		Func Subroutine
		Args []Expr
	}
	// Assign assigns to a variable, or to memory of the script, and has that value. X is a *VarRef,
	// or a *Load from the space Own; a Load from Kernel checks the address at run time. Y has the
	// type of X. For a struct, Y is its address, and X is a variable or a Load that denotes the
	// place. check writes compound assignments out, unless X has keys or is a Load. Then Op is the
	// operator (otherwise Set), X is evaluated once, and Y has the 64 bits in which Op computes
	// with X extended to them.
	Assign struct {
		typed
		Op   syntax.Op
		X, Y Expr
	}
	// Step is ++ and --: By is added to X, once. Post: the value is the old one.
	Step struct {
		typed
		X    Expr
		By   int64
		Post bool
	}
	// StackOf is stack() or ustack() as a value.
	StackOf struct {
		typed
		Frames  int
		Strings int64 // the second argument of ustack(), which has no effect
	}
	// Exists is 1 when an associative array has an element, else 0.
	Exists struct {
		typed
		X *VarRef
	}
	// Copy is Size bytes from an address: the record of tracemem and print. T is *Bytes.
	Copy struct {
		typed
		X    Expr
		Size int64
	}
)

// BuiltinVar is a built-in variable of D.
type BuiltinVar uint8

// The built-in variables. They are integers, unless noted otherwise.
const (
	BuiltinArg BuiltinVar = iota // arg0 ... arg9, and args[N] by N, as 64 bits
	BuiltinCaller
	BuiltinCPU
	BuiltinCurthread // a pointer to struct task_struct
	BuiltinEPID      // number of the clause at the probe, from 1
	BuiltinErrno
	BuiltinExecname // string
	BuiltinGID
	BuiltinID // of the probe
	BuiltinIPL
	BuiltinPID
	BuiltinPPID
	BuiltinProbeFunc // string
	BuiltinProbeMod  // string
	BuiltinProbeName // string
	BuiltinProbeProv // string
	BuiltinStackDepth
	BuiltinTID
	BuiltinTimestamp // ns of the monotonic clock; constant within a clause
	BuiltinUCaller
	BuiltinUID
	BuiltinURegs
	BuiltinUStackDepth
	BuiltinVTimestamp    // ns that the thread has run, without the time of tracing
	BuiltinWallTimestamp // ns since 1970
	BuiltinReturn        // the return value: arg1 of a return probe, in its type
	BuiltinExecargs      // string: the arguments of the process, separated by spaces
	BuiltinSite          // an argument of the site by its number, as 64 bits
	// the address of a frame of the kernel's stack by its number, 0: the current function; the
	// value is 0 when there are fewer
	BuiltinFrame
	BuiltinUFrame // the same for the process
)

// Subroutine is a function of D that returns a value.
type Subroutine uint8

// The subroutines.
const (
	SubAlloca Subroutine = iota
	SubBasename
	SubBcopy
	SubCleanpath
	SubCopyin
	SubCopyinstr
	SubCopyinto
	SubDDIPathname
	SubDirname
	SubGetf
	SubGetmajor
	SubGetminor
	SubHtonl
	SubHtonll
	SubHtons
	SubIndex
	SubInetNtoa
	SubInetNtoa6
	SubInetNtop
	SubLinkNtop
	SubLltostr
	SubMutexOwned
	SubMutexOwner
	SubMutexTypeAdaptive
	SubMutexTypeSpin
	SubNtohl
	SubNtohll
	SubNtohs
	SubProgenyof
	SubRand
	SubRindex
	SubRwIswriter
	SubRwReadHeld
	SubRwWriteHeld
	SubSpeculation
	SubStrchr
	SubStrjoin
	SubStrlen
	SubStrrchr
	SubStrstr
	SubStrtok
	SubStrtoll
	SubSubstr
	SubTolower
	SubToupper
	SubPath   // d_path, and parts of a file's name for D's libraries; its second argument: PathPart
	SubFileOf // of a descriptor, for D's libraries
)

// PathPart is the part of a file's name that SubPath returns.
type PathPart int

// The parts.
const (
	PathWhole     PathPart = iota
	PathDirectory          // the path without its last name
	PathName               // the last name
	PathMount              // the path of its mount
	PathType               // the name of the type of its file system
	// One of these may be added to the part. The operand is a struct file, or a struct request
	// whose data belongs to the file; the name of none is "<none>". Without, it is a struct path.
	PathOfFile    PathPart = 8
	PathOfRequest PathPart = 16
)
