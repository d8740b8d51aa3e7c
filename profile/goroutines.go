package profile

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// goroutineLines reads stacks of goroutines of a crash, SIGQUIT and /debug/pprof/goroutine?debug=2.
// Each goroutine is a sample:
//
//	goroutine 7 [chan receive, 2 minutes]:
//	main.worker(0xc000012345)
//		/srv/app/main.go:30 +0x45
//	created by main.main in goroutine 1
//		/srv/app/main.go:18 +0x65
//
// It also reads debug=1, which contains each distinct stack once with its number of goroutines:
//
//	2 @ 0x43a1b6 0x40a5e5
//	#	0x4a2b32	main.worker+0x32	/srv/app/main.go:30
type goroutineLines struct {
	b       *Builder
	stack   []uint32 // innermost first
	count   float64
	inside  bool
	creator bool           // the line before was "created by"
	states  map[string]int // number of goroutines by state
	found   bool
	wrong   skipped
}

func newGoroutines(o Options) *goroutineLines {
	return &goroutineLines{b: o.builder(), states: map[string]int{}}
}

// goroutineHead returns the state in a goroutine's first line: goroutine 7 [chan receive, 2
// minutes]:
func goroutineHead(b []byte) (state string, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte("goroutine "))
	if !ok || !bytes.HasSuffix(rest, []byte("]:")) {
		return "", false
	}
	number, rest, _ := bytes.Cut(rest, []byte(" "))
	i := bytes.IndexByte(rest, '[')
	if !isDigits(number) || i < 0 {
		return "", false
	}
	state, _, _ = strings.Cut(string(rest[i+1:len(rest)-2]), ",")
	return state, true
}

// goroutineCount returns the number of goroutines with the following stack: 2 @ 0x43a1b6 0x40a5e5.
func goroutineCount(b []byte) (count float64, ok bool) {
	number, rest, ok := bytes.Cut(b, []byte(" @"))
	if !ok || !isDigits(number) || len(rest) > 0 && !bytes.HasPrefix(rest, []byte(" 0x")) {
		return 0, false
	}
	return parseCount(number), true
}

func (g *goroutineLines) line(b []byte, n int) error {
	b = bytes.TrimRight(b, " ")
	if state, ok := goroutineHead(b); ok {
		g.done()
		g.inside, g.count = true, 1
		if len(g.states) < 100 {
			g.states[state]++
		}
		return nil
	}
	if count, ok := goroutineCount(b); ok {
		g.done()
		g.inside, g.count = true, count
		return nil
	}
	switch {
	case len(b) == 0:
		g.done()
	case !g.inside, bytes.HasPrefix(b, []byte("# labels:")), bytes.HasPrefix(b, []byte("...")):
		// Output of the program itself.
	case bytes.HasPrefix(b, []byte("#\t")):
		g.symbol(b)
	case b[0] == '\t' || b[0] == ' ':
		g.place(b)
	case bytes.HasPrefix(b, []byte("created by ")):
		g.creator = true
	default:
		g.creator = false
		i := bytes.LastIndexByte(b, '(')
		if i <= 0 || b[len(b)-1] != ')' {
			g.wrong.skip(n, "neither a goroutine nor a frame of one")
			return nil
		}
		g.stack = append(g.stack, g.b.Function(replaced(slices.Clone(b[:i]), ';', ':'), nil, Code))
	}
	return nil
}

// place parses the place of the function before: /srv/app/main.go:30 +0x45.
func (g *goroutineLines) place(b []byte) {
	if g.creator || len(g.stack) == 0 {
		return
	}
	at := bytes.TrimSpace(b)
	if i := bytes.LastIndex(at, []byte(" +0x")); i > 0 {
		at = at[:i]
	}
	if file, line, ok := sourceLine(at); ok {
		if f := &g.b.tree.Functions[g.stack[len(g.stack)-1]]; f.File == "" {
			f.File, f.Line = file, line
		}
	}
}

// symbol parses a frame of debug=1: #, address, function+offset and place, separated by tabs.
func (g *goroutineLines) symbol(b []byte) {
	fields := bytes.Split(bytes.TrimLeft(b[1:], "\t"), []byte("\t"))
	if len(fields) < 2 {
		return
	}
	name := cutOffset(bytes.TrimSpace(fields[1]))
	g.stack = append(g.stack, g.b.Function(replaced(slices.Clone(name), ';', ':'), nil, Code))
	g.place(bytes.TrimSpace(fields[len(fields)-1]))
}

