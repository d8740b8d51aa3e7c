package profile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"culprit/profile/input"
)

// Options are the choices of a reader. The zero value does what stack collapsers do by default.
type Options struct {
	By        []string // fields at the root, as Roots.By; nil: what the format has
	Event     string   // of perf and JFR: read this event only; "": the first
	PID       bool     // append the process number to its name, if the format has it
	TID       bool     // append the thread number too
	Addresses bool     // distinguish functions without a name by address
	Marks     bool     // append _[k] to functions of the kernel, _[j] to JIT-compiled ones
	Offsets   bool     // keep DTrace's offsets: one node for each call site
	Label     string   // of pprof: insert this label's values below the root, as pprof -tagroot
	Value     string   // of pprof, GHC and JFR: read this amount; "": the profile's default
	// Amount selects one of the two amounts of folded stacks: 1 is before, 2 is after. Other
	// formats are refused then. 0: after, with a note.
	Amount int

	// Names names the addresses of perf.data; nil: they have no names but those of their files.
	Names Namer

	// Memory is how many bytes reading may take, the tree included. 0: DefaultMemory.
	Memory int64

	// Unpacked is how many bytes a packed input may unpack to. 0: MaxBytes.
	Unpacked int64

	// Least is a share of the whole: nodes with less may be dropped, since nobody will see them.
	// See Picture.Least.
	Least float64

	// Times asks for Tree.Times, in formats that have times.
	Times bool

	meter *meter // set by Read; nil: nothing is bounded
}

// A ParseError is an error in an input, with its position.
type ParseError struct {
	Name string // of the input; "": unknown
	Line int    // from 1; 0: the input is binary, and Byte counts
	Byte int64  // from 0
	What string
}

// Error returns one line: name:line: what.
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

// A Format is a file format of stacks.
type Format string

// The text formats.
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

// detectBytes is how much of an input is read to detect its format.
const detectBytes = 64 << 10

// MaxBytes is the highest size of an unpacked input if Options.Unpacked is 0.
const MaxBytes = 16 << 30

// Read reads a profile in any format. The error is a *ParseError where the input is at fault, a
// *MemoryError when it takes more than Options.Memory, and that of the context when it ends.
func Read(ctx context.Context, r io.Reader, name string, o Options) (t *Tree, err error) {
	o.meter = newMeter(ctx, o.Memory)
	t, err = metered(o.meter, r, o)
	var p *ParseError
	if errors.As(err, &p) {
		p.Name = name
	}
	return t, err
}

// metered reads a profile bounded by a meter.
func metered(m *meter, r io.Reader, o Options) (t *Tree, err error) {
	defer recoverStopped(&err)
	return read(&meteredReader{r, m}, o, 0)
}

func read(r io.Reader, o Options, packed int) (*Tree, error) {
	buf := make([]byte, detectBytes)
	n, err := io.ReadFull(r, buf)
	whole := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	if err != nil && (!whole || n == 0 && !errors.Is(err, io.EOF)) {
		return nil, fmt.Errorf("read: %w", err)
	}
	head := buf[:n]
	if len(head) == 0 {
		return nil, &ParseError{Line: 1, What: "there is nothing in it"}
	}
	in := io.MultiReader(bytes.NewReader(head), r)
	if p := input.PackingOf(head); p != nil {
		return readPacked(p, in, o, packed)
	}
	if packed < plain {
		if text := input.Decoded(head, in); text != in {
			return read(text, o, plain)
		}
	}
	return readText(r, buf, n, whole, o)
}

// plain as packed means that the input was decoded to UTF-8. It is above all numbers of packings.
const plain = 3

// maxDetectBytes is how much of an input is read, after its first comments, when detectBytes don't
// show the format.
const maxDetectBytes = 4 << 20

