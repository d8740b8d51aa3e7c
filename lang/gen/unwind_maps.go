package gen

import "github.com/cilium/ebpf"

// User stacks are walked by tables where Kernel.Unwind says so. User space puts into maps what each process executes and the tables of
// the files; a program finds the caller of each frame by them, and follows frame pointers where they say nothing. All numbers have the
// machine's byte order.
//
// MapCode has blocks of stretches of memory, in the order of their addresses. The key is u32 pid, u32 number of the block:
//
//	| u64 mm | u64 flags | CodeEntries times: u64 start, u64 end, u64 bias, u32 table, u32 how |
//
// mm is the mm_struct for which this holds; 0: a program puts in that of the first sample. An entry with CodeChain has the start of the
// next block; entries that are not used have CodeUnused. bias is what an address less it is the file's own.
//
// MapRows has the rows of a page of a table: the key is u32 table, u32 page << 4 | number of the block, a page is RowsPage bytes of code.
//
//	| RowsEntries times: u16 offset in the page, u16 rule |
//
// The first row of a page is at offset 0, or of a further block before what it is looked into for. A rule RowsChain says that the rows from
// there on are in the next block; rows that are not used have the offset 0xffff. Rule 0 is none.
//
// MapRules is an array of rules: | u8 CFA rule | u8 rule of the frame pointer | u16 | i32 offset | i32 offset of the frame pointer | u32 |.
const (
	CodeEntries   = 29
	CodeHead      = 16
	CodeEntrySize = 32
	CodeBlock     = CodeHead + CodeEntries*CodeEntrySize // with its key and the kernel's 48 bytes it takes 1,024
	CodeBlocks    = 16                                   // most of a process
	CodeUnused    = 1 << 62
	CodeKernel    = 1 // flag: the kernel's own walk by frame pointers does for this process
	RowsEntries   = 48
	RowsBlock     = RowsEntries * 4 // with its key and the kernel's 48 bytes it takes 256
	RowsBlocks    = 16              // most of a page
	RowsPageBits  = 11
	RowsPage      = 1 << RowsPageBits
	RowsChain     = 0xffff
	RuleSize      = 16
	Rules         = 8192 // different ones, of all tables
	WantedMost    = 1024 // processes of which something is wanted at once
)

// What an entry of MapCode says of how a stack goes on there.
const (
	CodeTable     = iota // by its table
	CodeNoTable          // the file has none: perhaps by frame pointers
	CodeTooLarge         // its table is too large
	CodeTooMany          // no room for its table
	CodePointers         // by frame pointers, which all of it has
	CodeGenerated        // by frame pointers; what a just-in-time compiler made
	CodeMixed            // by its table, and where that says nothing by frame pointers, which all else of it has
	CodeChain     = 255
)

// The rules of MapRules for the CFA, and for the frame pointer.
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

// A Stop says why a user stack could not be walked to its end. It is told by the last frame; no address of a process is such a
// number: the two highest bits are 10.
type Stop uint8

// Why a stack ends. The frame before says where.
const (
	StopNotYet    Stop = 1 + iota // frame pointers were followed: nothing was known of the process yet
	StopNoTable                   // the file has no table, and no frame pointer led on
	StopTooLarge                  // the same, of a table too large
	StopTooMany                   // the same, with no room for the table
	StopNoRow                     // the table says nothing of the function, and no frame pointer led on
	StopOther                     // the table says it in a way that is not followed
	StopMemory                    // the stack can't be read
	StopStuck                     // the caller's frame would be no higher
	StopUnknown                   // no file is known to be there
	StopGenerated                 // generated code without frame pointers
	StopLong                      // it took more steps than are taken

	// CallerMissing is never the Stop of an Ending. It stands for the doubt of one, where frames are listed.
	CallerMissing Stop = 0x3f
)

// Frame gives the frame that a stop is told by.
func (s Stop) Frame() uint64 { return 2<<62 | uint64(s)<<56 }

// An Ending is what the last frame of a user stack tells where it is no address.
//
//	| 2 bits 10 | 6 bits Stop | 56 bits Doubt |
type Ending struct {
	Stop  Stop // 0: the stack was walked to its end
	Doubt int  // frames up to the first whose caller may be missing; 0: there is none
}

// EndingOf returns what a frame tells; !ok: it is an address.
func EndingOf(frame uint64) (e Ending, ok bool) {
	if frame>>62 != 2 {
		return e, false
	}
	return Ending{Stop(frame >> 56 & 0x3f), int(frame & (1<<56 - 1))}, true
}

// unwindMaps makes the maps.
func unwindMaps(add func(string, ebpf.MapSpec), lim Limits) {
	add(MapCode, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: CodeBlock, MaxEntries: uint32(lim.Code), Flags: flagNoPrealloc})
	add(MapRows, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: RowsBlock, MaxEntries: uint32(lim.Rows), Flags: flagNoPrealloc})
	add(MapRules, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: RuleSize, MaxEntries: Rules})
	add(MapWanted, ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: WantedMost})
	add(MapWake, ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096})
}
