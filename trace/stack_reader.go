package trace

import (
	"encoding/binary"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/symbol"

	"github.com/cilium/ebpf"
)

// A stackReader reads the stacks of one session out of the kernel, as texts or as chains of frames.
type stackReader struct {
	script  *Compiled
	maps    map[string]*ebpf.Map // of the session
	kernel  []*replacedMap       // the maps of stacks
	symbols *symbols
	batches batches
	store   stackStore
	ids     stackIDs
	fill    stackFill
	records [][]ir.TupleField // the stacks in each kind of record
	named   namedStacks
	frames  *frames // replaces the texts of stacks; nil: stacks are texts
	// pieces of keys by number, as gen.MapLong contained them when it was last read
	long     map[uint32][]byte
	inlining time.Duration // CPU time of looking for inlined functions
}

// namedStacks caches the names of stacks by their numbers in the store.
type namedStacks struct {
	texts  map[uint32]format.Value
	places map[uint32][]symbol.Place
	lines  map[string]string // equal lines of texts share memory
}

const (
	// mostNamed is how many stacks have their names cached, and mostLines how many lines.
	mostNamed = 1 << 13
	mostLines = 1 << 16
)

// cut splits the number of a stack into its ID and how many of its frames are wanted; -1: all.
func (s *stackReader) cut(number uint32) (id uint32, most int) {
	if !s.script.Program.Cuts {
		return number, -1
	}
	return check.CutStack(number)
}

// text returns a stack by its ID in the kernel or its number, with the names of its frames.
func (s *stackReader) text(id uint32) format.Value {
	if id == 0 {
		return format.StackOf(nil, nil)
	}
	n := s.stored(id)
	if known, ok := s.named.texts[n]; ok {
		return known
	}
	pid, pcs, why := s.addressesOf(n)
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
	s.named.share(lines)
	v := format.StackOf(lines, pcs)
	if s.named.texts == nil || len(s.named.texts) >= mostNamed {
		s.named.texts = map[uint32]format.Value{}
	}
	s.named.texts[n] = v
	return v
}

// share makes equal lines use the same memory.
func (n *namedStacks) share(lines []string) {
	if n.lines == nil || len(n.lines) >= mostLines {
		n.lines = map[string]string{}
	}
	for i, line := range lines {
		if known, ok := n.lines[line]; ok {
			lines[i] = known
		} else {
			n.lines[line] = line
		}
	}
}

// placesOf returns what is at the addresses of a stack by its ID in the kernel or its number,
// innermost first. A stack that is missing has a place whose name is the reason.
func (s *stackReader) placesOf(id uint32) []symbol.Place {
	n := s.stored(id)
	if known, ok := s.named.places[n]; ok {
		return known
	}
	pid, pcs, why := s.addressesOf(n)
	if why != "" {
		return []symbol.Place{{Name: why}}
	}
	places := s.symbols.stack(pid, withoutEnding(pcs))
	if s.named.places == nil || len(s.named.places) >= mostNamed {
		s.named.places = map[uint32][]symbol.Place{}
	}
	s.named.places[n] = places
	return places
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
// that were stored since it was last called.
func (s *stackReader) learnStacks() {
	var asked []symbol.Asked
	interpreted := map[int][]uint64{}
	for _, n := range s.store.fresh {
		one := s.store.stacks[n]
		if one == nil {
			continue
		}
		if pid, pcs := stackWords(one.bytes); pid != 0 && len(pcs) > 0 {
			interpreted[pid] = append(interpreted[pid], pcs...)
			asked = append(asked, symbol.Asked{PID: pid, PCs: addresses(pcs)})
		}
	}
	s.store.fresh = nil
	if len(asked) == 0 {
		return
	}
	s.symbols.processes.Learn(asked)
	if s.script.hasOption("inline") && s.inlining < inlineTime {
		s.inlining += s.symbols.processes.FindInlined(asked, inlineTime-s.inlining)
	}
	s.symbols.learnFrames(interpreted, true)
}

// addressesOf returns the addresses and the process of a stack by its number; process 0 is the
// kernel. For a number without a stack it returns the reason instead.
func (s *stackReader) addressesOf(n uint32) (pid int, pcs []uint64, why string) {
	one := s.store.stacks[n]
	if one == nil {
		return 0, nil, s.store.missing(n)
	}
	if len(s.store.fresh) > 0 {
		s.learnStacks()
	}
	pid, pcs = stackWords(one.bytes)
	if pid != 0 {
		pcs = s.mark(pid, pcs)
	}
	return pid, pcs, ""
}

// stackWords decodes a stack of the store: its process, 0 for the kernel, and its addresses.
func stackWords(stack string) (pid int, pcs []uint64) {
	words := []byte(stack)
	pid = int(binary.NativeEndian.Uint64(words))
	for words = words[8:]; len(words) >= 8; words = words[8:] {
		pcs = append(pcs, binary.NativeEndian.Uint64(words))
	}
	return pid, pcs
}
