// Package gen makes BPF instructions and map specifications of lang/ir. It loads nothing: what it gives is data, which room
// trace takes to the kernel.
package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/syntax"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Kernel is what the kernel at hand can, as room kernel found out by trying.
type Kernel struct {
	TaskStorage bool // else self-> variables are in a hash by thread
	RingBuffer  bool
	Loop        bool             // bpf_loop
	AtomicFetch bool             // atomic operations that give the old value, and exchange
	LongKeys    bool             // keys of hash maps may be longer than 512 bytes (5.11)
	NoPrealloc  bool             // hash maps may allocate elements in programs of every type; else they have all from the start
	Cookies     bool             // bpf_get_attach_cookie in programs of every type
	TypedRaw    bool             // BTF-typed raw tracepoints, and it costs nothing more to use them: the types were read already
	Compat      bool             // system calls of 32-bit processes come too
	Records     bool             // programs for system calls may be attached to perf's records of the trace events raw_syscalls
	TaskBTF     bool             // bpf_get_current_task_btf, as one wants to know that quickly
	Unwind      bool             // user space tells of processes how their stacks are walked; wants Loop, NoPrealloc, bpf_get_current_task_btf and bpf_task_pt_regs
	CPUs        int              // possible ones
	Namespace   *check.Namespace // whose process IDs are meant; nil: the first one's
	Arch        string           // as GOARCH: "amd64", "arm64"; "": amd64
	// Offset tells where a member of a struct lies, in bytes: "task_struct", "real_parent"; nil: no types are at hand.
	Offset func(typ, member string) (int, error)
	// Symbol tells where a function of the kernel begins and how long it is; nil: no symbols are at hand.
	Symbol func(name string) (address, size uint64, err error)
}

// Limits are how much memory the maps may take, in entries or bytes. 0 is the default.
type Limits struct {
	Ring    int // bytes of the ring buffer, a power of two of pages; default 4 MiB
	AggKeys int // most keys of an aggregation, counted for each CPU by itself; default 65536; of a distribution with keys twice as many, which has one for each bucket
	Dynamic int // most elements of an associative array; default 65536
	Stacks  int // most different stacks of one map of them; default 16384
	Nesting int // firings within one another on one CPU; default 4
	Code    int // most blocks of what processes execute, of which most have one; default 4096
	Rows    int // most blocks of tables to unwind by, each for 2 KiB of code; default 131072
	Shrink  int // all but Nesting are divided by it, down to a least that is of use; 0 is 1
}

// An Object is what a program needs in the kernel.
type Object struct {
	Maps map[string]*ebpf.MapSpec // by the names that the instructions refer to
}

// Names of the maps that user space deals with; those of aggregation and table N end in its number. Only those are made that
// the program needs.
const (
	MapRing     = "ring"     // records
	MapGlobals  = "globals"  // array of one
	MapState    = "state"    // array of one: u64 Inactive, Active, Draining; i64 ns from the monotonic clock to the wall's, which user space keeps right
	MapDrops    = "drops"    // per-CPU array of ir.DropCount u64, one an element
	MapStacks   = "stacks"   // stacks0, stacks1 ...: hash: u64 process (0: a stack of the kernel), u64 addresses, the innermost first, 0 behind the last if there is room -> u32 id; see PieceOf
	MapNumber   = "number"   // array of one: u64 how many ids of stacks and pieces were given
	MapLong     = "long"     // hash: u64 id of the piece before, 504 bytes of a key -> u32 id; see KeyCut
	MapAgg      = "agg"      // agg0, agg1 ...: array of maps with an inner map for each aggregation that AggPlaces puts there: a hash, whose key is followed by u32 bucket, u32 CPU; without keys: a per-CPU array of one
	MapTable    = "table"    // table0, table1 ...: hash
	MapLiterals = "literals" // read-only array of one, to be frozen
	MapSpec     = "spec"     // array of one: a u64 for each speculation of -x nspec, from number 1: 0 free, 1 in use; user space frees it
	MapSelf     = "self"     // of threads' variables
	MapRunning  = "running"  // per-CPU array of one: which thread runs, since when, and how long it had run until then
	MapScratch  = "scratch"  // per-CPU array of firings within one another
	MapCode     = "code"     // hash: what processes execute
	MapRows     = "rows"     // hash: tables to unwind by
	MapRules    = "rules"    // array: what their rows say
	MapWanted   = "wanted"   // hash: u64 pid -> u64 mm_struct: of which processes MapCode should tell; user space takes them out
	MapWake     = "wake"     // ring: u64 pid, when one was put into MapWanted: for who waits for that
)

// The states of a script: which clauses may run. BEGIN's exit() makes it Draining; so user space makes it Active only when it
// is still Inactive after BEGIN.
const (
	Inactive = iota // only BEGIN's
	Active          // all but BEGIN's and END's
	Draining        // after exit(): only END's. ERROR's run always
)

// A Code is the instructions of one BPF program.
type Code struct {
	Type         ebpf.ProgramType
	Attach       ebpf.AttachType
	AttachTo     string // of typed programs: "sys_enter"; of others the probe tells
	Instructions asm.Instructions
	Origins      []Origin // where in the text instructions come from, by instruction: for what the verifier says
	Maps         map[string]*ebpf.MapSpec
	Cookies      bool // each probe must be attached with its index among those given to Assemble as the cookie
}

// A Origin says that the instructions from First on, counted as the verifier does (a load of 64 bits is two), come from a piece
// of the text.
type Origin struct {
	First int
	At    syntax.Span
}

// A Generator is a program and what is to be known of all of it before any part is made: where everything lies.
type Generator struct {
	p   *ir.Program
	k   Kernel
	lay layout
}

// New looks through a program for a kernel.
func New(p *ir.Program, k Kernel) *Generator { return &Generator{p, k, lay(p, k)} }

// Helpers makes the programs that a program needs besides those of its probes. Each is attached to the raw tracepoint that
// AttachTo names, as long as the script runs.
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

// Assemble makes the program that runs clauses, in their order, at all of the probes, which have one Site. More than one
// probe: the program finds out at which it is, at system calls by the number that is the probe's Key, elsewhere by the cookie.
// Probes of SiteRun, which are run by hand, come one by one.
func (w *Generator) Assemble(probes []*check.Probe, clauses []int) (*Code, error) {
	b, err := w.builder(probes, clauses)
	if err != nil {
		return nil, err
	}
	return b.build()
}

// Assemble is the same of one part alone.
func Assemble(p *ir.Program, k Kernel, probes []*check.Probe, clauses []int) (*Code, error) {
	return New(p, k).Assemble(probes, clauses)
}
