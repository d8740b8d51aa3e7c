// Package check finds out what a D program means: what each name stands for, the type of each expression, where the members
// of the kernel's structs lie, which probes each clause is for. What it gives is a tree in which nothing is left to guess:
// macros, inlines, typedefs, translators and the promotions of C are gone. It knows types by the BTF that it is given, and
// probes by an Env; it reads nothing of the machine itself.
package check

import (
	"culprit/lang/format"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf/btf"
)

// An Env is what a program is checked against. Its methods are called from one goroutine, and only for what the text asks.
type Env interface {
	// BTF gives the kernel's types, read when they are first asked for. An error becomes the diagnostic of what asked.
	BTF() (*btf.Spec, error)
	// Probes gives the probes that a description matches: none is an error that says why, and what is near. What the
	// providers themselves are (tick-5s is made by being named) is the Env's business. An error that is or wraps a
	// *syntax.Diagnostic gives message, hint, near name and dtrace's tag; its place and code are not looked at.
	Probes(*syntax.Probe) ([]*Probe, error)
	// Symbol gives the address and the BTF type of a variable of the kernel; a nil type where none is known.
	Symbol(module, name string) (uint64, btf.Type, error)
	// Topology gives the chip and the NUMA node of each CPU by its number. Of CPUs behind the end of a list it is 0.
	Topology() (chips, nodes []int)
}

// Site is how a probe calls a program, and so where its arguments are.
type Site uint8

// The sites.
const (
	SiteRun           Site = iota // BEGIN, END, ERROR, tick: run by hand, as a raw tracepoint's program whose arguments are those of D
	SiteRawTracepoint             // args by number, not typed for the verifier
	SiteTracepointBTF             // args by number, typed for the verifier
	SiteSyscallEntry              // the raw tracepoint sys_enter: pt_regs and the number
	SiteSyscallReturn             // the raw tracepoint sys_exit
	SitePerfEvent                 // profile: arg0 is the kernel's program counter or 0, arg1 the user's
	SiteKprobe                    // pt_regs at a function's entry; kprobe.multi too
	SiteKretprobe                 // pt_regs at its return; arg1 is what it returned
	SiteFentry                    // args by number, typed for the verifier
	SiteFexit                     // the same, and what it returned behind them
	SiteUprobe                    // pt_regs of a process
	SiteUretprobe
	SiteTracepoint // the record of a classic tracepoint in tracefs
)

// CompatCalls is what is added to the numbers that system calls have for 32-bit processes on a 64-bit kernel, to tell them from its own.
const CompatCalls = 1024

// A Probe is one place where clauses can run.
type Probe struct {
	ID                               uint32 // as culprit trace -l tells it; from 1, BEGIN END ERROR are 1 2 3
	Provider, Module, Function, Name string
	Site                             Site
	Key                              uint64 // what tells it from the others that one program serves: a cookie, the number of a system call
	Compat                           uint64 // of a system call that 32-bit processes can make too: CompatCalls and its number there; else 0
	Args                             []Arg  // args[0], args[1] ...; nil: only arg0 ... are there. Ask Arguments
	ArgsWhy                          string // why Args is nil, when the kernel ought to have them; for the diagnostic
	// Learn, unless nil, gives Args and ArgsWhy: what costs reading types of the kernel, and most programs don't use.
	Learn func() ([]Arg, string)
	// Operands, unless nil, are where the site's arguments are: of a place in a process that is not a function's entry by the C
	// ABI. Those that are not told are 0.
	Operands []Operand
	// AtEntry: the site is the first instruction of a function, where its caller's place is still where the machine puts it.
	AtEntry bool
	// Also is the same probe at places where its operands are others: each has a program of its own.
	Also []*Probe
	// Meaning, unless nil, makes the probe of what the kernel tells.
	Meaning *Meaning
}

