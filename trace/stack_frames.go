package trace

import (
	"culprit/symbol"
	"culprit/symbol/interp"
)

// This file reads stacks as chains of frames.

// chain returns the frame of a stack. With known it looks nothing up: it returns false unless each
// address was looked up before.
func (s *stackReader) chain(pid int, pcs []uint64, known bool) (int32, bool) {
	f := s.frames
	reading := uint64(0)
	if pid != 0 {
		reading = s.symbols.processes.Reading(pid)
	}
	c := f.code.of(pid, reading)
	of := f.of[:0]
	defer func() { f.of = of[:0] }()
	f.passing = false
	found := 0
	interpreted := s.symbols.frameNames(pid, pcs, f.places)
	for i, pc := range pcs {
		if interp.IsWord(pc) {
			of = f.interpreted(of, interpreted.places(pc, f.places))
			f.passing = true // another code object may have its address later
			found++
			continue
		}
		if isPseudo(pc) {
			of = append(of, f.pseudo(of, pc))
			found++
			continue
		}
		fn, ok := c.at[codeKey(pcs, i)]
		if !ok {
			break
		}
		of = f.code.expand(of, fn)
		found++
	}
	if found < len(pcs) {
		if known {
			return 0, false
		}
		of = s.lookUpChain(of[:0], c, pid, pcs, reading, interpreted)
	}
	if f.evaluated != nil {
		of = f.withoutTrampolines(of)
	}
	if len(withoutEnding(pcs)) >= MaxFrames {
		of = append(of, f.function(symbol.Place{Name: cutFrame}, symbol.Spot{}, 0))
	}
	return f.add(of), true
}

// codeKey returns the key of address i of a stack in code.at. All but the first are return
// addresses, which lie behind the call.
func codeKey(pcs []uint64, i int) uint64 {
	past := uint64(min(i, 1))
	return (pcs[i]-past)<<1 | past
}

// lookUpChain looks up the functions of a stack, appends them to of, and remembers them in c.
func (s *stackReader) lookUpChain(
	of []int32, c *code, pid int, pcs []uint64, reading uint64, interpreted interpreterStack,
) []int32 {
	f := s.frames
	places, spots, inlined := s.symbols.spots(pid, addresses(pcs), reading)
	if len(places) > 0 && beginsInterpreted(pcs) {
		places[0].Address++
	}
	n := 0
	for i, pc := range pcs {
		if interp.IsWord(pc) {
			of = f.interpreted(of, interpreted.places(pc, f.places))
			f.passing = true
			continue
		}
		if isPseudo(pc) {
			of = append(of, f.pseudo(of, pc))
			continue
		}
		p, spot, within := &places[n], symbol.Spot{}, []string(nil)
		if spots != nil {
			spot, within = spots[n], inlined[n]
		}
		n++
		fn := f.group(p.Module, within, f.function(*p, spot, uint64(min(i, 1))))
		of = f.code.expand(of, fn)
		if p.Late || p.Module == "" && pid != 0 && reading != 0 {
			f.passing = true // generated code: its map may change
		}
		// An address without a name may have one the next time.
		if p.Module != "" && (p.Name != "" || spot != symbol.Spot{}) {
			key := codeKey(pcs, i)
			if _, there := c.at[key]; !there {
				f.code.size++
			}
			c.at[key] = fn
		}
	}
	return of
}

// frameOf returns the frame of a stack by its number; 0 is the empty stack.
func (s *stackReader) frameOf(number uint32) int32 {
	id, most := s.cut(number)
	at := s.frame(id)
	if most < 0 || at == 0 {
		return at
	}
	return s.frames.innermost(at, most)
}

// frame returns the frame of a stack by its ID; 0 is the empty stack.
func (s *stackReader) frame(id uint32) int32 {
	f := s.frames
	for again := false; ; again = true {
		if at, ok := f.ids.now[id]; ok || id == 0 {
			return at
		}
		if at, ok := f.ids.before[id]; ok {
			return at
		}
		if again {
			at := f.add(
				[]int32{f.function(symbol.Place{Name: "(stack is lost)"}, symbol.Spot{}, 0)},
			)
			f.ids.now[id] = at
			return at
		}
		s.takeStacks()
	}
}

