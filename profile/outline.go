package profile

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"unicode"
)

// Some tools write a tree of calls, a call per line, each below its caller and indented more.

// An outline is the calls from the root to the newest line.
type outline struct {
	b    *Builder
	path []outlined
}

type outlined struct {
	call   Call
	amount float64 // of the line
	below  float64 // the part of the amount that the lines below have
}

// enter adds a call below depth callers. It reports false when callers are missing.
func (o *outline) enter(depth int, function uint32, amount float64) bool {
	if depth > len(o.path) || depth > MaxDepth {
		return false
	}
	o.path = o.path[:depth]
	above := Call{}
	if depth > 0 {
		above = o.path[depth-1].call
		o.path[depth-1].below += amount
	}
	o.path = append(o.path, outlined{call: o.b.Child(above, function), amount: amount})
	return true
}

// moduled returns the function module`name.
func (o *outline) moduled(module, name []byte) uint32 {
	text := name
	if len(module) > 0 {
		text = append(append(slices.Clone(module), '`'), name...)
	}
	return o.b.Function(replaced(slices.Clone(text), ';', ':'), module, Code)
}

// sampleLines reads the output of macOS's sample. The number of a line includes those below it.
//
//	Call graph:
//	    825 Thread_15758523   DispatchQueue_1: com.apple.main-thread  (serial)
//	    + 825 start  (in libdyld.dylib) + 1  [0x7fff737cf3d5]
//	    +   800 main  (in rg) + 41  [0x10384b549]
//
// Like stack collapsers, it omits stacks that end in a system call that waits.
type sampleLines struct {
	outline
	begun, ended bool
	waits        bool // the newest line is a system call that waits
	waiting      float64
	wrong        skipped
}

// waitCalls are the system calls of macOS in which a thread waits.
//
// table: the list of FlameGraph's and inferno's collapsers
var waitCalls = []string{"__psynch_cvwait", "__select", "__semwait_signal", "__ulock_wait",
	"__wait4", "__workq_kernreturn", "kevent", "mach_msg_trap", "read", "semaphore_wait_trap"}

func newSample() *sampleLines { return &sampleLines{outline: outline{b: NewBuilder()}} }

func (s *sampleLines) line(b []byte, n int) error {
	switch {
	case s.ended:
		return nil
	case !s.begun:
		s.begun = bytes.HasPrefix(b, []byte("Call graph:"))
		return nil
	case len(bytes.TrimSpace(b)) == 0:
		return nil
	case bytes.HasPrefix(b, []byte("Total number in stack")):
		s.leave(0)
		s.ended = true
		return nil
	}
	rest, ok := bytes.CutPrefix(b, []byte("    "))
	indent := len(rest) - len(bytes.TrimLeft(rest, " +|:!"))
	if !ok || indent%2 != 0 || indent == len(rest) {
		s.wrong.skip(n,
			"no line of a call graph: four blanks, two signs for each caller, samples, function")
		return nil
	}
	count, rest, _ := bytes.Cut(rest[indent:], []byte(" "))
	if !isDigits(count) {
		s.wrong.skip(n, "no number of samples before the function")
		return nil
	}
	var module []byte
	if i := bytes.LastIndex(rest, []byte("(in ")); i >= 0 {
		module, _, _ = bytes.Cut(rest[i+4:], []byte(")"))
		module = bytes.TrimSuffix(module, []byte(".dylib"))
		rest = rest[:i]
	}
	name := withoutRust(bytes.TrimSpace(withoutArguments(bytes.TrimSpace(rest))))
	s.leave(indent / 2)
	if !s.enter(indent/2, s.moduled(module, name), parseCount(count)) {
		s.wrong.skip(n, "its callers are missing")
		return nil
	}
	s.waits = slices.ContainsFunc(waitCalls,
		func(w string) bool { return bytes.HasSuffix(name, []byte(w)) })
	return nil
}

// leave ends the calls from a depth on and adds their own amounts.
func (s *sampleLines) leave(depth int) {
	for len(s.path) > depth {
		last := s.path[len(s.path)-1]
		s.path = s.path[:len(s.path)-1]
		if s.waits {
			s.waiting += last.amount - last.below
		} else {
			s.b.Add(last.call.Node, last.amount-last.below)
		}
		s.waits = false
	}
}

func (s *sampleLines) end(lines int) (*Tree, error) {
	s.leave(0)
	t := s.b.Tree()
	switch {
	case !s.begun:
		return nil, &ParseError{Line: max(1, lines), What: "no call graph in it"}
	case !s.ended:
		t.note("the call graph has no end: the input is cut off")
	}
	if s.waiting > 0 {
		t.note(plural(int(s.waiting), "sample", "samples") + " of threads that waited left out")
	}
	return s.wrong.report(t, lines)
}

