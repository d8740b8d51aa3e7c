package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"culprit/symbol"
	"culprit/symbol/interp"
)

// Frames of interpreters are numbers in a stack of addresses: an interp.Word each. This file finds
// their names.

// An interpreterStack has the names of the frames of an interpreter in one stack.
type interpreterStack struct {
	layout interp.Layout
	names  map[interp.Word]interp.Name
}

// frameNames reads the names of the frames of an interpreter in a stack, with lines also the lines
// that run.
func (s *symbols) frameNames(pid int, pcs []uint64, lines bool) (out interpreterStack) {
	var words []interp.Frame
	for _, pc := range pcs {
		if w := interp.Word(pc); interp.IsWord(pc) && w.Code() != 0 {
			words = append(words, interp.Frame{Word: wordOf(w, lines)})
		}
	}
	if pid == 0 || !slices.ContainsFunc(pcs, interp.IsWord) {
		return out
	}
	out.layout = s.interpreterLayout(pid)
	slices.SortFunc(words, func(a, b interp.Frame) int { return cmp.Compare(a.Word, b.Word) })
	words = slices.Compact(words)
	out.names = make(map[interp.Word]interp.Name, len(words))
	for i, name := range s.processes.FrameNames(pid, out.layout, words) {
		out.names[words[i].Word] = name
	}
	return out
}

// wordOf returns the frame whose name is asked for: without lines, all frames of a function have
// one name, unless others may be inlined.
func wordOf(w interp.Word, lines bool) interp.Word {
	if lines || w.Instruction() >= interp.InCode {
		return w
	}
	return wholeOf(w)
}

// wholeOf returns the frame of which only the code object is known.
func wholeOf(w interp.Word) interp.Word {
	return interp.NewWord(w.Code(), interp.UnknownInstruction)
}

// learnFrames reads the names of the frames of interpreters in the stacks of processes, so that
// each process is read once. They are kept for a second, in which frameNames finds them.
func (s *symbols) learnFrames(pcs map[int][]uint64, lines bool) {
	for pid, all := range pcs {
		s.frameNames(pid, all, lines)
	}
}

// mayInterpret reports whether a process has an interpreter, or is not known any more.
func (s *symbols) mayInterpret(pid int) bool {
	return pid != 0 && (s.interpreterLayout(pid) != nil || s.processes.Reading(pid) == 0)
}

// interpreterLayout returns the layout of the interpreter of a process; nil: not known. It is
// remembered while the session runs, because the process may end.
func (s *symbols) interpreterLayout(pid int) interp.Layout {
	l := s.unwinder.interpreter(pid)
	if l == nil {
		return s.interpreters[pid]
	}
	if s.interpreters == nil || len(s.interpreters) >= mostInterpreters {
		s.interpreters = map[int]interp.Layout{}
	}
	s.interpreters[pid] = l
	return l
}

// mostInterpreters is how many processes with an interpreter are remembered.
const mostInterpreters = 4096

// mark returns how the text of a frame begins that explains missing frames.
func (p interpreterStack) mark() string {
	if p.layout == nil {
		return "[interpreter: "
	}
	return "[" + p.layout.Language().String() + ": "
}

// texts returns the text of a frame of an interpreter after those of functions that are inlined
// into it, innermost first.
func (p interpreterStack) texts(w interp.Word, lines bool) (out []string) {
	if w.Code() == 0 {
		return []string{p.why(w.Why())}
	}
	n := p.names[wordOf(w, lines)]
	if n.Function == "" {
		return []string{p.mark() + "name could not be read]"} // ended, not allowed to, or freed
	}
	for ; n.Caller != nil; n = *n.Caller {
		out = append(out, nameText(n, lines)+inlinedMark)
	}
	return append(out, nameText(n, lines))
}

// nameText returns the text of a function: its name, its file, and the line on which it begins, or
// with lines the line that runs.
func nameText(n interp.Name, lines bool) string {
	switch {
	case n.File == "":
		return n.Function
	case lines && n.Line > 0:
		return fmt.Sprintf("%s (%s:%d)", n.Function, n.File, n.Line)
	case lines || n.First == 0: // a program of Ruby begins on no line
		return fmt.Sprintf("%s (%s)", n.Function, n.File)
	}
	return fmt.Sprintf("%s (%s:%d)", n.Function, n.File, n.First)
}

// why returns the text of the frame that explains missing frames.
func (p interpreterStack) why(w interp.Why) string {
	switch w {
	case interp.WhyNoTable:
		if p.layout == nil {
			return p.mark() + "no table]"
		}
		return p.mark() + p.layout.Why() + "]"
	case interp.WhyNoThread:
		return p.mark() + "thread not known to the interpreter]"
	case interp.WhyThreads:
		return p.mark() + "too many threads]"
	case interp.WhyUnreadable:
		return p.mark() + "frames not readable]"
	case interp.WhyRegexp:
		return p.mark() + "regular expression]"
	}
	return p.mark() + "no frames]"
}

// places returns the place of a frame of an interpreter after those of functions that are inlined
// into it.
func (p interpreterStack) places(pc uint64, lines bool) (out []symbol.Place) {
	for _, text := range p.texts(interp.Word(pc), lines) {
		out = append(out, symbol.Place{Name: text, Address: pc})
	}
	return out
}

// interpreted appends the numbers of the functions of a frame of an interpreter.
func (f *frames) interpreted(of []int32, places []symbol.Place) []int32 {
	for _, p := range places {
		n := f.function(p, symbol.Spot{}, 0)
		if f.evaluated == nil {
			f.evaluated = map[int32]bool{}
		}
		f.evaluated[n] = true
		of = append(of, n)
	}
	return of
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
		after = after || f.evaluated[n]
		out = append(out, n)
	}
	return out
}