// storedFrame returns the frame of a stack by its ID in the kernel or its number in the store; 0 is
// the empty stack. Stacks of further functions are counted together when there are too many.
func (s *stackReader) storedFrame(id uint32) int32 {
	f := s.frames
	n := s.stored(id)
	at, ok := f.ids.now[n]
	if ok || n == 0 {
		return at
	}
	pid, pcs, why := s.addressesOf(n)
	if why == "" && len(f.links) > mostStoredFrames {
		why = otherStacksText
	}
	if why != "" {
		return f.add([]int32{f.function(symbol.Place{Name: why}, symbol.Spot{}, 0)})
	}
	if len(f.ids.now) >= mostStacks {
		clear(f.ids.now)
	}
	at, _ = s.chain(pid, pcs, false)
	f.ids.now[n] = at
	return at
}

// mostStoredFrames is how many frames a session with kept stacks keeps: about 60 MB with their
// functions.
const mostStoredFrames = 1 << 20

// An unnamed is a stack that was read out of the kernel and has no frame yet.
type unnamed struct {
	ids []uint32
	pid int
	pcs []uint64
}

// takeStacks moves all stacks out of the kernel, which makes space for others.
func (s *stackReader) takeStacks() {
	f := s.frames
	if !f.ids.turned {
		f.ids.before, f.ids.now, f.ids.turned = f.ids.now, f.ids.before, true
		clear(f.ids.now)
	}
	f.relearn(s.symbols.processes.Inlinings())
	// Stacks of processes wait here, so that the files of all are read at once.
	fresh := map[[2]uint64]*unnamed{}
	old, _ := s.swap() // stacks of maps that were not replaced are reported as lost
	s.eachStack(old, true, func(key []byte, id uint32) {
		pid, at, known, hashed := f.look(key)
		if !known && pid == 0 {
			at, known = s.chain(0, f.pcs, false)
			f.kernel.at[hashed] = at
		}
		if known {
			f.ids.now[id] = at
			return
		}
		one := fresh[hashed]
		if one == nil {
			one = &unnamed{pid: pid, pcs: append([]uint64(nil), f.pcs...)}
			fresh[hashed] = one
		}
		one.ids = append(one.ids, id)
	})
	s.nameStacks(fresh)
}

// nameStacks finds the frames of stacks of processes. fresh has them by the hash of their
// addresses.
func (s *stackReader) nameStacks(fresh map[[2]uint64]*unnamed) {
	f := s.frames
	s.symbols.catchUp()
	interpreted := map[int][]uint64{}
	for _, one := range fresh {
		interpreted[one.pid] = append(interpreted[one.pid], one.pcs...)
	}
	s.symbols.learnFrames(interpreted, f.places)
	var asked []symbol.Asked
	for _, one := range fresh {
		asked = append(asked, symbol.Asked{PID: one.pid, PCs: addresses(one.pcs)})
	}
	s.symbols.processes.LearnFrames(asked) // for mark
	asked = asked[:0]
	for hashed, one := range fresh {
		one.pcs = s.mark(one.pid, one.pcs)
		if at, known := s.chain(one.pid, one.pcs, !f.later); known {
			s.nameStack(hashed, one, at)
			delete(fresh, hashed)
			continue
		}
		asked = append(asked, symbol.Asked{PID: one.pid, PCs: addresses(one.pcs)})
	}
	s.symbols.processes.Learn(asked)
	for hashed, one := range fresh {
		at, _ := s.chain(one.pid, one.pcs, false)
		s.nameStack(hashed, one, at)
	}
}

// nameStack records the frame of a stack.
func (s *stackReader) nameStack(hashed [2]uint64, one *unnamed, at int32) {
	if !s.frames.passing {
		s.frames.user.at[hashed] = at
	}
	for _, id := range one.ids {
		s.frames.ids.now[id] = at
	}
}
