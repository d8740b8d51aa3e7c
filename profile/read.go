package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Options say how a reader names what it reads. The zero value is what stack collapsers do by default.
type Options struct {
	Event     string // of perf script: the samples of this event alone; "" the first event's
	PID       bool   // the process's number behind its name, where a format has it
	TID       bool   // and the thread's
	Addresses bool   // functions without a name are told apart by address
	Marks     bool   // _[k] behind functions of the kernel, _[j] behind those made at run time
	Offsets   bool   // DTrace's offsets are kept: one node for each place of a call
	Label     string // of pprof: the values of this label are below the root, as pprof's -tagroot has it
	Value     string // of pprof and GHC: which of several amounts; "" the profile's own choice
	Amount    int    // of folded stacks with two amounts: 1 the one before, 2 the one after; nothing else is read then. 0: after, and a note

	// Nodes that have less than this share of the whole may be left out, since they will not be shown: see Picture.Least.
	Least float64
}

// A ParseError says what is wrong with an input, and where.
type ParseError struct {
	Name string // of the input; "" not known
	Line int    // from 1; 0: the input is binary, and Byte counts
	Byte int64  // from 0
	What string
}

// Error gives one line: name:line: what.
func (e *ParseError) Error() string {
	at := strconv.Itoa(e.Line)
	if e.Line == 0 {
		at = "byte " + strconv.FormatInt(e.Byte, 10)
	}
	if e.Name == "" {
		return at + ": " + e.What
	}
	return e.Name + ":" + at + ": " + e.What
}

// A Format is a way of writing stacks down.
type Format string

// The formats that are recognised.
const (
	Folded     Format = "folded"
	Perf       Format = "perf script"
	DTrace     Format = "DTrace stacks"
	BPFTrace   Format = "bpftrace stacks"
	PProf      Format = "pprof"
	Speedscope Format = "speedscope"

	FoldedTwice  Format = "folded, with two amounts" // before and after
	Sample       Format = "macOS sample"
	VTune        Format = "VTune's call tree"
	VisualStudio Format = "Visual Studio's call tree"
	GHC          Format = "GHC's cost centres"
	XCTrace      Format = "xctrace"
	Debugger     Format = "stacks of gdb, eu-stack or faulthandler"
	JStack       Format = "jstack"
	GoRaw        Format = "pprof -raw"
	V8           Format = "V8's .cpuprofile"
	BPFTraceJSON Format = "bpftrace's JSON"
	Goroutines   Format = "stacks of goroutines"
	PMCStat      Format = "pmcstat"
)

// looked is how much of an input is looked at to find out its format, and then at a time.
const looked = 64 << 10

// MostBytes is how much an input may unpack to.
const MostBytes = 16 << 30

// Read reads a profile in any format. The error is a *ParseError where the input is at fault.
func Read(r io.Reader, name string, o Options) (*Tree, error) {
	t, err := read(r, o, 0)
	var p *ParseError
	if errors.As(err, &p) {
		p.Name = name
	}
	return t, err
}

func read(r io.Reader, o Options, packed int) (*Tree, error) {
	room := make([]byte, looked)
	n, err := io.ReadFull(r, room)
	whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && (!whole || n == 0 && !errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("read: %w", err)
	}
	head := room[:n]
	if len(head) == 0 {
		return nil, &ParseError{Line: 1, What: "there is nothing in it"}
	}
	in := io.MultiReader(bytes.NewReader(head), r)
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return readPacked(in, o, packed)
	}
	if packed < plain {
		if text := decoded(head, in); text != in {
			return read(text, o, plain)
		}
	}
	return readText(r, room, n, whole, o)
}

// plain is how often an input is packed at most, and one more: what is inside is text that was decoded.
const plain = 3

// readPacked reads what gzip has packed.
func readPacked(in io.Reader, o Options, packed int) (*Tree, error) {
	if packed > 1 {
		return nil, &ParseError{What: "it is packed more than twice"}
	}
	z, err := newGunzip(in)
	if err != nil {
		return nil, &ParseError{What: "not gzip: " + err.Error()}
	}
	t, err := read(io.LimitReader(z, MostBytes), o, packed+1)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &ParseError{What: "damaged gzip: " + err.Error()}
	}
	if err == nil && z.behind != "" {
		t.note(z.behind)
	}
	return t, err
}

// mostLooked is how much of an input is looked at, behind its first comments, when less does not show the format.
const mostLooked = 4 << 20

