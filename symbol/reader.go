package symbol

import (
	"errors"
	"fmt"
	"os"
	"time"

	"culprit/symbol/dwarf"
	"culprit/symbol/unwind"

	"golang.org/x/sys/unix"
)

// A Reader parses what other users wrote: ELF files, debug information, maps of generated code, and
// code. OwnReader does it in this process; package symbolizer has one that asks a process without
// privileges. Safe for concurrent use.
type Reader interface {
	// Read answers a request. errors.Is ErrUnavailable: the reader failed, which says nothing of
	// the file; ErrLimit: the request took more CPU time than its Limit; other errors are of the
	// file. An error of Request.Row or Request.Function is returned as it is.
	Read(q *Request) (*Answer, error)
	// ReadAll answers requests without Row and Function, which have the same Wait, in one go. The
	// results are in the order of the requests. After Wait those without an answer have
	// ErrUnavailable.
	ReadAll(all []*Request) []Result
}

// A Result is the answer to one of several requests; see Read.
type Result struct {
	Answer *Answer // nil: there is none
	Err    error
}

var (
	// ErrUnavailable is the error of a Reader that gave no valid answer. The request may be
	// repeated later.
	ErrUnavailable = errors.New("symbols cannot be read now")
	// ErrFailed is the ErrUnavailable of a request during which the reader ended.
	ErrFailed = fmt.Errorf("%w: the reader ended", ErrUnavailable)
	// ErrLimit is the error of a request that took more CPU time than its limit.
	ErrLimit = errors.New("reading it takes too long")
)

// An Op is what a Request asks for.
type Op uint8

// The operations, and the fields of Request and Answer that each has besides File and CPU.
const (
	OpHeader       Op = iota + 1 // -> BuildID, Link, Loads, Full
	OpNames                      // Debug, Addrs, Whole -> Names
	OpInlined                    // Debug, Addrs -> Inlined, Found, Cut
	OpUnwinding                  // -> Code, Go, Digest
	OpRows                       // Row -> Spans, Digest
	OpDigest                     // Spans -> Digest
	OpGenerated                  // From, Addrs -> Names, To
	OpFramed                     // Text, Addrs, Known; without File -> Found
	OpCode                       // -> BuildID, Link, Loads, Code, Full, Go, Numbers
	OpFunctions                  // Debug, Function -> Found
	OpInstructions               // Addrs -> Numbers, Cut, To
	OpReturns                    // Addrs -> Numbers, Cut, To
	OpProbeable                  // Addrs -> Numbers
	OpNotes                      // -> Notes
	OpVariable                   // Text -> Numbers
	OpSlots                      // Text, Addrs -> Numbers
	OpFrames                     // Text, Addrs -> Names, Inlined, Numbers
	opEnd
)

// LastOp is the last operation.
const LastOp = opEnd - 1

// Limits of a Request and its Answer.
const (
	MostAddrs   = 1 << 14 // addresses of a request
	MostSpans   = mostGaps
	MostText    = mostFrameCode + 64 // bytes of code
	MostName    = 1 << 16            // bytes of a name
	MostInlined = dwarf.MostDeep     // functions inlined at one address
	MostLoads   = maxHeaders

	MostFunctions     = 1 << 20  // functions of a file
	MostFunctionBytes = 64 << 20 // bytes of their names
	MostNumbers       = maxCode
	MostNotes         = 1 << 14 // static probes of a file
	MostOperands      = 1 << 16 // arguments and types of all of them
	MostNoteText      = 1 << 12 // bytes of a text of one
)

// A Request asks a Reader for one thing.
type Request struct {
	Op    Op
	File  *os.File
	Debug *os.File // what the distribution keeps beside File; nil: nothing
	// Addrs are addresses of the file, with OpGenerated of the process, in order and each once;
	// with OpFramed the offset of one in Text. With OpProbeable they are offsets in the file, with
	// OpInstructions and OpReturns the offsets where the code begins and ends. With OpFrames, whose
	// File is the memory of a process, they are an interp.Word each.
	Addrs []uint64
	Whole bool   // further requests for names of the file follow: its symbols are cached
	From  int64  // where in a map of generated code reading begins
	Spans []Span // of code
	// Text is code of a process; the name of a variable; with OpUnwinding the name of the file;
	// with OpFrames as many methods as there are Addrs, and the layout of an interpreter.
	Text  []byte
	Known bool // Text begins with a function
	Limit time.Duration
	// Wait is how long to wait for another process, with Row for each part of the rows; 0: until it
	// is certain that it fails.
	Wait time.Duration
	// Until is the time of the monotonic clock after which nobody waits for the answer; 0: none. A
	// request that has not begun by then is not read.
	Until time.Duration
	// Row gets the rows of a file's unwind table, in the order of addresses. A rule holds up to
	// the next row.
	Row func(pc uint32, rule unwind.Rule) error
	// Function gets the functions of a file as Code.Functions returns them.
	Function func(Function) error
}

// An Answer is the result of a Request.
type Answer struct {
	CPU     time.Duration // that the request took
	BuildID string        // in hexadecimal; "": the file has none
	Link    DebugLink
	Loads   []Segment
	Full    bool // the file has the symbols of its own functions
	Code    []Segment
	Go      bool
	Digest  []byte     // nil: unknown
	Spans   []Span     // code that no table describes
	Names   []Name     // one for each address
	Inlined [][]string // with OpFrames the file of each frame
	// Found: OpInlined: there is debug information; OpFramed: the function has a frame;
	// OpFunctions: the names come from Debug.
	Found bool
	Cut   bool  // not all was read: within the limit, or up to an instruction that is not known
	To    int64 // where the last line or instruction that was read ends
	// Numbers are, with OpCode, the Class; with OpInstructions and OpReturns, where instructions
	// begin from the start of the code; with OpProbeable a Probeability for each address; with
	// OpVariable its address, or nothing; with OpSlots addresses of words; with OpUnwinding the
	// layout of an interpreter, or nothing; with OpFrames for each frame the line on which the
	// function begins, and the line.
	Numbers []uint64
	Notes   []Note
}

// A Probeability is whether the kernel puts a probe on an instruction, as far as that is known
// without the kernel.
type Probeability uint64

// Whether an instruction can have a probe.
const (
	CanProbe     Probeability = iota
	ProbeUnsafe               // see ErrUnsafe
	ProbeNever                // see ErrNever
	ProbeRefused              // the kernel refuses its prefix
	ProbeUnread               // it cannot be read
)

// A Name is the symbol of an address. Name "": there is none.
type Name struct {
	Name  string
	Start uint64 // where the symbol begins, at most the address
	// Low and High are the addresses, up to High, for which the answer holds. Only OpGenerated has
	// them.
	Low, High uint64
}

// A Segment is a part of a file that is loaded.
type Segment struct{ Offset, Addr, FileSize, MemSize uint64 }

// A Span is a range of addresses of a file, without To.
type Span struct{ From, To uint64 }

// Monotonic returns the time of the monotonic clock, which all processes of a machine share; 0: it
// cannot be read. clock_gettime(2).
func Monotonic() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
