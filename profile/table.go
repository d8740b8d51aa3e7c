package profile

import (
	"bufio"
	"cmp"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Row is one function of a profile.
type Row struct {
	Function *Function
	Self     float64 // amount of the function itself
	Total    float64 // including its callees; recursive calls count once
}

// Rows returns the functions of a profile, sorted by their own amount, highest first.
func (t *Tree) Rows() []Row {
	rows := make([]Row, len(t.Functions))
	for i := range rows {
		rows[i].Function = &t.Functions[i]
	}
	for i, f := range t.Function {
		rows[f].Self += t.Self[i]
	}
	for f, total := range t.inclusive() {
		rows[f].Total = total
	}
	rows = slices.DeleteFunc(rows[1:], func(r Row) bool { return r.Total == 0 })
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total),
			strings.Compare(a.Function.Name, b.Function.Name),
			strings.Compare(a.Function.Module, b.Function.Module))
	})
	return rows
}

// inclusive returns the amount of each function including its callees. Recursive calls count once.
func (t *Tree) inclusive() []float64 {
	total := make([]float64, len(t.Functions))
	t.outermost(func(node int) { total[t.Function[node]] += t.Total[node] })
	return total
}

// outermost calls each for the nodes that no other node of the same function calls, directly or
// indirectly.
func (t *Tree) outermost(each func(node int)) {
	// Depth-first: the open calls form a stack.
	from, list := t.callees()
	open := make([]int32, len(t.Functions)) // number of open calls of each function
	todo := []int32{0}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n < 0 { // all callees of ^n are done
			open[t.Function[^n]]--
			continue
		}
		if open[t.Function[n]] == 0 {
			each(int(n))
		}
		open[t.Function[n]]++
		todo = append(todo, ^n)
		todo = append(todo, list[from[n]:from[n+1]]...)
	}
}

// WriteTable writes a profile by function in the form of lockstat: own amount, share, cumulative
// share, CPU ("-": unknown), function. It writes at most limit functions; 0 means all. The error is
// the writer's.
func WriteTable(w io.Writer, t *Tree, limit int) error {
	lines := make([]TableLine, 0, 64)
	for _, r := range t.Rows() {
		switch {
		case r.Self > 0 && r.Function.Kind == Process:
			lines = append(lines,
				TableLine{Count: r.Self, CPU: -1, Caller: r.Function.Qualified() + " (no frames)"})
		case r.Self > 0:
			lines = append(lines, TableLine{Count: r.Self, CPU: -1, Caller: r.Function.Qualified()})
		}
	}
	if t.Self[0] > 0 {
		lines = append(lines, TableLine{Count: t.Self[0], CPU: -1, Caller: noStack})
	}
	return WriteTableLines(w, lines, t.Sum(), t.Unit, limit)
}

// Qualified returns the function's name after its module, as DTrace prints it: module`name.
func (f *Function) Qualified() string {
	if f.Module == "" || strings.Contains(f.Name, "`") {
		return f.Name
	}
	return f.Module + "`" + f.Name
}

// A TableLine is a line of a table of WriteTableLines.
type TableLine struct {
	Count  float64
	CPU    int // below 0: unknown
	Caller string
}

// WriteTableLines writes the first limit lines (0: all), highest count first, and the sum of the
// others. The error is the writer's.
func WriteTableLines(w io.Writer, lines []TableLine, whole float64, unit string, limit int) error {
	slices.SortStableFunc(lines, func(a, b TableLine) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Caller, b.Caller),
			cmp.Compare(a.CPU, b.CPU))
	})
	out := bufio.NewWriter(w)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // Flush returns it
	write(pad("Count", 9) + " indv cuml  CPU Caller\n" + strings.Repeat("-", 79) + "\n")
	sum := 0.0
	for i, l := range lines {
		if limit > 0 && i == limit {
			rest := 0.0
			for _, l := range lines[i:] {
				rest += l.Count
			}
			write(
				pad(amount(rest), 9) + pad(percent(rest, whole),
					5) + "  100%    - (" + plural(len(lines)-i, "other", "others") + ")\n",
			)
			break
		}
		sum += l.Count
		cpu := "-"
		if l.CPU >= 0 {
			cpu = strconv.Itoa(l.CPU)
		}
		write(
			pad(amount(l.Count), 9) + pad(percent(l.Count, whole), 5) +
				pad(percent(sum, whole), 5) + pad(cpu, 5) + " " +
				clean(shortened(l.Caller, maxName)) + "\n",
		)
	}
	write(strings.Repeat("-", 79) + "\n" + pad(amount(whole), 9) + " " + unit + "\n")
	return out.Flush()
}

func percent(part, whole float64) string {
	if whole == 0 {
		return "-"
	}
	return strconv.Itoa(int(math.Round(100*part/whole))) + "%"
}

// pad aligns a text to the right of a column.
func pad(s string, width int) string { return strings.Repeat(" ", max(0, width-len(s))) + s }

// WriteText writes a profile as a tree of calls, the highest totals first, without calls of less
// than a thousandth of the whole. The error is the writer's.
func WriteText(w io.Writer, t *Tree) error {
	out := bufio.NewWriterSize(w, 64<<10)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // Flush returns it
	whole := t.Sum()
	shown := t.Prune(whole / 1000)
	from, list := shown.callees()
	for i := range shown.Len() {
		c := list[from[i]:from[i+1]]
		slices.SortStableFunc(c, func(a, b int32) int {
			return cmp.Or(cmp.Compare(shown.Total[b], shown.Total[a]),
				cmp.Compare(shown.Name(int(a)), shown.Name(int(b))))
		})
	}
	width := max(9, len(amount(whole)))
	write(pad(shown.Unit, width) + "   total    self  function\n")
	type step struct {
		node  int32
		depth int
	}
	todo := []step{{0, 0}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		f := &shown.Functions[shown.Function[s.node]]
		self := "-"
		if v := shown.Self[s.node]; v > 0 {
			self = share(v, whole)
		}
		// The indent ends at a depth of 100; deeper calls have their depth in brackets.
		indent := strings.Repeat("  ", s.depth)
		if s.depth > 100 {
			indent = strings.Repeat("  ", 100) + "[" + strconv.Itoa(s.depth) + "] "
		}
		total := shown.Total[s.node]
		write(pad(amount(total), width) + pad(share(total, whole), 8) + pad(self, 8) + "  " +
			indent + clean(shortened(f.Name, maxName)))
		if f.Module != "" && f.Kind != Process && !strings.Contains(f.Name, "`") &&
			f.Name != "["+f.Module+"]" {
			write(" [" + clean(shortened(f.Module, maxName)) + "]")
		}
		write("\n")
		c := list[from[s.node]:from[s.node+1]]
		for _, child := range slices.Backward(c) {
			todo = append(todo, step{child, s.depth + 1})
		}
	}
	if left := t.Len() - shown.Len(); left > 0 {
		write(plural(left, "call", "calls") + " of less than 0.1% left out\n")
	}
	return out.Flush()
}
