package trace

import (
	"encoding/binary"
	"fmt"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/symbol"

	"github.com/cilium/ebpf"
)

// A stackReader reads the stacks of one session out of the kernel, as texts or as chains of frames.
type stackReader struct {
	script  *Compiled
	maps    map[string]*ebpf.Map // of the session
	symbols *symbols
	batches batches
	texts   map[uint32]format.Value   // of the stacks that were looked up, by ID
	places  map[uint32][]symbol.Place // of the stacks that Places has returned, by ID
	raw     map[uint32][]uint64       // of those that were only read; see readStacks
	frames  *frames                   // replaces texts and raw; nil: stacks are texts
	pieces  pieces                    // of stacks, where the kernel limits the size of keys
	// pieces of keys by number, as gen.MapLong contained them when it was last read
	long     map[uint32][]byte
	inlining time.Duration // CPU time of looking for inlined functions
}

// cut splits the number of a stack into its ID and how many of its frames are wanted; -1: all.
func (s *stackReader) cut(number uint32) (id uint32, most int) {
	if !s.script.Program.Cuts {
		return number, -1
	}
	return check.CutStack(number)
}

// text returns a stack by its ID, with the names of its frames.
func (s *stackReader) text(id uint32) format.Value {
	if id == 0 {
		return format.StackOf(nil, nil)
	}
	if known, ok := s.texts[id]; ok {
		return known
	}
	pid, pcs, why := s.rawStack(id)
	if why != "" {
		return format.StackOf([]string{why}, nil)
	}
	places := s.symbols.stack(pid, pcs)
	lines := make([]string, len(places))
	for i, p := range places {
		lines[i] = p.String()
		if pid != 0 && s.script.hasOption("noresolve") && !isPseudo(p.Address) {
			lines[i] = p.Unresolved()
		}
	}
	if pid != 0 && s.script.hasOption("inline") {
		lines, pcs = s.insertInlined(pid, lines, places, pcs)
	}
	v := format.StackOf(lines, pcs)
	s.texts[id] = v
	return v
}

// insertInlined adds inlined functions to a stack, each before the function that contains it.
func (s *stackReader) insertInlined(
	pid int, lines []string, places []symbol.Place, pcs []uint64,
) ([]string, []uint64) {
	var all []string
	var at []uint64
	within := s.symbols.processes.InlinedIn(pid, addresses(pcs))
	for i := range pcs {
		var names []string
		if !isPseudo(pcs[i]) {
			names, within = within[0], within[1:]
		}
		for _, name := range names {
			line := symbol.Place{Module: places[i].Module, Name: name + inlinedMark}.String()
			all, at = append(all, line), append(at, pcs[i])
		}
		all, at = append(all, lines[i]), append(at, pcs[i])
	}
	return all, at
}

// inlineTime is how much CPU time a script takes at most to look for inlined functions.
const inlineTime = 2 * time.Second

// learnStacks looks up the names, and with the option inline the inlined functions, of the stacks
// that were only read.
func (s *stackReader) learnStacks() {
	var asked []symbol.Asked
	interpreted := map[int][]uint64{}
	defer func() { s.symbols.learnFrames(interpreted, true) }()
	for _, words := range s.raw {
		if len(words) > 1 && words[0] != 0 {
			interpreted[int(words[0])] = append(interpreted[int(words[0])], words[1:]...)
			asked = append(asked, symbol.Asked{PID: int(words[0]), PCs: addresses(words[1:])})
		}
	}
	s.symbols.processes.Learn(asked)
	if s.script.hasOption("inline") && s.inlining < inlineTime {
		s.inlining += s.symbols.processes.FindInlined(asked, inlineTime-s.inlining)
	}
}

// rawStack removes a stack from those that were only read, and returns its addresses and its
// process; 0: the kernel. A stack that was lost has the reason why instead.
func (s *stackReader) rawStack(id uint32) (pid int, pcs []uint64, why string) {
	raw, ok := s.raw[id]
	if !ok {
		s.readStacks()
		s.learnStacks()
		raw, ok = s.raw[id]
	}
	if !ok {
		return 0, nil, fmt.Sprintf("(stack %d is lost)", id)
	}
	if raw == nil {
		return 0, nil, fmt.Sprintf("(stack %d is one of several)", id)
	}
	delete(s.raw, id)
	if raw[0] == 0 {
		return 0, raw[1:], ""
	}
	return int(raw[0]), s.mark(int(raw[0]), raw[1:]), ""
}

// readStacks reads the stacks that the kernel has and that were not looked up yet: the process,
// then addresses. nil: two stacks have this number, which happens only when a kernel's numbers ran
// out.
func (s *stackReader) readStacks() {
	s.raw = map[uint32][]uint64{}
	s.eachStack(false, func(key []byte, id uint32) {
		if _, known := s.texts[id]; known {
			return
		}
		if _, known := s.places[id]; known {
			return
		}
		if s.frames != nil {
			if _, known := s.frames.ids.now[id]; known {
				return
			}
		}
		words := make([]uint64, 1, len(key)/8)
		words[0] = binary.NativeEndian.Uint64(key)
		for key = key[8:]; len(key) >= 8; key = key[8:] {
			pc := binary.NativeEndian.Uint64(key)
			if pc == 0 {
				break
			}
			words = append(words, pc)
		}
		if _, twice := s.raw[id]; twice {
			words = nil
		}
		s.raw[id] = words
	})
}