// vtuneLines reads the call tree that VTune exports as comma-separated values: function, own
// seconds, module.
//
//	Function Stack,CPU Time:Self,Module
//	Total,0.0,[Unknown]
//	 RtlUserThreadStart,0.0,ntdll.dll
type vtuneLines struct {
	outline
	time, module int // indexes of columns; below 0: absent
	wrong        skipped
}

func newVTune() *vtuneLines {
	return &vtuneLines{outline: outline{b: NewBuilder()}, time: -1, module: -1}
}

func (v *vtuneLines) line(b []byte, n int) error {
	blanks := len(b) - len(bytes.TrimLeft(b, " "))
	cells := cutCells(b[blanks:])
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return nil
	case v.time < 0:
		if bytes.HasPrefix(b, []byte("Function Stack,")) {
			for i, c := range cells {
				switch name := string(c); {
				case v.time < 0 && (name == "CPU Time:Self" || name == "CPU Time"):
					v.time = i
				case name == "Module":
					v.module = i
				}
			}
			if v.time < 0 {
				return &ParseError{Line: n, What: "VTune: no column CPU Time:Self"}
			}
		}
		return nil
	case v.time >= len(cells) || v.module >= len(cells):
		v.wrong.skip(n, "VTune: fewer values than columns")
		return nil
	}
	name := bytes.TrimLeft(cells[0], " ")
	blanks += len(cells[0]) - len(name)
	seconds, err := strconv.ParseFloat(string(bytes.TrimSuffix(cells[v.time], []byte("s"))), 64)
	if err != nil || !(seconds >= 0) || math.IsInf(seconds, 1) {
		v.wrong.skip(n, "VTune: no time in seconds")
		return nil
	}
	var module []byte
	if v.module >= 0 {
		module = cells[v.module]
	}
	if !v.enter(blanks, v.moduled(module, name), 0) {
		v.wrong.skip(n, "its callers are missing")
		return nil
	}
	v.b.Add(v.path[blanks].call.Node, math.Round(seconds*1000))
	return nil
}

func (v *vtuneLines) end(lines int) (*Tree, error) {
	t := v.b.Tree()
	t.Unit = "ms"
	return v.wrong.report(t, lines)
}

// cutCells splits a line of comma-separated values. A value with a comma is quoted; "" is a quote.
func cutCells(b []byte) (cells [][]byte) {
	for {
		if len(b) > 0 && b[0] == '"' {
			var cell []byte
			b = b[1:]
			for len(b) > 0 {
				i := bytes.IndexByte(b, '"')
				if i < 0 {
					i = len(b)
				}
				cell, b = append(cell, b[:i]...), b[min(len(b), i+1):]
				if len(b) == 0 || b[0] != '"' {
					break
				}
				cell, b = append(cell, '"'), b[1:]
			}
			cells = append(cells, cell)
			if i := bytes.IndexByte(b, ','); i >= 0 {
				b = b[i+1:]
				continue
			}
			return cells
		}
		cell, rest, more := bytes.Cut(b, []byte(","))
		if cells = append(cells, cell); !more {
			return cells
		}
		b = rest
	}
}

// visualStudioLines reads the call tree that Visual Studio's profiler exports as comma-separated
// values. Amounts are numbers of calls.
//
//	Level,Function Name,Number of Calls,...
//	0,"Raytracer.exe",0,100.00,...
//	1,"Tracer.TraceImage(int32)","2,893,824",91.25,...
//
// The number of a caller includes its callees only in part. Like inferno, the reader subtracts the
// calls of its last callee.
type visualStudioLines struct {
	outline
	begun bool
	wrong skipped
}

func newVisualStudio() *visualStudioLines {
	return &visualStudioLines{outline: outline{b: NewBuilder()}}
}

