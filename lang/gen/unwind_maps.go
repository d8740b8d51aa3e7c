package gen

import "github.com/cilium/ebpf"

// The maps of unwind tables, used when Kernel.Unwind is set. User space stores in them the code
// mappings of each process and the unwind tables of the files. A program finds the caller of each
// frame in them, and follows frame pointers where they have no rule. All numbers have the machine's
// byte order. docs/UNWINDER.md describes the walk.
//
// MapCode contains blocks of code mappings, sorted by address. The key is u32 pid, u32 block
// number:
//
//	| u64 mm | u64 flags | CodeEntries times: u64 start, u64 end, u64 bias, u32 table, u32 how |
//
// mm is the mm_struct that the block is valid for; 0: a program stores that of the first sample.
// bias is the address of an instruction minus its address in the file. An entry with CodeChain
// contains the start of the next block; unused entries have the start CodeUnused.
//
// MapFiles contains files that are known, for stacks of processes without blocks. The key is a
// version of a file, as the kernel identifies it; zeros for the vDSO:
//
//	| u64 device | u64 inode | u64 size | i64 modified, s | u64 modified, ns |
//
// The value is how its code is walked. delta is the offset of the code in the file minus its
// address in the file:
//
//	| u64 delta | u32 table | u32 how |
//
// MapWake has a record of a file that is missing there, with the start of a mapping:
//
//	| u64 pid | u64 start | key |
//
// And a record of a code object of an interpreter, without its tag, and its method, or 0:
//
//	| u64 pid | u64 frame | u64 method |
//
// MapSeen contains the code objects with such a record. The key is u64 mm, u64 address.
//
// MapRows contains the rows of a page of a table. A page is RowsPage bytes of code. The key is u32
// table, u32 page << 4 | block number:
//
//	| RowsEntries times: u16 offset in the page, u16 rule |
//
// The first row of a page has offset 0; the first row of a further block has the offset at which
// the block begins. A rule RowsChain means that the rows from its offset on are in the next block;
// unused rows have the offset 0xffff. Rule 0 means no rule.
//
// MapRules is an array of rules:
//
//	| u8 CFA rule | u8 frame pointer rule | u16 0 | i32 CFA offset |
//	| i32 offset of the frame pointer | u32 0 |
//
// MapInterpreter contains the layouts of interpreters. The key is the u32 table of the file, the
// value an InterpreterLayout.
const (
	CodeEntries   = 29
	CodeHead      = 16
	CodeEntrySize = 32
	// with its key and the kernel's 48 bytes: 1,024
	CodeBlock    = CodeHead + CodeEntries*CodeEntrySize
	CodeBlocks   = 16 // at most per process
	CodeUnused   = 1 << 62
	CodeKernel   = 1 // flag: use the kernel's own walk by frame pointers for this process
	FileKey      = 40
	FileEntry    = 16
	FileSeen     = 16 + FileKey
	FilesMost    = 4096
	RowsEntries  = 48
	RowsBlock    = RowsEntries * 4 // with its key and the kernel's 48 bytes: 256
	RowsBlocks   = 16              // at most per page
	RowsPageBits = 11
	RowsPage     = 1 << RowsPageBits
	RowsChain    = 0xffff
	RuleSize     = 16
	Rules        = 8192 // at most, shared by all tables
	WantedMost   = 1024 // at most, processes requested at once
)

// How a stack is walked in the mapping of an entry of MapCode.
const (
	CodeTable       = iota // by its table
	CodeNoTable            // the file has no table: try frame pointers
	CodeTooLarge           // its table is too large
	CodeTooMany            // the maps have no space for its table
	CodeNotYet             // its table was not read yet: try frame pointers
	CodeInterpreter        // by its table; the file is an interpreter
	CodePointers           // by frame pointers, which all its code has
	CodeGenerated          // by frame pointers: code of a JIT compiler
	CodeMixed              // by its table; code without a rule has frame pointers
	CodeHotSpot            // code of a virtual machine of Java, whose table has a layout
	CodeV8                 // code that V8 has generated; table and bias are those of its file
	CodeNode               // by its table, else by frame pointers; the file has V8
	CodeChain       = 255
)