// A Meaning makes a probe that means the same on every system of what this kernel tells at the probe's site: only some of the
// firings count, the thread meant may be another than the one at hand, and args[] are computed.
type Meaning struct {
	Why    string // why there can be no such probe here, all else being empty; "": there can
	Event  string // the tracepoint that it stands on; "": none
	Names  []Arg  // the arguments of the site, as the texts below know them by name
	When   string // an expression of D: the probe fires where it isn't 0; "": always
	Thread int    // 1 + the argument of the site, of SiteTracepointBTF, that points to the thread meant: of it are curthread, pid, self-> ...; 0: the one at hand
	Before string // clauses of D that a program which names the probe has before its own
	After  string // and behind them
}

// An Operand is where an argument is when a probe of a process fires: in a register, in memory, or nowhere but in the program's
// text. Registers are called as the machine's manual calls those of 64 bits ("rax", "x0", "sp", "pc"), and not what a part of
// them is called.
type Operand struct {
	Kind   OperandKind
	Size   int // bytes of it: 1, 2, 4, 8
	Signed bool
	Number int64  // the constant, or what is added to the register
	Reg    string // "": none
	Shift  int    // from which bit of the register on
	Index  string // another register that is added, times Scale; "": none
	Scale  int64
	Why    string // of OperandNone: why it can't be had
}

// OperandKind says what an operand is.
type OperandKind uint8

// The kinds of operands.
const (
	OperandNone   OperandKind = iota // it can't be had
	OperandNumber                    // Number
	OperandReg                       // Reg + Number
	OperandMemory                    // what is at Reg + Number + Index * Scale
)

// Arguments gives Args and ArgsWhy; at the first call it finds them out. Of one probe only one goroutine may ask.
func (p *Probe) Arguments() ([]Arg, string) {
	if p.Learn != nil {
		p.Args, p.ArgsWhy = p.Learn()
		p.Learn = nil
	}
	return p.Args, p.ArgsWhy
}

// Result returns how wide an integer the function of a return probe returns, in bytes, and whether it is signed. It is 8
// where the function returns something else or Args don't say.
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

// An Arg is one of args[].
type Arg struct {
	Name string
	Type btf.Type // nil: by C
	C    string   // its type as C text, where there is no BTF: "const char *"
	User bool     // a pointer into the process, not into the kernel
	From int      // which of the site's arguments it is; -1: what the function returned
	// Xlate names the translator from the type here to the type that D tells of: io:::start's args[0] is a bufinfo_t.
	Xlate string
	// D, unless "", is what the value is, as an expression of the Names of the probe's Meaning.
	D string
	// With are members of what is translated that the probe tells of itself, each as such an expression.
	With map[string]string
}

// String gives provider:module:function:name.
func (p *Probe) String() string { return p.Provider + ":" + p.Module + ":" + p.Function + ":" + p.Name }

// Options are what a program was told by flags; its pragmas are added. Numbers are those of dtrace: bytes, frames,
// nanoseconds. Check judges names and values; what only trace needs is in All.
type Options struct {
	StrSize      int64 // bytes of a string with its final 0; 0: 256
	StackFrames  int   // most frames of stack(); 0: 100
	UStackFrames int   // of ustack(); 0: 100
	MaxFrames    int   // most of any stack and of its depth; 0: any
	Quiet        bool
	Destructive  bool              // -w: actions that change the system are allowed
	DefaultArgs  bool              // $1 ... that were not given are 0 and ""
	Args         []string          // $0 the script's name, $1 ...; nil: none
	Target       int64             // $target; 0: none was given
	Words        map[string]string // the other macros: "pid", "uid" ...; see Macro
	Probes       bool              // -Z: descriptions that match nothing are allowed
	Namespace    *Namespace        // whose process IDs are meant; nil: the first one's
	NoTypes      bool              // do not read BTF: for tests of what needs none
	All          map[string]string // every option by name, as it was set last
}

// A Namespace is the PID namespace of whoever runs a program.
type Namespace struct {
	Level int    // how far below the first one it is; above 0
	Inum  uint32 // its number: the inode of /proc/self/ns/pid
}

