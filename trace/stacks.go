package trace

import "runtime/debug"

// MaxFrames is how many frames the kernel returns of a stack: the default of perf_event_max_stack,
// which is also the most that a stack of D may have.
const MaxFrames = 127

// ReleaseBuffers releases the memory that only reading stacks needs. Call it before names are
// looked up, which takes memory too.
func (s *Session) ReleaseBuffers() {
	s.symbols.unwinder.close()
	s.symbols.unwinder = nil
	s.stacks.batches, s.stacks.named = batches{}, namedStacks{}
	for _, a := range s.aggs.all {
		a.batches = batches{}
	}
	s.stacks.frames.releaseLookups()
	debug.FreeOSMemory()
}

// CollectFrames makes the session keep stacks as chains of frames by function, instead of as text.
// Names of functions in files are looked up by ResolveFrames. With places, each place in a function
// has a frame of its own; with kept, values are numbers of frames. Call it before Run.
func (s *Session) CollectFrames(places, kept bool) {
	f := newFrames()
	f.later, f.places, f.kept = true, places, kept
	s.stacks.frames = f
	s.symbols.processes.DeferSymbols()
}

// ResolveFrames looks up the names of functions, with inline also of inlined ones. It returns notes
// on inlined functions that may be wrong. Call it once, after Run.
func (s *Session) ResolveFrames(inline bool) (notes []string) {
	return s.stacks.frames.resolve(s.symbols.processes, inline)
}

// FrameTexts returns a function that appends the names of a stack's frames to out, innermost first.
// A stack is the number that Frame returned. Call it after ResolveFrames.
func (s *Session) FrameTexts() func(out []string, at int32) []string {
	return s.stacks.frames.texts()
}

// Frame returns the frame of a stack by its ID; 0 is the empty stack. Call it after CollectFrames.
func (s *Session) Frame(id uint32) int32 { return s.stacks.frame(id) }

// IsUnknown reports whether nothing is known of the innermost frame of a stack, not even its file.
// A stack is the number that Frame returned; 0 is the empty one, which is known.
func (s *Session) IsUnknown(at int32) bool {
	f := s.stacks.frames
	return at > 0 && f.funcs[f.links[at].function].symbol == unknownFrame
}

// trimFrames replaces the frames by empty ones when there are too many, unless a reader still needs
// them.
func (s *Session) trimFrames() {
	if s.stacks.frames == nil || len(s.stacks.frames.links) < mostFrames {
		return
	}
	for _, a := range s.aggs.all {
		for _, t := range a.taps {
			if len(t.rows) > 0 {
				return
			}
		}
	}
	s.stacks.frames = newFrames()
}

// TakeCounts makes the session call add with each key of a count() and what was added to it, and
// keep no rows. The key is valid until add returns.
func (a *Aggregate) TakeCounts(add func(key []byte, n int64)) { a.unkept, a.counts = true, add }