// The rules of MapRules for the CFA (canonical frame address), and for the frame pointer.
const (
	CFANone = iota
	CFAEnd
	CFASP
	CFABP
	CFAPLT
	CFAAtSP
	CFAAtBP
	CFASignal
	CFAOther

	BPSame = iota - CFAOther - 1
	BPAtCFA
	BPAtBP
	BPLost
)

// A Stop is the reason why a walk of a user stack ended early. The last frame encodes it with 10 in
// its two highest bits, which no user address has.
type Stop uint8

// The reasons. The frame before it is where the walk stopped.
const (
	StopNotYet   Stop = 1 + iota // frame pointers were used: the process was not known yet
	StopNoTable                  // the file has no table, and the frame pointer led nowhere
	StopTooLarge                 // the same, because the table is too large
	StopTooMany                  // the same, because the maps have no space for the table
	// the table has no rule for the function, and the frame pointer led nowhere
	StopNoRow
	StopOther     // the table uses a rule that is not supported
	StopMemory    // the stack can't be read
	StopStuck     // the caller's frame would not be higher on the stack
	StopUnknown   // the address is in no known file
	StopGenerated // generated code without frame pointers
	StopLong      // the walk exceeded its number of iterations
	StopHotSpot   // the frame of a method of Java is not as expected

	// CallerMissing is never the Stop of an Ending. In lists of frames it represents the Doubt of
	// one.
	CallerMissing Stop = 0x3f
)

// Frame returns the frame that encodes a stop.
func (s Stop) Frame() uint64 { return 2<<62 | uint64(s)<<56 }

// An Ending is the last frame of a user stack when it is not an address.
//
//	| 2 bits 10 | 6 bits Stop | 56 bits Doubt |
type Ending struct {
	Stop  Stop // 0: the walk reached the end of the stack
	Doubt int  // number of frames up to the first whose caller may be missing; 0: none
}

// EndingOf decodes a frame; !ok: it is an address.
func EndingOf(frame uint64) (e Ending, ok bool) {
	if frame>>62 != 2 {
		return e, false
	}
	return Ending{Stop(frame >> 56 & 0x3f), int(frame & (1<<56 - 1))}, true
}

// unwindMaps adds the maps of unwind tables.
func unwindMaps(add func(string, ebpf.MapSpec), lim Limits) {
	add(
		MapCode,
		ebpf.MapSpec{
			Type:       ebpf.Hash,
			KeySize:    8,
			ValueSize:  CodeBlock,
			MaxEntries: uint32(lim.Code),
			Flags:      flagNoPrealloc,
		},
	)
	add(
		MapRows,
		ebpf.MapSpec{
			Type:       ebpf.Hash,
			KeySize:    8,
			ValueSize:  RowsBlock,
			MaxEntries: uint32(lim.Rows),
			Flags:      flagNoPrealloc,
		},
	)
	add(
		MapRules,
		ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: RuleSize, MaxEntries: Rules},
	)
	add(
		MapInterpreter,
		ebpf.MapSpec{
			Type:       ebpf.Hash,
			KeySize:    4,
			ValueSize:  interpreterLayoutSize,
			MaxEntries: InterpretersMost,
			Flags:      flagNoPrealloc,
		},
	)
	add(
		MapSeen,
		ebpf.MapSpec{
			Type:       ebpf.LRUHash,
			KeySize:    16,
			ValueSize:  8,
			MaxEntries: codeSeenMost,
		},
	)
	add(MapWanted, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: WantedMost})
	add(MapWake, ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 16384})
	add(
		MapFiles,
		ebpf.MapSpec{
			Type:       ebpf.Hash,
			KeySize:    FileKey,
			ValueSize:  FileEntry,
			MaxEntries: FilesMost,
			Flags:      flagNoPrealloc,
		},
	)
}
