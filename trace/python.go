package trace

import (
	"fmt"
	"slices"
	"strings"

	"culprit/symbol"
	"culprit/symbol/python"
)

// Frames of Python are numbers in a stack of addresses: a python.Word each. This file finds
// their names.

const (
	// pythonMark begins the text of each frame that explains missing frames of Python.
	pythonMark = "[Python: "
	// pythonUnnamed is a frame of Python whose name cannot be read: the process has ended, its
	// memory may not be read, or the code object was freed.
	pythonUnnamed = "[Python: name could not be read]"
)

// A pythonStack has the names of the frames of Python of one stack.
type pythonStack struct {
	layout *python.Layout
	names  map[python.Word]python.Name
}

// pythonNames reads the names of the frames of Python in a stack, with lines also the lines that
// run.
func (s *symbols) pythonNames(pid int, pcs []uint64, lines bool) (out pythonStack) {
	var words []python.Word
	for _, pc := range pcs {
		if w := python.Word(pc); python.IsWord(pc) && w.Code() != 0 {
			words = append(words, wordOf(w, lines))
		}
	}
	if pid == 0 || !slices.ContainsFunc(pcs, python.IsWord) {
		return out
	}
	out.layout = s.pythonLayout(pid)
	slices.Sort(words)
	words = slices.Compact(words)
	out.names = make(map[python.Word]python.Name, len(words))
	for i, name := range s.processes.PythonNames(pid, out.layout, words) {
		out.names[words[i]] = name
	}
	return out
}

// wordOf returns the frame whose name is asked for: without lines, all frames of a function have
// one name.
func wordOf(w python.Word, lines bool) python.Word {
	if lines {
		return w
	}
	return python.NewWord(w.Code(), python.UnknownInstruction)
}

// learnPythons reads the names of the frames of Python in the stacks of processes, so that each
// process is read once. They are kept for a second, in which pythonNames finds them.
func (s *symbols) learnPythons(pcs map[int][]uint64, lines bool) {
	for pid, all := range pcs {
		s.pythonNames(pid, all, lines)
	}
}

// mayBePython reports whether a process has an interpreter, or is not known any more.
func (s *symbols) mayBePython(pid int) bool {
	return pid != 0 && (s.pythonLayout(pid) != nil || s.processes.Reading(pid) == 0)
}

// pythonLayout returns the layout of the interpreter of a process; nil: not known. It is remembered
// while the session runs, because the process may end.
func (s *symbols) pythonLayout(pid int) *python.Layout {
	l := s.unwinder.python(pid)
	if l == nil {
		return s.interpreters[pid]
	}
	if s.interpreters == nil || len(s.interpreters) >= mostInterpreters {
		s.interpreters = map[int]*python.Layout{}
	}
	s.interpreters[pid] = l
	return l
}

// mostInterpreters is how many processes with an interpreter are remembered.
const mostInterpreters = 4096

// text returns the text of a frame of Python: the function, its file, and the line on which the
// function begins, or with lines the line that runs.
func (p pythonStack) text(w python.Word, lines bool) string {
	if w.Code() == 0 {
		return p.why(w.Why())
	}
	n := p.names[wordOf(w, lines)]
	switch {
	case n.Function == "":
		return pythonUnnamed
	case lines && n.Line > 0:
		return fmt.Sprintf("%s (%s:%d)", n.Function, n.File, n.Line)
	case lines:
		return fmt.Sprintf("%s (%s)", n.Function, n.File)
	}
	return fmt.Sprintf("%s (%s:%d)", n.Function, n.File, n.First)
}

// why returns the text of the frame that explains missing frames of Python.
func (p pythonStack) why(w python.Why) string {
	switch w {
	case python.WhyNoTable:
		if p.layout == nil {
			return pythonMark + "no table]"
		}
		return pythonMark + p.layout.Why() + "]"
	case python.WhyNoThread:
		return pythonMark + "thread not known to the interpreter]"
	case python.WhyThreads:
		return pythonMark + "too many threads]"
	case python.WhyUnreadable:
		return pythonMark + "frames not readable]"
	}
	return pythonMark + "no frames]"
}

// place returns the place of a frame of Python.
func (p pythonStack) place(pc uint64, lines bool) symbol.Place {
	return symbol.Place{Name: p.text(python.Word(pc), lines), Address: pc}
}

// python returns the number of a function of Python.
func (f *frames) python(p symbol.Place) int32 {
	n := f.function(p, symbol.Spot{}, 0)
	if f.pythons == nil {
		f.pythons = map[int32]bool{}
	}
	f.pythons[n] = true
	return n
}

// trampoline begins the names of the functions by which -X perf of CPython calls the evaluator.
const trampoline = "py::"

// withoutTrampolines removes from a stack of functions, innermost first, the trampolines that call
// the evaluator: the function of Python is there already.
func (f *frames) withoutTrampolines(of []int32) []int32 {
	out := of[:0]
	after := false // a function of Python, and no trampoline since
	for _, n := range of {
		if after && n >= 0 && strings.HasPrefix(f.funcs[n].symbol, trampoline) {
			after = false
			continue
		}
		after = after || f.pythons[n]
		out = append(out, n)
	}
	return out
}
