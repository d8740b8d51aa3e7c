package profile

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

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

func newVTune(o Options) *vtuneLines {
	return &vtuneLines{outline: outline{b: o.builder()}, time: -1, module: -1}
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

func newVisualStudio(o Options) *visualStudioLines {
	return &visualStudioLines{outline: outline{b: o.builder()}}
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
