package check

import (
	"culprit/lang/format"
	"culprit/lang/syntax"
)

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