func (v *visualStudioLines) line(b []byte, n int) error {
	if !v.begun {
		v.begun = bytes.HasPrefix(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")),
			[]byte(visualStudioHead))
		return nil
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	cells := cutCells(b)
	if len(cells) < 3 || !isDigits(cells[0]) || len(cells[0]) > 6 {
		v.wrong.skip(n, "no level, function and number of calls")
		return nil
	}
	calls := withoutSeparators(cells[2])
	depth := int(parseCount(cells[0])) - 1
	if depth < 0 { // output of the program itself
		v.leave(0)
		return nil
	}
	if !isDigits(calls) || depth > len(v.path) {
		v.wrong.skip(n, "no number of calls, or its callers are missing")
		return nil
	}
	if depth < len(v.path) {
		v.leave(depth)
	}
	v.enter(depth, v.b.Function(replaced(slices.Clone(cells[1]), ';', ':'), nil, Code),
		parseCount(calls))
	return nil
}

// withoutSeparators returns the digits of a whole number in groups of three with one separator; nil
// when it is not such a number.
func withoutSeparators(b []byte) []byte {
	i := bytes.IndexAny(b, ",. ")
	if i < 0 || i > 3 {
		return b
	}
	digits := slices.Clone(b[:i])
	for _, group := range bytes.Split(b[i+1:], b[i:i+1]) {
		if len(group) != 3 {
			return nil
		}
		digits = append(digits, group...)
	}
	return digits
}

// leave ends the calls from a depth on and adds their own amounts.
func (v *visualStudioLines) leave(depth int) {
	before := 0.0
	one := len(v.path) == depth+1
	for len(v.path) > depth {
		last := v.path[len(v.path)-1]
		if before != last.amount {
			v.b.Add(last.call.Node, last.amount)
		}
		before = last.amount
		v.path = v.path[:len(v.path)-1]
		if k := len(v.path) - 1; k >= 0 && !one && before < v.path[k].amount {
			v.path[k].amount -= before
		}
	}
}

func (v *visualStudioLines) end(lines int) (*Tree, error) {
	if k := len(v.path); k > 0 {
		v.leave(k - 1)
	}
	t := v.b.Tree()
	t.Unit = "calls"
	return v.wrong.report(t, lines)
}

const visualStudioHead = "Level,Function Name,Number of Calls"

// ghcLines reads the cost centres of a Haskell program in a .prof file of GHC's run-time system.
//
//	COST CENTRE  MODULE  SRC            no.  entries  %time %alloc   %time %alloc  ticks     bytes
//
//	MAIN         MAIN    <built-in>     129        0    0.0    0.0   100.0  100.0      0         0
//	 main        Main    Main.hs:(1,1)  259        0   30.4    9.4    99.5   99.0      7   5617272
type ghcLines struct {
	outline
	value          string
	module, amount int // positions in a line, in characters
	begun, ended   bool
	wrong          skipped
}

func newGHC(o Options) *ghcLines {
	return &ghcLines{outline: outline{b: NewBuilder()}, value: o.Value}
}

// ghcHead are the words of the heading.
var ghcHead = [][]byte{[]byte("COST"), []byte("CENTRE"), []byte("MODULE"), []byte("SRC"),
	[]byte("no."), []byte("entries"), []byte("%time"), []byte("%alloc"), []byte("%time"),
	[]byte("%alloc")} // table: never changed

func isGHCHead(b []byte) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(b), ghcHead[0]) { // nearly all lines
		return false
	}
	words := bytes.Fields(b)
	return len(words) >= len(ghcHead) &&
		slices.EqualFunc(words[:len(ghcHead)], ghcHead, bytes.Equal)
}

func (g *ghcLines) line(b []byte, n int) error {
	switch {
	case g.ended:
		return nil
	case !g.begun:
		if g.begun = isGHCHead(b); g.begun {
			return g.columns(b, n)
		}
		return nil
	case len(bytes.TrimSpace(b)) == 0:
		g.ended = len(g.path) > 0
		return nil
	}
	depth := len(b) - len(bytes.TrimLeft(b, " "))
	amount, err := strconv.ParseFloat(string(wordAt(b, g.amount)), 64)
	if err != nil || !(amount >= 0) {
		g.wrong.skip(n, "no cost in its column")
		return nil
	}
	if g.value == "" || g.value == "time" {
		amount = math.Round(10 * amount) // tenths of a percent
	}
	name := append(append(slices.Clone(wordAt(b, g.module)), '.'), wordAt(b, 0)...)
	if !g.enter(depth, g.b.Function(replaced(name, ';', ':'), nil, Code), 0) {
		g.wrong.skip(n, "its callers are missing")
		return nil
	}
	g.b.Add(g.path[depth].call.Node, amount)
	return nil
}

// columns finds the columns in the heading. The error is a *ParseError.
func (g *ghcLines) columns(b []byte, n int) error {
	g.module = bytes.Index(b, []byte("MODULE"))
	switch g.value {
	case "", "time":
		g.amount = bytes.Index(b, []byte("%time"))
	case "ticks", "bytes": // aligned to the right, and may be wider than the heading
		i := bytes.Index(b, []byte(g.value))
		if i < 0 {
			return &ParseError{Line: n,
				What: "no column " + g.value + ": it is there after +RTS -P"}
		}
		g.amount = len(bytes.TrimRight(b[:i], " "))
	default:
		return &ParseError{Line: n, What: "no amount " + g.value + ": there are time, ticks, bytes"}
	}
	return nil
}

// wordAt returns the word at or after a position of a line, in characters.
func wordAt(b []byte, at int) []byte {
	for i := range string(b) {
		if at == 0 {
			b = bytes.TrimLeftFunc(b[i:], unicode.IsSpace)
			if end := bytes.IndexFunc(b, unicode.IsSpace); end >= 0 {
				b = b[:end]
			}
			return b
		}
		at--
	}
	return nil
}

func (g *ghcLines) end(lines int) (*Tree, error) {
	t := g.b.Tree()
	switch g.value {
	case "", "time":
		t.Unit = "per mille"
	default:
		t.Unit = g.value
	}
	if !g.begun || len(t.Parent) == 1 && g.wrong.lines == 0 {
		return nil, &ParseError{Line: max(1, lines), What: "no cost centres in it"}
	}
	return g.wrong.report(t, lines)
}
