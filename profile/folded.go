package profile

import (
	"bufio"
	"bytes"
	"io"
	"math"
	"slices"
	"strconv"

	"culprit/measure"
)

// foldedLines reads a stack per line: outermost;...;innermost count.
type foldedLines struct {
	p     *textTree
	least float64
	wrong skipped

	metrics bool   // lines had three amounts
	unit    string // of the amounts, if a comment has it
}

// unitComment begins the comment with the unit of the amounts.
const unitComment = "# unit: "

func newFolded(o Options) *foldedLines {
	return &foldedLines{p: newTextTree(o.meter), least: o.Least}
}

func (f *foldedLines) line(b []byte, n int) error {
	stack, count, ok := cutCount(b)
	switch {
	case len(b) > 0 && b[0] == '#' && isComment(b):
		if unit, ok := bytes.CutPrefix(b, []byte(unitComment)); ok && f.unit == "" {
			f.unit = clean(shortened(string(bytes.TrimSpace(unit)), 40))
		}
	case ok && count < 0:
		f.wrong.skip(n, "its count is below 0; two profiles are compared by --diff")
	case ok:
		f.p.add(stack, count)
	case len(bytes.TrimSpace(b)) > 0 && b[0] != '#':
		if stack, count, ok := cutMetrics(b); ok {
			f.metrics = true
			f.p.add(stack, count)
			return nil
		}
		f.wrong.skip(n, "no count at its end")
	}
	return nil
}

func (f *foldedLines) end(lines int) (*Tree, error) {
	t, err := f.wrong.report(f.p.tree(f.least), lines)
	if err == nil && f.unit != "" {
		t.Unit = f.unit
	}
	if err == nil && f.metrics {
		t.note("there are three amounts, time, idle and memory: these are the times")
	}
	return t, err
}

// cutMetrics removes austin's three amounts time,idle,memory from the end of a line and returns the
// time.
func cutMetrics(b []byte) (stack []byte, time float64, ok bool) {
	b = bytes.TrimRight(b, " \t")
	at := bytes.LastIndexByte(b, ' ')
	if at < 0 {
		return nil, 0, false
	}
	first, rest, _ := bytes.Cut(b[at+1:], []byte(","))
	idle, memory, ok := bytes.Cut(rest, []byte(","))
	if !ok || !isDigits(first) || string(idle) != "0" && string(idle) != "1" ||
		!isDigits(bytes.TrimPrefix(memory, []byte("-"))) {
		return nil, 0, false
	}
	return b[:at], parseCount(first), true
}

// foldedTwice reads folded stacks with two amounts, before and after, as difffolded.pl and
// inferno-diff-folded write them.
type foldedTwice struct {
	foldedLines
	amount int // 1: before
}

func newFoldedTwice(o Options) *foldedTwice { return &foldedTwice{*newFolded(o), o.Amount} }

func (f *foldedTwice) line(b []byte, n int) error {
	rest, after, ok := cutCount(b)
	stack, before, both := cutCount(rest)
	switch {
	case len(b) > 0 && b[0] == '#' && isComment(b):
	case ok && both && f.amount == 1:
		f.p.add(stack, before)
	case ok && both:
		f.p.add(stack, after)
	case len(bytes.TrimSpace(b)) > 0 && b[0] != '#':
		f.wrong.skip(n, "no two counts at its end")
	}
	return nil
}

func (f *foldedTwice) end(n int) (*Tree, error) {
	t, err := f.foldedLines.end(n)
	if err == nil && f.amount == 0 {
		t.note(
			"there are two amounts, before and after: this is after; " +
				"--diff with this file alone compares them",
		)
	}
	return t, err
}

// commonPrefix returns the length of the common prefix of two texts.
func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+32 <= n; i += 32 {
		if string(a[i:i+32]) != string(b[i:i+32]) {
			break
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// WriteFolded writes a line per stack, sorted by name: outermost;...;innermost amount. Where
// amounts are not of time, the first line is a comment with the unit: # unit: page-faults.
//
// In names, semicolons become colons, and control characters C's escapes. Empty names, and stacks
// of blanks only, become "-", since the format can't represent them. The error is the writer's.
func WriteFolded(w io.Writer, t *Tree) error {
	t = t.ByName()
	out := bufio.NewWriterSize(w, 64<<10)
	names := make([][]byte, len(t.Functions))
	for i, f := range t.Functions {
		names[i] = foldedName(f.Name)
	}
	var failed error
	if t.Unit != "" && !isTimeUnit(t.Unit) {
		_, failed = out.WriteString(unitComment + clean(t.Unit) + "\n")
	}
	t.lines(names, func(node int32, line []byte) {
		if len(bytes.TrimSpace(line)) == 0 { // it would look like a count without a stack
			line = []byte("-")
		}
		if t.Self[node] > 0 && failed == nil {
			_, failed = out.Write(append(AppendAmount(append(line, ' '), t.Self[node]), '\n'))
		}
	})
	if failed != nil {
		return failed
	}
	return out.Flush()
}

// lines calls each with each node and its stack as text, sorted by name. each may append to line,
// which is valid until it returns.
func (t *Tree) lines(names [][]byte, each func(node int32, line []byte)) {
	from, list := t.children()
	var line []byte
	type step struct {
		node int32
		len  int // of the line of its caller
	}
	todo := []step{{0, 0}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		line = line[:s.len]
		if s.node == 0 {
			each(0, []byte(noStack))
		} else {
			if t.Parent[s.node] > 0 {
				line = append(line, ';')
			}
			line = append(line, names[t.Function[s.node]]...)
			each(s.node, line)
		}
		for _, c := range slices.Backward(list[from[s.node]:from[s.node+1]]) {
			todo = append(todo, step{c, len(line)})
		}
	}
}

// noStack is the frame of amounts without a stack.
const noStack = "[no stack]"

// AppendAmount appends an amount: whole numbers without a point, others with 15 significant digits,
// so that 0.1 + 0.03 is 0.13 and not 0.12999999999999998.
func AppendAmount(b []byte, v float64) []byte {
	if v != math.Trunc(v) {
		if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 15, 64), 64); err == nil {
			v = short
		}
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

func foldedName(name string) []byte {
	if name == "" {
		return []byte{'-'}
	}
	return bytes.ReplaceAll([]byte(measure.Escape(name)), []byte{';'}, []byte{':'})
}
