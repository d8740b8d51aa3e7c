package profile

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
	"unsafe"
)

// A LineRow is what a source line of a function has.
type LineRow struct {
	Function uint32 // index into Tree.Functions
	Line     int32  // above 0
	Self     float64
	Total    float64 // with what the line calls; a stack that has the line twice counts once
}

// A lineSet adds up source lines, for one goroutine. The zero value is empty.
type lineSet struct {
	meter *meter
	at    map[lineKey]int32 // index into rows
	rows  []LineRow
	seen  []int32 // of each row, the last stack that has it
	stack int32
}

type lineKey struct {
	function uint32
	line     int32
}

// add adds a stack, outermost function first. lines has the line of each function; 0: unknown.
func (s *lineSet) add(functions []uint32, lines []int32, amount float64) {
	if !(amount > 0) || math.IsInf(amount, 1) || len(functions) != len(lines) {
		return
	}
	s.stack++
	last := len(functions) - 1
	for i, line := range lines {
		if line <= 0 || i >= MaxDepth { // Builder.Stack cuts it there
			continue
		}
		n := s.row(lineKey{functions[i], line})
		if s.seen[n] != s.stack {
			s.seen[n] = s.stack
			s.rows[n].Total += amount
		}
		if i == last {
			s.rows[n].Self += amount
		}
	}
}

// A lineSpans adds up the lines of functions that open and close, in the order of time.
type lineSpans struct {
	set   *lineSet
	since map[lineKey]openLine
}

// An openLine is a line that is open n times, since a time.
type openLine struct {
	n  int
	at float64
}

func (o *lineSpans) open(function uint32, line int32, at float64) {
	if line <= 0 {
		return
	}
	key := lineKey{function, line}
	l := o.since[key]
	if l.n == 0 {
		l.at = at
	}
	l.n++
	o.since[key] = l
}

func (o *lineSpans) closed(function uint32, line int32, at float64) {
	if line <= 0 {
		return
	}
	key := lineKey{function, line}
	l := o.since[key]
	if l.n--; l.n == 0 && at > l.at {
		o.set.rows[o.set.row(key)].Total += at - l.at
	}
	o.since[key] = l
}

// self adds the own time of a line.
func (o *lineSpans) self(function uint32, line int32, amount float64) {
	if line > 0 && amount > 0 && !math.IsInf(amount, 1) {
		o.set.rows[o.set.row(lineKey{function, line})].Self += amount
	}
}

// row returns the index of a row, which it adds when it is new.
func (s *lineSet) row(key lineKey) int32 {
	n, ok := s.at[key]
	if !ok {
		s.meter.add(jsonEntry + 2*int(unsafe.Sizeof(LineRow{})+8))
		if s.at == nil {
			s.at = map[lineKey]int32{}
		}
		n = int32(len(s.rows))
		s.at[key] = n
		s.rows = append(s.rows, LineRow{Function: key.function, Line: key.line})
		s.seen = append(s.seen, 0)
	}
	return n
}

// join adds the rows of another profile, whose function f is to[f] here.
func (s *lineSet) join(rows []LineRow, to []uint32) {
	for _, r := range rows {
		n := s.row(lineKey{to[r.Function], r.Line})
		s.rows[n].Self += r.Self
		s.rows[n].Total += r.Total
	}
}

// list returns the rows by function and line.
func (s *lineSet) list() []LineRow {
	slices.SortFunc(s.rows, func(a, b LineRow) int {
		return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
	})
	return s.rows
}

// regroupLines returns the rows with functions replaced; nil when two rows become one, since a
// stack with both must count once.
func regroupLines(rows []LineRow, to []uint32) []LineRow {
	s := lineSet{at: map[lineKey]int32{}}
	for _, r := range rows {
		key := lineKey{to[r.Function], r.Line}
		if key.function == 0 {
			continue
		}
		if _, twice := s.at[key]; twice {
			return nil
		}
		r.Function = key.function
		s.at[key] = int32(len(s.rows))
		s.rows = append(s.rows, r)
	}
	return s.list()
}

// HasLines reports whether the frames of the profile have source lines.
func (t *Tree) HasLines() bool { return len(t.Lines) > 0 }

// WriteLines writes a table of source lines, those with the highest own amount first. rows bounds
// it; 0: all. The error is the writer's.
func WriteLines(w io.Writer, t *Tree, rows int) error {
	list := slices.Clone(t.Lines)
	name := func(r *LineRow) string { return t.Functions[r.Function].Name }
	slices.SortFunc(list, func(a, b LineRow) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total),
			cmp.Compare(name(&a), name(&b)), cmp.Compare(a.Line, b.Line))
	})
	shown := list
	if rows > 0 {
		shown = list[:min(rows, len(list))]
	}
	out := bufio.NewWriterSize(w, 64<<10)
	whole := t.Sum()
	cells := func(self, selfShare, total, totalShare, line string) {
		b := append(rightAligned(nil, self, 14), ' ')
		b = append(rightAligned(b, selfShare, 7), ' ')
		b = append(rightAligned(b, total, 14), ' ')
		b = append(rightAligned(b, totalShare, 7), "  "...)
		out.Write(append(append(b, line...), '\n')) //nolint:errcheck // Flush returns it
	}
	head := append([]byte("amounts are "+clean(shortened(t.Unit, 40))+"; shares are of "),
		string(appendRead(nil, whole))...)
	out.Write(append(head, '\n')) //nolint:errcheck // as below
	cells("self", "self", "total", "total", "line")
	for i := range shown {
		r := &shown[i]
		f := &t.Functions[r.Function]
		at := cmp.Or(f.File, f.Module, "?") + ":" + strconv.Itoa(int(r.Line))
		cells(
			string(appendRead(nil, r.Self)), string(appendShare(nil, r.Self, whole)),
			string(appendRead(nil, r.Total)), string(appendShare(nil, r.Total, whole)),
			clean(shortened(f.Name, 200))+"  "+clean(shortened(at, 300)),
		)
	}
	if n := len(list) - len(shown); n > 0 {
		out.WriteString(plural(n, "more line", "more lines") + "\n") //nolint:errcheck // as above
	}
	return out.Flush()
}

// rightAligned appends a text with blanks before it.
func rightAligned(b []byte, text string, width int) []byte {
	for range width - len(text) {
		b = append(b, ' ')
	}
	return append(b, text...)
}
