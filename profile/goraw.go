package profile

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// goRawLines reads go tool pprof -raw: samples with numbers of locations, innermost first, then the
// locations.
//
//	PeriodType: cpu nanoseconds
//	Samples:
//	samples/count cpu/nanoseconds
//	          1   10000000: 1 2 3
//	Locations
//	     1: 0x46d2f3 M=1 runtime.futex /usr/lib/go/src/runtime/sys_linux_amd64.s:557:0 s=549
//	             runtime.futexsleep /usr/lib/go/src/runtime/os_linux.go:69:0 s=50
//	Mappings
//
// A location with several lines contains inlined functions, innermost first.
type goRawLines struct {
	b         *Builder
	value     string
	part      string // of the file: the newest heading
	unit      string
	column    int // of the amounts
	samples   []goRawSample
	locations []int                  // of all samples
	frames    map[int][][]byte       // of a location: names, innermost first
	files     map[string]sourcePlace // by name
	at        int                    // the newest location
	wrong     skipped
}

type goRawSample struct {
	amount   float64
	from, to int // in locations
	line     int // in the file
}

type sourcePlace struct {
	file string
	line int
}

func newGoRaw(o Options) *goRawLines {
	return &goRawLines{b: o.builder(), value: o.Value, frames: map[int][][]byte{},
		files: map[string]sourcePlace{}}
}

func (g *goRawLines) line(b []byte, n int) error {
	text := bytes.TrimSpace(b)
	switch word := string(text); word {
	case "Samples:", "Locations", "Mappings":
		g.part = word
		return nil
	}
	switch {
	case len(text) == 0:
	case g.part == "Samples:" && g.unit == "":
		return g.columns(text, n)
	case g.part == "Samples:":
		g.sample(text, n)
	case g.part == "Locations":
		g.location(text, n)
	}
	return nil
}

// columns chooses one of the amounts: the requested one, the profile's default, or the first. The
// error is a *ParseError.
func (g *goRawLines) columns(b []byte, n int) error {
	var names []string
	chosen := -1
	for i, c := range bytes.Fields(b) {
		name, unit, _ := strings.Cut(string(c), "/")
		unit, preferred := strings.CutSuffix(unit, "[dflt]")
		names = append(names, name)
		if g.value == name || g.value == "" && (preferred || i == 0) {
			chosen, g.unit = i, unit
		}
	}
	if chosen < 0 {
		return &ParseError{Line: n,
			What: "no amount " + g.value + ": there are " + strings.Join(names, ", ")}
	}
	g.column = chosen
	switch g.unit {
	case "nanoseconds":
		g.unit = "ns"
	case "count", "":
		if g.unit = names[chosen]; g.unit == "" {
			g.unit = "samples"
		}
	}
	return nil
}

// sample parses amounts: locations. Labels of a sample are on lines of their own.
func (g *goRawLines) sample(b []byte, n int) {
	amounts, stack, ok := bytes.Cut(b, []byte(":"))
	values := bytes.Fields(amounts)
	if !ok || len(values) == 0 || !isDigits(values[0]) {
		return // labels
	}
	if g.column >= len(values) || !isDigits(values[g.column]) {
		g.wrong.skip(n, "no amounts and locations")
		return
	}
	s := goRawSample{amount: parseCount(values[g.column]), from: len(g.locations), line: n}
	for _, id := range bytes.Fields(stack) {
		i, err := strconv.Atoi(string(id))
		if err != nil || len(g.locations)-s.from >= MaxDepth {
			g.wrong.skip(n, "no amounts and locations")
			g.locations = g.locations[:s.from]
			return
		}
		g.locations = append(g.locations, i)
	}
	s.to = len(g.locations)
	g.samples = append(g.samples, s)
}

// location parses number: 0xaddress M=mapping function file:line:column s=line, or the part from
// the function on for further functions of a location.
func (g *goRawLines) location(b []byte, n int) {
	number, rest, ok := bytes.Cut(b, []byte(": 0x"))
	if ok && isDigits(number) {
		id, err := strconv.Atoi(string(number))
		if err != nil {
			g.wrong.skip(n, "no location")
			return
		}
		g.at = id
		if _, rest, ok = bytes.Cut(rest, []byte(" ")); !ok {
			return // it has no function
		}
		if b = rest; bytes.HasPrefix(b, []byte("M=")) {
			if _, b, ok = bytes.Cut(b, []byte(" ")); !ok {
				return
			}
		}
	}
	name, rest, ok := cutPlace(b)
	if !ok {
		return
	}
	name = slices.Clone(name)
	g.frames[g.at] = append(g.frames[g.at], name)
	if _, there := g.files[string(name)]; there {
		return
	}
	file, places, _ := bytes.Cut(rest, []byte(":"))
	line, _, _ := bytes.Cut(places, []byte(":"))
	at, err := strconv.Atoi(string(line))
	if err != nil || at < 0 {
		at = 0
	}
	if _, begin, ok := bytes.Cut(rest, []byte(" s=")); ok {
		if i, err := strconv.Atoi(string(firstWord(begin))); err == nil && i > 0 {
			at = i
		}
	}
	g.files[string(name)] = sourcePlace{string(file), at}
}

// cutPlace separates a function's name, which may contain blanks, from its place: the first word
// with a colon before a digit, outside of brackets.
func cutPlace(b []byte) (name, place []byte, ok bool) {
	depth := 0
	for i, c := range b {
		switch c {
		case '[', '(', '{':
			depth++
		case ']', ')', '}':
			depth--
		case ' ':
			if depth <= 0 {
				return b[:i], bytes.TrimSpace(b[i:]), i > 0
			}
		}
	}
	return b, nil, len(b) > 0
}

func (g *goRawLines) end(lines int) (*Tree, error) {
	if g.part == "" || g.unit == "" {
		return nil, &ParseError{Line: max(1, lines), What: "no samples in it"}
	}
	stacks := map[int][]uint32{} // of a location, outermost first
	var stack []uint32
	for _, s := range g.samples {
		stack = stack[:0]
		for _, id := range slices.Backward(g.locations[s.from:s.to]) {
			known, ok := stacks[id]
			if !ok {
				names := g.frames[id]
				if len(names) == 0 { // it has no function
					names = [][]byte{[]byte(strconv.Itoa(id))}
				}
				for i, name := range slices.Backward(names) {
					kind := Code
					if i < len(names)-1 {
						kind = Inlined
					}
					f := g.b.Function(replaced(slices.Clone(name), ';', ':'), nil, kind)
					if src, ok := g.files[string(name)]; ok {
						g.b.tree.Functions[f].File, g.b.tree.Functions[f].Line = src.file, src.line
					}
					known = append(known, f)
				}
				stacks[id] = known
			}
			if stack = append(stack, known...); len(stack) > MaxDepth { // Stack cuts it
				break
			}
		}
		g.b.Stack(stack, s.amount)
	}
	if g.part == "Samples:" {
		g.b.tree.note("there are no locations: the input is cut off, and functions have numbers")
	}
	t := g.b.Tree()
	t.Unit = clean(shortened(g.unit, 40))
	return g.wrong.report(t, lines)
}