// readText reads an unpacked input. buf[:n] contains its first bytes.
func readText(r io.Reader, buf []byte, n int, whole bool, o Options) (*Tree, error) {
	skipped := 0
	if profile, _ := looksPProf(buf[:n], whole); !profile && !looksBinary(buf[:n]) &&
		!looksLegacy(buf[:n]) {
		var err error
		if buf, n, skipped, whole, err = withoutComments(r, buf, n, whole); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, &ParseError{Line: skipped + 1, What: "there is nothing in it but comments"}
	}
	format := DetectFormat(buf[:n], whole)
	for format == "" && !whole && n < maxDetectBytes && advice(buf[:n]) == nil {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		got, err := io.ReadFull(r, buf[n:])
		n += got
		if whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil &&
			!whole {
			return nil, fmt.Errorf("read: %w", err)
		}
		format = DetectFormat(buf[:n], whole)
	}
	head := buf[:n]
	if o.Amount != 0 && format != FoldedTwice {
		return nil, &ParseError{Line: 1, What: "these are not folded stacks with two amounts each"}
	}
	if format == "" || isText(format) ||
		format != PProf && format != PerfData && format != JFR && format != LegacyPProf &&
			looksBinary(head) {
		if err := advice(head); err != nil {
			err.Line += skipped
			return nil, err
		}
	}
	if format != "" {
		if err := o.checkRoots(format); err != nil {
			return nil, err
		}
	}
	in := io.MultiReader(bytes.NewReader(head), r)
	switch format {
	case PProf:
		return readPProf(in, o)
	case PerfData:
		return readPerfData(in, o)
	case JFR:
		return readJFR(in, o)
	case LegacyPProf:
		return readLegacy(in, o)
	case Speedscope:
		return readSpeedscope(in, o)
	case V8:
		return readV8(in, o)
	case XCTrace:
		return readXCTrace(in, o)
	case TraceEvents, Gecko, OTLP, D3, Pyroscope, StackProf, V8Heap, GHCJSON, Safari:
		return readJSON(format, in, o)
	case "":
		if text := bytes.TrimLeft(head, " \t\r\n"); isObject(text, whole) {
			return nil, unknownJSON(text)
		}
		return nil, unknownFormat(head, skipped)
	default:
		return readLines(r, buf, n, skipped, newLineReader(format, o))
	}
}

// isText reports whether a format's lines are so plain that a table may look like it.
func isText(f Format) bool {
	return f == Folded || f == FoldedTwice || f == DTrace
}

// withoutComments drops all comments and empty lines at the start of an input, so that the first
// data show the format. It returns the buffer, the bytes in it, the number of dropped lines and
// whether the input has ended.
func withoutComments(r io.Reader, buf []byte, n int, whole bool) ([]byte, int, int, bool, error) {
	dropped := 0
	for {
		at := 0
		for {
			i := bytes.IndexByte(buf[at:n], '\n')
			end, next := at+i, at+i+1
			if i < 0 {
				if !whole || at == n {
					break
				}
				end, next = n, n
			}
			if line := trimCR(buf[at:end]); !isComment(line) && len(bytes.TrimSpace(line)) > 0 ||
				tableHead(line) || bytes.HasPrefix(line, []byte(unitComment)) ||
				bytes.HasPrefix(line, []byte("# callgrind")) {
				copy(buf, buf[at:n])
				return buf, n - at, dropped, whole, nil
			}
			at = next
			dropped++
		}
		n = copy(buf, buf[at:n])
		if whole || n == len(buf) {
			return buf, n, dropped, whole, nil
		}
		got, err := io.ReadFull(r, buf[n:])
		n += got
		if whole = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil &&
			!whole {
			return nil, 0, 0, false, fmt.Errorf("read: %w", err)
		}
	}
}

// isComment reports whether a line is a comment. The name of a function may also begin with #: a
// stack has a semicolon and no blank after the #.
func isComment(line []byte) bool {
	if len(line) == 0 || line[0] != '#' {
		return false
	}
	if h, ok := parsePerfHead(line); ok && h.sure() {
		return false
	}
	stack, _, more := bytes.Cut(line[1:], []byte(";"))
	word := firstField(stack)
	if !more &&
		(len(word) == 0 || bytes.IndexByte([]byte(" \t#!"), stack[0]) >= 0) {
		return true
	}
	return bytes.HasSuffix(word, []byte(":")) ||
		bytes.Contains(stack, []byte(" : ")) && (stack[0] == ' ' || stack[0] == '\t') ||
		bytes.HasPrefix(line, []byte("# ")) && bytes.Contains(stack, []byte(": "))
}

// firstField returns the first word of a text.
func firstField(b []byte) []byte {
	w := perfWords{b: b}
	word, _ := w.next()
	return word
}

// newLineReader returns the reader of a format of text lines.
func newLineReader(f Format, o Options) lineReader {
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
		return newSample(o)
	case VTune:
		return newVTune(o)
	case VisualStudio:
		return newVisualStudio(o)
	case GHC:
		return newGHC(o)
	case Debugger:
		return newDebugger(o)
	case JStack:
		return newJStack(o)
	case GoRaw:
		return newGoRaw(o)
	case Goroutines:
		return newGoroutines(o)
	case Instruments:
		return newInstruments(o)
	case PMCStat:
		return newPMC(o)
	}
	return newFolded(o)
}
