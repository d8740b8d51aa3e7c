package profile

import (
	"bytes"
	"strconv"
)

// Instruments is a call tree copied from Instruments (Edit, Deep Copy).
const Instruments Format = "Instruments' call tree"

// instrumentsLines reads a call tree of Instruments. Columns are separated by tabs; the name is
// indented by one blank per caller.
//
//	Weight	Self Weight		Symbol Name
//	4.93 s  100.0%	0 s	 	start
//	797.00 ms   16.6%	786.00 ms	 	  alpha()
//
// A tree without its own amounts has those of a call without what it calls.
type instrumentsLines struct {
	outline
	self   bool    // there is a column of own amounts
	scale  float64 // of its numbers without a unit; 0: they have units
	unit   string  // "": unknown
	base   int     // blanks of the first name
	began  bool
	headed bool
	wrong  skipped
}

func newInstruments(o Options) *instrumentsLines {
	return &instrumentsLines{outline: outline{b: o.builder()}}
}

// instrumentsUnits are the units of amounts, and what they are in the tree.
//
// table: as Instruments prints them
var instrumentsUnits = map[string]struct {
	unit  string
	scale float64
}{
	"ns": {"ns", 1}, "µs": {"ns", 1e3}, "us": {"ns", 1e3}, "ms": {"ns", 1e6}, "s": {"ns", 1e9},
	"min": {"ns", 60e9}, "h": {"ns", 3600e9},
	"bytes": {"bytes", 1}, "byte": {"bytes", 1}, "b": {"bytes", 1}, "kb": {"bytes", 1 << 10},
	"mb": {"bytes", 1 << 20}, "gb": {"bytes", 1 << 30},
	"cycles": {"cycles", 1}, "c": {"cycles", 1}, "kc": {"cycles", 1e3}, "mc": {"cycles", 1e6},
	"gc": {"cycles", 1e9}, "tc": {"cycles", 1e12},
}

// isInstruments reports whether a line is the heading.
func isInstruments(line []byte) bool {
	cells := bytes.Split(line, []byte("\t"))
	last := bytes.TrimSpace(cells[len(cells)-1])
	return len(cells) >= 3 && bytes.HasPrefix(last, []byte("Symbol Name")) &&
		(bytes.HasPrefix(line, []byte("Weight")) || bytes.HasPrefix(line, []byte("Running Time")) ||
			bytes.HasPrefix(line, []byte("Bytes Used")))
}

func (p *instrumentsLines) line(b []byte, n int) error {
	cells := bytes.Split(b, []byte("\t"))
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return nil
	case !p.headed:
		if p.headed = true; len(cells) < 2 {
			return nil
		}
		head := bytes.TrimSpace(cells[1])
		p.self = bytes.HasPrefix(head, []byte("Self"))
		if bytes.HasSuffix(head, []byte("(ms)")) {
			p.scale = 1e6
		}
		return nil
	case len(cells) < 3:
		p.wrong.skip(n, "no weight, own weight and name")
		return nil
	}
	weight, ok := p.amount(cells[0], 0)
	own := 0.0
	if p.self && ok && string(bytes.TrimSpace(cells[1])) != "-" {
		own, ok = p.amount(cells[1], p.scale)
	}
	if !ok {
		p.wrong.skip(n, "no amount with a known unit")
		return nil
	}
	text := cells[len(cells)-1]
	name := bytes.TrimLeft(text, " ")
	depth := len(text) - len(name)
	if !p.began {
		p.began, p.base = true, depth
	}
	p.leave(max(0, depth-p.base))
	name = withoutRust(bytes.TrimSpace(withoutArguments(bytes.TrimSpace(name))))
	if depth < p.base || !p.enter(depth-p.base, p.moduled(nil, name), weight) {
		p.wrong.skip(n, "its callers are missing")
		return nil
	}
	if p.self {
		p.b.Add(p.path[len(p.path)-1].call.Node, own)
	}
	return nil
}

// amount parses an amount with its unit. scale is that of a number without one; 0: it needs one.
func (p *instrumentsLines) amount(cell []byte, scale float64) (float64, bool) {
	cell = bytes.TrimSpace(cell)
	end := 0
	for end < len(cell) && (cell[end] >= '0' && cell[end] <= '9' || cell[end] == '.' ||
		cell[end] == ',') {
		end++
	}
	v, err := strconv.ParseFloat(string(bytes.ReplaceAll(cell[:end], []byte(","), nil)), 64)
	if err != nil {
		return 0, false
	}
	word := bytes.ToLower(firstField(cell[end:]))
	u, known := instrumentsUnits[string(word)]
	switch {
	case known && (p.unit == "" || p.unit == u.unit):
		p.unit = u.unit
		return v * u.scale, true
	case !known && scale > 0:
		return v * scale, true
	}
	return 0, false
}

// leave ends the calls from a depth on. Without own amounts they have what their callees lack.
func (p *instrumentsLines) leave(depth int) {
	for len(p.path) > depth {
		last := p.path[len(p.path)-1]
		p.path = p.path[:len(p.path)-1]
		if !p.self {
			p.b.Add(last.call.Node, last.amount-last.below)
		}
	}
}

func (p *instrumentsLines) end(lines int) (*Tree, error) {
	p.leave(0)
	t := p.b.Tree()
	if p.unit != "" {
		t.Unit = p.unit
	}
	t.note("amounts are those that Instruments prints, which are rounded")
	return p.wrong.report(t, lines)
}