// A Program is what a text means.
type Program struct {
	Text     string // for places in messages
	File     string
	Options  Options
	Clauses  []*Clause
	Vars     []*Var         // all that are used, by ID
	Aggs     []*Aggregation // in the order of their first use, which is the order in which they are printed
	Warnings syntax.Diagnostics
	Cuts     bool   // a stack that a variable holds is given another depth: numbers of stacks have StackBits bits, and what is above them is a cut
	stride   uint32 // greater than the number of any probe
}

// A Clause is one clause of the text with all its probes.
type Clause struct {
	Index     int // from 0, in the order of the text
	At        syntax.Span
	Probes    []*Probe
	Predicate Expr // nil: always; its value is a truth value, not 0
	Body      []Stmt
	Default   bool           // without a body: traces the probe
	Hidden    bool           // it is part of what a probe means, and not of the text
	numbers   map[uint32]int // of dtrace's, by probe
}

// NumberAt gives the number that dtrace gives the clause at a probe: each description of a clause counts for one.
func (c *Clause) NumberAt(p *Probe) int {
	if n, ok := c.numbers[p.ID]; ok {
		return n
	}
	return c.Index
}

// EPID gives the number of a probe within a clause, which no other probe and no other clause has.
func (p *Program) EPID(c *Clause, probe uint32) uint32 {
	return uint32(c.Index)*max(p.stride, 16) + probe
}

// Home says where a variable lives.
type Home uint8

// The homes of variables.
const (
	Global Home = iota
	Self        // one for each thread
	This        // one for a firing of a probe, through all its clauses; zero at its start
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

// An Aggregation is what one name with @ stands for.
type Aggregation struct {
	ID     int
	Name   string // "" for the one without a name
	Func   AggFunc
	Signed bool   // its values are signed: always so, as in dtrace, which takes what is above 2^63 for negative
	Keys   []Type // StringType, *Int, *Pointer, StackType, SymbolType, *Bytes
	// Of Lquantize: base, limit, step. Of Llquantize: factor, low, high, steps. Quantize has none.
	Steps [4]int64
	At    syntax.Span
}

// A Stmt is *Do, *If or an action.
type Stmt interface {
	Place() syntax.Span // where it stands in the text
}

type place struct{ At syntax.Span }

// Place gives where it stands in the text.
func (p place) Place() syntax.Span { return p.At }

// The statements.
type (
	// Do evaluates an expression for what it does.
	Do struct {
		place
		X Expr
	}
	// If runs one list or the other.
	If struct {
		place
		Cond       Expr
		Then, Else []Stmt
	}
	// Aggregate adds to an aggregation. Value is nil for count; Weight nil for 1.
	Aggregate struct {
		place
		Agg           *Aggregation
		Keys          []Expr
		Value, Weight Expr
	}
	// Record is an action that user space performs when it reads the record. Args are computed in the kernel, and are in it
	// in their order; those of a constant value are not, and stand in the action alone.
	Record struct {
		place
		Action Action
		Args   []Expr
	}
	// Speculate ... are Record's too: commit, discard.
)

// Action is what a Record does.
type Action struct {
	Kind   ActionKind
	Format *format.Format // of Printf, Printa, System, Freopen; nil: the default
	Aggs   []*Aggregation // of Printa, Clear, Trunc, Normalize, Denormalize
	Frames int            // of Stack and UStack
	Size   int64          // of Tracemem: bytes
	Name   string         // of Setopt: the option
	Value  string         // of Setopt, unless Args has it
	Type   Type           // of Trace and Print: what was traced
}

// ActionKind tells the actions apart.
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
	Trunc     // Args: how many to keep; none: 0
	Normalize // Args: by what
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
)

// An Expr is an expression with its type. D computes in 64 bits, whatever the types: the operands of arithmetic are long or
// unsigned long (a Convert extends what is smaller, by its own sign), and the result is cut by another Convert only where it
// is stored, recorded or cast. So 5 * 1000000000 in a comparison is what it looks like. Other values - of variables, loads,
// constants, arguments of a Record - have the width that they have in memory. Operands of a Binary are alike in type.
type Expr interface {
	Type() Type         // of its value
	Place() syntax.Span // where it stands in the text
}

