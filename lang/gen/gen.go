// Package gen generates BPF instructions and map specifications from lang/ir. It loads nothing:
// trace loads its results into the kernel.
package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Kernel describes the features of the kernel, as package kernel probes them.
type Kernel struct {
	TaskStorage bool // otherwise self-> variables are in a hash by thread
	RingBuffer  bool
	Loop        bool // bpf_loop
	AtomicFetch bool // atomic operations that return the old value, and exchange
	LongKeys    bool // keys of hash maps may exceed 512 bytes (5.11)
	// hash maps may allocate elements in programs of every type; otherwise all elements are
	// preallocated
	NoPrealloc bool
	Cookies    bool // bpf_get_attach_cookie in programs of every type
	// BTF-typed raw tracepoints are available, and the types have been read already
	TypedRaw bool
	Compat   bool // 32-bit processes may make system calls
	// programs for system calls may be attached to perf's records of the trace events raw_syscalls
	Records bool
	TaskBTF bool // bpf_get_current_task_btf, if known without a slow check
	// User space fills the unwind tables of processes. Requires Loop, NoPrealloc,
	// bpf_get_current_task_btf and bpf_task_pt_regs.
	Unwind    bool
	CPUs      int              // number of possible CPUs
	Namespace *check.Namespace // whose process IDs are used; nil: those of the initial one
	// number of culprit's mount namespace, whose paths the files of requests have; 0: unknown
	Mounts uint32
	Arch   string // as GOARCH: "amd64", "arm64"; "": amd64
	// Offset returns the offset in bytes of a member of a struct: "task_struct", "real_parent". It
	// returns an error when there is none. nil: no types are available.
	Offset func(typ, member string) (int, error)
	// Symbol returns the address and the size in bytes of a kernel function. It returns an error
	// when there is none. nil: no symbols are available.
	Symbol func(name string) (address, size uint64, err error)
}

// Limits are the sizes of maps, in entries or bytes. 0 is the default.
type Limits struct {
	Ring int // bytes of the ring buffer, a power of two of pages; default 4 MiB
	// Keys of an aggregation, counted per CPU; default 65536. A distribution with keys has one
	// entry per bucket, so twice as many.
	AggKeys int
	Dynamic int // elements of an associative array; default 65536
	Stacks  int // stacks of one inner map; default 16384
	Nesting int // nested firings on one CPU; default 4
	// blocks of code mappings of all processes; most processes have one block; default 4096
	Code   int
	Rows   int // blocks of unwind rows, each for 2 KiB of code; default 131072
	Shrink int // divisor of all but Nesting, down to a useful lowest size; 0 is 1
}

// An Object is the maps that a program needs in the kernel.
type Object struct {
	Maps map[string]*ebpf.MapSpec // by the names used in the instructions
}

// Names of the maps that user space uses. The names of aggregation and table maps end in a number.
// Only the maps that the program needs are created.
const (
	MapRing    = "ring"    // records
	MapGlobals = "globals" // array of one
	// Array of one: u64 Inactive, Active or Draining; i64 ns from the monotonic to the wall clock,
	// which user space keeps up to date.
	MapState = "state"
	MapDrops = "drops" // per-CPU array: ir.DropCount times u64
	MapCost  = "cost"  // with -x cost: per-CPU array: a ClauseCost for each clause
	// stacks0, stacks1 ...: array of one inner map: hash: u64 process (0: a kernel stack), u64
	// addresses, innermost first, then 0 if there is space -> u32 id. See PieceOf.
	MapStacks = "stacks"
	MapNumber = "number" // array of one: u64 ids of stacks and pieces so far, with AtomicFetch
	// hash: u64 id of the previous piece, 504 bytes of a key -> u32 id; see KeyCut
	MapLong = "long"
	// agg0, agg1 ...: array of maps, with an inner map for each aggregation that AggPlaces puts
	// there. The inner map is a hash whose key is followed by u32 bucket, u32 CPU; without keys, a
	// per-CPU array of one.
	MapAgg      = "agg"
	MapTable    = "table"    // table0, table1 ...: hash
	MapLiterals = "literals" // read-only array of one, to be frozen
	// Array of one: a u64 for each speculation of -x nspec, from number 1: 0 free, 1 in use; user
	// space frees it.
	MapSpec = "spec"
	MapSelf = "self" // thread-local variables
	// per-CPU array of one: the running thread, since when, and its run time until then
	MapRunning     = "running"
	MapScratch     = "scratch"     // per-CPU array of nested firings
	MapCode        = "code"        // hash: code mappings of processes
	MapRows        = "rows"        // hash: unwind rows
	MapRules       = "rules"       // array: the rules of the rows
	MapInterpreter = "interpreter" // hash: interpreters in files
	MapSeen        = "seen"        // LRU hash: code objects that user space knows
	// hash: u64 pid -> u64 mm_struct: processes missing in MapCode; user space removes them
	MapWanted = "wanted"
	MapFiles  = "files" // hash: files that are known
	// ring: u64 pid of each process added to MapWanted, to wake user space; files that are missing
	// in MapFiles
	MapWake = "wake"
)

// The states of a script, which determine the clauses that may run. BEGIN's exit() sets Draining;
// therefore user space sets Active only if the state is still Inactive after BEGIN.
const (
	Inactive = iota // only clauses of BEGIN
	Active          // all but those of BEGIN and END
	Draining        // after exit(): only those of END. Those of ERROR always run
)

// A Code is one BPF program.
type Code struct {
	Type         ebpf.ProgramType
	Attach       ebpf.AttachType
	AttachTo     string // for typed programs: "sys_enter"; otherwise the probe determines it
	Instructions asm.Instructions
	Origins      []Origin // positions in the text, by instruction: for messages of the verifier
	Maps         map[string]*ebpf.MapSpec
	// attach each probe with its index among those given to Assemble as the cookie
	Cookies bool
}

// An Origin is the text position of the instructions from First on, counted as the verifier does: a
// 64-bit load counts as two.
type Origin struct {
	First int
	At    syntax.Span
}

// A Generator generates the programs of one script. It contains the layout that they share.
type Generator struct {
	p   *ir.Program
	k   Kernel
	lay layout
}

// New returns a Generator for a script and a kernel.
func New(p *ir.Program, k Kernel) *Generator { return &Generator{p, k, lay(p, k)} }

// Helpers returns the programs that a script needs besides those of its probes. Attach each to the
// raw tracepoint in AttachTo while the script runs. It returns an error when the kernel's types
// lack a member.
func (w *Generator) Helpers() ([]*Code, error) {
	if !w.lay.needs.running {
		return nil, nil
	}
	c, err := runningHelper(w.p, w.k)
	if err != nil {
		return nil, err
	}
	return []*Code{c}, nil
}

// Assemble returns the program that runs clauses, in their order, at all of the probes, which must
// have one Site. With several probes the program determines the current one: at system calls by
// their number, which is the probe's Key; elsewhere by the cookie. Probes of SiteRun must be
// assembled one by one. The error wraps measure.ErrUnsupported when this kernel can't run the
// program, and ErrTooLarge when the program is too large.
func (w *Generator) Assemble(probes []*check.Probe, clauses []int) (*Code, error) {
	b, err := w.builder(probes, clauses)
	if err != nil {
		return nil, err
	}
	return b.build()
}