// readText reads an input that is not packed, of which the first bytes are in room.
func readText(r io.Reader, room []byte, n int, whole bool, o Options) (*Tree, error) {
	skipped := 0
	if profile, _ := looksPProf(room[:n], whole); !profile && !looksBinary(room[:n]) {
		var err error
		if room, n, skipped, whole, err = withoutComments(r, room, n, whole); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, &ParseError{Line: skipped + 1, What: "there is nothing in it but comments"}
	}
	format := Sniff(room[:n], whole)
	for format == "" && !whole && n < mostLooked && advice(room[:n]) == nil {
		if n == len(room) {
			room = append(room, make([]byte, len(room))...)
		}
		got, err := io.ReadFull(r, room[n:])
		n += got
		if whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !whole {
			return nil, fmt.Errorf("read: %w", err)
		}
		format = Sniff(room[:n], whole)
	}
	head := room[:n]
	if o.Amount != 0 && format != FoldedTwice {
		return nil, &ParseError{Line: 1, What: "these are not folded stacks with two amounts each"}
	}
	if format == "" || isText(format) || format != PProf && looksBinary(head) {
		if err := advice(head); err != nil {
			err.Line += skipped
			return nil, err
		}
	}
	in := io.MultiReader(bytes.NewReader(head), r)
	switch format {
	case PProf:
		return readPProf(in, o)
	case Speedscope:
		return readSpeedscope(in)
	case V8:
		return readV8(in)
	case XCTrace:
		return readXCTrace(in)
	case TraceEvents, Gecko, D3, Pyroscope, StackProf, V8Heap:
		return readJSON(format, in)
	case "":
		if text := bytes.TrimLeft(head, " \t\r\n"); isObject(text, whole) {
			return nil, unknownJSON(text)
		}
		return nil, unknownFormat(head, skipped)
	default:
		return readLines(r, room, n, skipped, newLiner(format, o))
	}
}

// isText reports whether a format's lines are so plain that a table may look like it.
func isText(f Format) bool {
	return f == Folded || f == FoldedTwice || f == DTrace
}

// withoutComments drops comments and empty lines from the beginning of an input, however many they are,
// so that the format is found by what is behind them. It returns the buffer, how much is in it, how many
// lines were dropped and whether the input has ended.
func withoutComments(r io.Reader, room []byte, n int, whole bool) ([]byte, int, int, bool, error) {
	dropped := 0
	for {
		at := 0
		for {
			i := bytes.IndexByte(room[at:n], '\n')
			end, next := at+i, at+i+1
			if i < 0 {
				if !whole || at == n {
					break
				}
				end, next = n, n
			}
			if line := trimCR(room[at:end]); !isComment(line) && len(bytes.TrimSpace(line)) > 0 || tableHead(line) || bytes.HasPrefix(line, []byte("# callgrind")) {
				copy(room, room[at:n])
				return room, n - at, dropped, whole, nil
			}
			at = next
			dropped++
		}
		n = copy(room, room[at:n])
		if whole || n == len(room) {
			return room, n, dropped, whole, nil
		}
		got, err := io.ReadFull(r, room[n:])
		n += got
		if whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !whole {
			return nil, 0, 0, false, fmt.Errorf("read: %w", err)
		}
	}
}

// isComment reports whether a line is a comment. A function's name may begin with # as well: a stack has a
// semicolon, and no blank behind the #.
func isComment(line []byte) bool {
	if len(line) == 0 || line[0] != '#' {
		return false
	}
	if h, ok := parsePerfHead(line); ok && h.sure() {
		return false
	}
	stack, _, more := bytes.Cut(line[1:], []byte(";"))
	word := firstField(stack)
	if !more && (len(word) == 0 || stack[0] == ' ' || stack[0] == '\t' || stack[0] == '#' || stack[0] == '!') {
		return true
	}
	return bytes.HasSuffix(word, []byte(":")) || bytes.Contains(stack, []byte(" : ")) && (stack[0] == ' ' || stack[0] == '\t') ||
		bytes.HasPrefix(line, []byte("# ")) && bytes.Contains(stack, []byte(": "))
}

// firstField returns the first word of a text.
func firstField(b []byte) []byte {
	w := perfWords{b: b}
	word, _ := w.next()
	return word
}

// newLiner gives the reader of a format that is lines of text.
func newLiner(f Format, o Options) liner {
	switch f {
	case FoldedTwice:
		return newFoldedTwice(o)
	case Perf:
		return newPerf(o)
	case DTrace:
		return newDTrace(o)
	case BPFTrace:
		return newBPFTrace(o)
	case BPFTraceJSON:
		return newBPFTraceJSON(o)
	case Sample:
		return newSample()
	case VTune:
		return newVTune()
	case VisualStudio:
		return newVisualStudio()
	case GHC:
		return newGHC(o)
	case Debugger:
		return newDebugger(o)
	case JStack:
		return newJStack(o)
	case GoRaw:
		return newGoRaw(o)
	case Goroutines:
		return newGoroutines()
	case PMCStat:
		return newPMC()
	}
	return newFolded(o)
}
