package trace

import (
	"slices"

	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/symbol/interp"
)

// A stack of a process has pseudo frames: texts in place of functions, where callers may be
// missing. In a list of addresses a pseudo frame is a number that is no address: gen.Stop.Frame, or
// an interp.Word.

const (
	// MissingFrame is above a frame whose caller was found by a frame pointer that may belong to
	// another function.
	MissingFrame = "[caller may be missing]"
	// cutFrame is above the last of MaxFrames frames.
	cutFrame = "[stack cut off: more callers may be missing]"
)

// isPseudo reports whether a number represents a pseudo frame.
func isPseudo(pc uint64) bool {
	_, ok := gen.EndingOf(pc)
	return ok || interp.IsWord(pc)
}

// pseudoText returns the text of a pseudo frame above a frame in a module.
func pseudoText(pc uint64, module string) string {
	e, _ := gen.EndingOf(pc)
	if e.Stop == gen.CallerMissing {
		return MissingFrame
	}
	return stoppedFrame(e.Stop, module)
}

// pseudo returns the number of the function that represents a pseudo frame. of are the functions
// below it, innermost first.
func (f *frames) pseudo(of []int32, pc uint64) int32 {
	module := ""
	for i := len(of) - 1; i >= 0 && module == ""; i-- { // frames of interpreters have none
		module = f.funcs[of[i]].module
	}
	return f.function(symbol.Place{Name: pseudoText(pc, module), Address: pc}, symbol.Spot{}, 0)
}

// addresses returns a stack without its pseudo frames. The first address of the result is looked up
// as it is, and the others as return addresses. So with beginsInterpreted the first one is that of
// the call: 1 less.
func addresses(pcs []uint64) []uint64 {
	i := slices.IndexFunc(pcs, isPseudo)
	if i < 0 {
		return pcs
	}
	out := slices.Clone(pcs[:i])
	for _, pc := range pcs[i:] {
		if !isPseudo(pc) {
			out = append(out, pc)
		}
	}
	if len(out) > 0 && beginsInterpreted(pcs) {
		out[0]--
	}
	return out
}

// beginsInterpreted reports whether the innermost frame is one of an interpreter.
func beginsInterpreted(pcs []uint64) bool { return len(pcs) > 0 && interp.IsWord(pcs[0]) }

// withoutEnding returns a stack without the pseudo frames that are not of interpreters.
func withoutEnding(pcs []uint64) []uint64 {
	return slices.DeleteFunc(slices.Clone(pcs), func(pc uint64) bool {
		return isPseudo(pc) && !interp.IsWord(pc)
	})
}

// mark returns a process's stack as a program wrote it, as addresses and pseudo frames. It reuses
// the memory of pcs.
func (s *stackReader) mark(pid int, pcs []uint64) []uint64 {
	n := len(pcs)
	if n == 0 {
		return pcs
	}
	e, ok := gen.EndingOf(pcs[n-1])
	if ok {
		pcs = pcs[:n-1]
		n--
	}
	for i := range pcs { // an address that a frame pointer led to may be any number
		if isPseudo(pcs[i]) &&
			!(interp.IsWord(pcs[i]) && s.symbols.mayInterpret(pid)) {
			pcs[i] |= 3 << 62
		}
	}
	doubt := e.Doubt
	for i, unframed := range s.symbols.processes.Unframed(pid, pcs) {
		if unframed && (doubt == 0 || i+1 < doubt) {
			doubt = i + 1
			break
		}
	}
	if doubt > 0 && (doubt < n || doubt == n && e.Stop == 0) { // else the text of Stop covers it
		pcs = slices.Insert(pcs, doubt, gen.CallerMissing.Frame())
	}
	if e.Stop != 0 {
		pcs = append(pcs, e.Stop.Frame())
	}
	return pcs
}