type typed struct {
	At syntax.Span
	T  Type
}

// Type gives the type of the expression's value.
func (e typed) Type() Type { return e.T }

// Place gives where it stands in the text.
func (e typed) Place() syntax.Span { return e.At }

// The expressions.
type (
	// Const is a number, or an address that is known. A string that is 0 is none: what a variable holds before it was given
	// one. A struct that is 0 is zeroes.
	Const struct {
		typed
		Value int64 // unsigned ones as their bits
	}
	// Text is a string literal; T is StringType.
	Text struct {
		typed
		Value string
	}
	// Builtin is a variable that D has by itself.
	Builtin struct {
		typed
		Which BuiltinVar
		N     int // of Arg, Uregs, Frame: which
	}
	// VarRef is the value of a variable; of a struct or array: what Addr takes the address of.
	VarRef struct {
		typed
		Var  *Var
		Keys []Expr // of an associative array
	}
	// Unary is Neg, Not or BitNot. Not gives 0 or 1 of any scalar or string operand's truth.
	Unary struct {
		typed
		Op syntax.Op
		X  Expr
	}
	// Binary computes in the type of its operands, which are alike. Of pointers, Add and Sub count bytes. Comparisons and
	// logic give an int of 0 or 1; LogAnd and LogOr do not evaluate Y when X decides. Comparing strings compares their
	// text; comparing pointers compares unsigned longs. The operands of logic are any scalars. Comma evaluates both, of which X
	// may be Void, and gives Y.
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
	// Convert gives an integer or pointer another width, sign or type: cut, or extended by the sign of what it was. From a
	// pointer to a pointer it does nothing. From a string to a pointer it is the string's address, in the space Own. To a
	// SymbolType it does nothing: user space tells the address by its name.
	Convert struct {
		typed
		X Expr
	}
	// Load is the value at an address: an integer, pointer or bit field. X is a *Pointer to T. A struct or array is never
	// loaded: it is its address, as a *Pointer.
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
		Max int64 // bytes to look at most; 0: strsize
	}
	// Call is a subroutine.
	Call struct {
		typed
		Func Subroutine
		Args []Expr
	}
	// Assign gives a variable, or a place in memory of the script, a value, and has that value. X is a *VarRef or a *Load
	// from the space Own; of a Load from Kernel the address is looked at when it runs. Y has the type of X; of a struct it is
	// the address, and X, where it is no variable, a Load that stands for the place. Compound assignments are written out by check unless X has keys or is a Load: then Op is the operator
	// (else Set), X is evaluated once, and Y has the 64 bits in which Op computes with X extended to them.
	Assign struct {
		typed
		Op   syntax.Op
		X, Y Expr
	}
	// Step is ++ and --: By is added to X, once; Post: the value is the old one.
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
		Strings int64 // the second number of ustack(), which nothing is done with
	}
	// Copy is Size bytes from an address: what tracemem and print record. T is *Bytes.
	Copy struct {
		typed
		X    Expr
		Size int64
	}
)

// BuiltinVar is a variable that D has by itself.
type BuiltinVar uint8

// The builtin variables. Unless said otherwise they are integers.
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
	BuiltinTimestamp // ns of a clock that never goes back; the same through a clause
	BuiltinUCaller
	BuiltinUID
	BuiltinURegs
	BuiltinUStackDepth
	BuiltinVTimestamp    // ns that the thread ran, without the time of tracing
	BuiltinWallTimestamp // ns since 1970
	BuiltinReturn        // what the function returned: arg1 of a return probe, in its type
	BuiltinExecargs      // string: the arguments of the process, with spaces between them
	BuiltinSite          // an argument of the site by its number, as 64 bits
	BuiltinFrame         // the place of a frame of the kernel's stack by its number, 0 the function at hand; 0: there are not so many
	BuiltinUFrame        // the same of the process
)

// Subroutine is a function of D that has a value.
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
	SubPath // d_path
)
