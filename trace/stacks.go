package trace

import (
	"runtime/debug"

	"culprit/lang/gen"
)

// MaxFrames is how many frames the kernel returns of a stack: the default of perf_event_max_stack,
// which is also the most that a stack of D may have.
const MaxFrames = 127

// ReleaseBuffers releases what only gathering needs, before names are looked up, which takes memory
// too.
func (s *Session) ReleaseBuffers() {
	s.unwinder.close()
	s.unwinder = nil
	s.batches, s.raw = batches{}, nil
	for _, a := range s.aggs {
		a.batches = batches{}
	}
	s.frames.rested()
	debug.FreeOSMemory()
}

// CollectFrames makes the session keep stacks as chains of frames by function, instead of as text.
// Names of functions in files are looked up by ResolveFrames. With places, a frame stands for one
// place in a function; with kept, stacks stay in the kernel until the end. Call it before Run.
func (s *Session) CollectFrames(places, kept bool) {
	s.frames = newFrames()
	s.frames.later, s.frames.places, s.frames.kept = true, places, kept
	s.processes.DeferSymbols()
}

// ResolveFrames looks up the names of functions, with inline also of those that compilers put into
// others. It returns notes on what may be wrong with inlined functions. Call it once, after Run.
func (s *Session) ResolveFrames(inline bool) (notes []string) {
	return s.frames.resolve(s.processes, inline)
}

// FrameTexts returns a function that appends the names of a stack's frames to out, innermost first.
// A stack is the number that Frame returned. Call it after ResolveFrames.
func (s *Session) FrameTexts() func(out []string, at int32) []string { return s.frames.texts() }

// SymbolNotes returns notes on names of functions that could not be read.
func (s *Session) SymbolNotes() []string {
	return append(s.kernel.Notes(), s.processes.Notes()...)
}

// UnwindNotes returns notes on stacks that could not be walked to their end.
func (s *Session) UnwindNotes() []string { return s.unwinder.notes() }

// StopClauses stops all clauses; the session ends with its next look at the kernel. It may be
// called while Run runs.
func (s *Session) StopClauses() error { return s.set(gen.Draining) }

// TakeCounts makes the session call add with each key of a count() and what was added to it, and
// keep no rows. The key is valid until add returns.
func (a *Aggregate) TakeCounts(add func(key []byte, n int64)) { a.unkept, a.counts = true, add }