func (g *goroutineLines) done() {
	if g.inside {
		slices.Reverse(g.stack)
		if len(g.stack) == 0 {
			g.stack = append(g.stack, g.b.Named([]byte("[unknown]")))
		}
		g.b.Stack(g.stack, g.count)
		g.found = true
	}
	g.stack, g.inside, g.creator = g.stack[:0], false, false
}

func (g *goroutineLines) end(lines int) (*Tree, error) {
	g.done()
	if !g.found {
		return nil, &ParseError{Line: max(1, lines), What: "no goroutines in it"}
	}
	t := g.b.Tree()
	t.Unit = "goroutines"
	var states []string
	for _, s := range slices.Sorted(maps.Keys(g.states)) {
		states = append(states, fmt.Sprintf("%s (%d)", clean(shortened(s, 40)), g.states[s]))
	}
	if len(states) > 8 {
		states = append(states[:8], "and others")
	}
	if len(states) > 0 {
		t.note("goroutines at one moment, those that wait as well: " + strings.Join(states, ", "))
	}
	return g.wrong.report(t, lines)
}

// pmcLines reads call graphs of FreeBSD's pmcstat -G: callees first, each with its share and
// samples.
//
//	@ CPU_CLK_UNHALTED [10 samples]
//
//	70.00%  [7]        work @ /boot/kernel/kernel
//	 100.0%  [7]         main
//
// The depth is the number of blanks at the start of a line. A function's own samples are those that
// its callers don't have.
type pmcLines struct {
	b      *Builder
	path   []pmcCall
	event  string
	skip   bool
	found  bool
	others map[string]int
	wrong  skipped
}

type pmcCall struct {
	function uint32
	left     float64 // samples whose callers were not read yet
}

func newPMC(o Options) *pmcLines { return &pmcLines{b: o.builder(), others: map[string]int{}} }

// pmcHead parses the heading of an event's call graph.
func pmcHead(b []byte) (event string, samples int, ok bool) {
	rest, ok := bytes.CutPrefix(b, []byte("@ "))
	name, number, ok2 := bytes.Cut(rest, []byte(" ["))
	number, ok3 := bytes.CutSuffix(number, []byte(" samples]"))
	return string(name), int(min(parseCount(number), 1<<53)), ok && ok2 && ok3 && isDigits(number)
}

func (p *pmcLines) line(b []byte, n int) error {
	b = bytes.TrimRight(b, " \t")
	if event, samples, ok := pmcHead(b); ok {
		p.leave(0)
		if p.event == "" {
			p.event = event
		}
		if p.skip = event != p.event; p.skip && len(p.others) < 100 {
			p.others[event] += samples
		}
		return nil
	}
	if len(b) == 0 {
		p.leave(0)
		return nil
	}
	if b[0] == '#' { // a comment
		return nil
	}
	depth := len(b) - len(bytes.TrimLeft(b, " "))
	w := perfWords{b: b}
	share, _ := w.next()
	count, _ := w.next()
	name := bytes.TrimSpace(b[w.end:])
	if p.skip {
		return nil
	}
	if len(share) == 0 || share[len(share)-1] != '%' || len(count) < 3 || count[0] != '[' ||
		!isDigits(count[1:len(count)-1]) ||
		len(name) == 0 ||
		depth > len(p.path) {
		p.wrong.skip(n, "no share, samples and function")
		return nil
	}
	if depth >= MaxDepth {
		return &ParseError{Line: n, What: "deeper than 65,536 frames"}
	}
	name, file, _ := bytes.Cut(name, []byte(" @ "))
	p.leave(depth)
	samples := parseCount(count[1 : len(count)-1])
	if depth > 0 {
		p.path[depth-1].left -= samples
	}
	function := p.b.Function(replaced(slices.Clone(name), ';', ':'), baseName(file), Code)
	p.path = append(p.path, pmcCall{function, samples})
	p.found = true
	return nil
}

// leave ends the calls from a depth on.
func (p *pmcLines) leave(depth int) {
	for len(p.path) > depth {
		if left := p.path[len(p.path)-1].left; left > 0 {
			var stack []uint32
			for _, c := range slices.Backward(p.path) {
				stack = append(stack, c.function)
			}
			p.b.Stack(stack, left)
		}
		p.path = p.path[:len(p.path)-1]
	}
}

func (p *pmcLines) end(lines int) (*Tree, error) {
	p.leave(0)
	if !p.found {
		return nil, &ParseError{Line: max(1, lines), What: "no call graph in it"}
	}
	if len(p.others) > 0 {
		p.b.tree.note(othersNote(p.event, p.others))
	}
	return p.wrong.report(p.b.Tree(), lines)
}
