// Package check resolves a D program: the variable or function of each name, the type of each
// expression, the offsets of kernel struct members, the probes of each clause. Its result is a tree
// without open questions: macros, inlines, typedefs, translators and the promotions of C are
// expanded. It gets types from BTF and probes from an Env; it reads nothing from the machine
// itself.
package check

import (
	"strings"

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
	Loop      int            // as syntax.Clause.Loop
	Continues bool           // as syntax.Clause.Continues
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

// Single reports whether an associative array has only the element with the key 0: those of
// lang/bpftrace's translation that no text of D can name.
func (v *Var) Single() bool { return strings.HasPrefix(v.Name, "$") }

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
	// The associative array that it represents in an action; nil: none. It is not in Program.Aggs.
	Array *Var
}
