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
	Self     float64 // amount in the function itself
	Total    float64 // and in what it calls; a function that calls itself counts once
}

// Rows gives the functions of a profile, those with the most in themselves first.
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
		return cmp.Or(cmp.Compare(b.Self, a.Self), cmp.Compare(b.Total, a.Total), strings.Compare(a.Function.Name, b.Function.Name), strings.Compare(a.Function.Module, b.Function.Module))
	})
	return rows
}

// inclusive gives what stands below each function, each amount once however often the function stands in a stack.
func (t *Tree) inclusive() []float64 {
	total := make([]float64, len(t.Functions))
	t.outermost(func(node int) { total[t.Function[node]] += t.Total[node] })
	return total
}

// outermost gives the nodes above which their function does not stand.
func (t *Tree) outermost(each func(node int)) {
	// Nodes in the order of a walk: children of a node behind it, so that what is open is a stack.
	from, list := t.families()
	open := make([]int32, len(t.Functions)) // how often each function stands in the path
	todo := []int32{0}
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if n < 0 { // the end of a node
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

// WriteTable writes a profile by functions as lockstat prints one: the amount in each function itself, its share of all, the shares so
// far, the CPU ("-": not told), and the function.
func WriteTable(w io.Writer, t *Tree, most int) error {
	lines := make([]TableLine, 0, 64)
	for _, r := range t.Rows() {
		switch {
		case r.Self > 0 && r.Function.Kind == Process:
			lines = append(lines, TableLine{Count: r.Self, CPU: -1, Caller: r.Function.Place() + " (no frames)"})
		case r.Self > 0:
			lines = append(lines, TableLine{Count: r.Self, CPU: -1, Caller: r.Function.Place()})
		}
	}
	if t.Self[0] > 0 {
		lines = append(lines, TableLine{Count: t.Self[0], CPU: -1, Caller: noStack})
	}
	return WriteTableLines(w, lines, t.Sum(), t.Unit, most)
}

// Place gives a function's name with its module before it, as DTrace does: module`name.
func (f *Function) Place() string {
	if f.Module == "" || strings.Contains(f.Name, "`") {
		return f.Name
	}
	return f.Module + "`" + f.Name
}

// A TableLine is a line of WriteTableLines.
type TableLine struct {
	Count  float64
	CPU    int // below 0: not told
	Caller string
}

// WriteTableLines writes lines, the first most of them (0: all), and how much the others have.
func WriteTableLines(w io.Writer, lines []TableLine, whole float64, unit string, most int) error {
	slices.SortStableFunc(lines, func(a, b TableLine) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.CPU, b.CPU))
	})
	out := bufio.NewWriter(w)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // told when it is flushed
	write(pad("Count", 9) + " indv cuml  CPU Caller\n" + strings.Repeat("-", 79) + "\n")
	sum := 0.0
	for i, l := range lines {
		if most > 0 && i == most {
			rest := 0.0
			for _, l := range lines[i:] {
				rest += l.Count
			}
			write(pad(amount(rest), 9) + pad(percent(rest, whole), 5) + "  100%    - (" + plural(len(lines)-i, "other", "others") + ")\n")
			break
		}
		sum += l.Count
		cpu := "-"
		if l.CPU >= 0 {
			cpu = strconv.Itoa(l.CPU)
		}
		write(pad(amount(l.Count), 9) + pad(percent(l.Count, whole), 5) + pad(percent(sum, whole), 5) + pad(cpu, 5) + " " + clean(shortened(l.Caller, mostName)) + "\n")
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

// pad puts a text at the right of a column.
func pad(s string, width int) string { return strings.Repeat(" ", max(0, width-len(s))) + s }

// WriteText writes a profile as a tree of calls, what has the most first; what has less than a thousandth is left out.
func WriteText(w io.Writer, t *Tree) error {
	out := bufio.NewWriterSize(w, 64<<10)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // told when it is flushed
	whole := t.Sum()
	shown := t.Prune(whole / 1000)
	from, list := shown.families()
	for i := range shown.Len() {
		c := list[from[i]:from[i+1]]
		slices.SortStableFunc(c, func(a, b int32) int {
			return cmp.Or(cmp.Compare(shown.Total[b], shown.Total[a]), cmp.Compare(shown.Name(int(a)), shown.Name(int(b))))
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
		// A chain of calls goes no further to the right than a hundred steps; how deep it is stands before it then.
		indent := strings.Repeat("  ", s.depth)
		if s.depth > 100 {
			indent = strings.Repeat("  ", 100) + "[" + strconv.Itoa(s.depth) + "] "
		}
		write(pad(amount(shown.Total[s.node]), width) + pad(share(shown.Total[s.node], whole), 8) + pad(self, 8) + "  " + indent + clean(shortened(f.Name, mostName)))
		if f.Module != "" && f.Kind != Process && !strings.Contains(f.Name, "`") && f.Name != "["+f.Module+"]" {
			write(" [" + clean(shortened(f.Module, mostName)) + "]")
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
