package trace

import (
	"encoding/binary"
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"culprit/lang/gen"
	"culprit/measure"
	"culprit/symbol"
)

// frames is stacks as chains of frames, by function: of a function's places one frame is made. What was looked up is remembered by the
// addresses, so that a stack that comes again costs a look into a map.
type frames struct {
	all    []measure.Frame // callers first; it only grows. The first is the empty stack
	at     map[framed]int32
	seeds  [2]maphash.Seed
	kernel lookedUp
	user   lookedUp
	now    map[uint32]int32 // of the stacks that the kernel gave last, by their ids
	before map[uint32]int32 // and of those before: a program that ran while they were read may have used their ids
	turned bool             // they were exchanged for this gathering
	places bool             // a frame is made of each place in a function, with its offset in the symbol
}

// framed is what makes a frame what it is.
type framed struct {
	caller         int32
	symbol, module string
}

// lookedUp is the frames of stacks by their addresses.
type lookedUp struct {
	at    map[[2]uint64]int32
	since time.Time
}

const (
	// mostFrames is how many frames there may be before others are begun.
	mostFrames = 1 << 17
	// mostKnown is how many stacks are remembered by their addresses.
	mostKnown = 1 << 14
	// What was looked up is forgotten in time: a process may have replaced its program, or a module have come where another was.
	kernelKnown = 10 * time.Minute
	userKnown   = time.Minute
)

func newFrames() *frames {
	return &frames{all: []measure.Frame{{Parent: -1}}, at: map[framed]int32{}, now: map[uint32]int32{}, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

// add gives the frame of a stack, innermost first.
func (f *frames) add(places []symbol.Place) int32 {
	at := int32(-1)
	for i := len(places) - 1; i >= 0; i-- {
		p := &places[i]
		k := framed{at, p.Name, p.Module}
		switch {
		case f.places:
			if module, rest, ok := strings.Cut(p.String(), "`"); ok {
				k.module, k.symbol = module, rest
			} else {
				k.module, k.symbol = "", module
			}
		case k.symbol != "":
		case k.module != "": // a function without a name is told by its file, all of them as one
			k.symbol = "[" + k.module + "]"
		default:
			k.symbol = "[unknown]"
		}
		n, ok := f.at[k]
		if !ok {
			n = int32(len(f.all))
			f.at[k] = n
			f.all = append(f.all, measure.Frame{Symbol: k.symbol, Module: k.module, Parent: at})
		}
		at = n
	}
	return max(at, 0)
}

// An unnamed is a stack that the kernel gave, and has no frame yet.
type unnamed struct {
	ids    []uint32
	pid    int // 0: a stack of the kernel
	pcs    []uint64
	hashed [2]uint64
}

// look gives the frame of the addresses in a key of a map of stacks, if they were looked up before.
func (f *frames) look(key []byte) (at int32, known bool, s unnamed) {
	s.pid = int(binary.NativeEndian.Uint64(key))
	l, lasts := f.of(s.pid)
	if l.at == nil || len(l.at) >= mostKnown || time.Since(l.since) > lasts {
		*l = lookedUp{map[[2]uint64]int32{}, time.Now()}
	}
	n := 8
	for n+8 <= len(key) && binary.NativeEndian.Uint64(key[n:]) != 0 {
		n += 8
	}
	s.hashed = [2]uint64{maphash.Bytes(f.seeds[0], key[:n]), maphash.Bytes(f.seeds[1], key[:n])}
	if at, known = l.at[s.hashed]; known {
		return at, true, s
	}
	s.pcs = make([]uint64, 0, n/8-1)
	for i := 8; i < n; i += 8 {
		s.pcs = append(s.pcs, binary.NativeEndian.Uint64(key[i:]))
	}
	return 0, false, s
}

// of gives where stacks of a process are remembered, or of the kernel, and for how long.
func (f *frames) of(pid int) (*lookedUp, time.Duration) {
	if pid == 0 {
		return &f.kernel, kernelKnown
	}
	return &f.user, userKnown
}

// frame gives the frame of a stack by its id, 0 for none.
func (s *Session) frame(id uint32) int32 {
	f := s.frames
	for again := false; ; again = true {
		if at, ok := f.now[id]; ok || id == 0 {
			return at
		}
		if at, ok := f.before[id]; ok {
			return at
		}
		if again {
			at := f.add([]symbol.Place{{Name: "(stack is lost)"}})
			f.now[id] = at
			return at
		}
		s.takeStacks()
	}
}

// takeStacks moves the stacks that were seen until now out of the kernel, so that there is room for others.
func (s *Session) takeStacks() {
	f := s.frames
	if !f.turned {
		f.before, f.now, f.turned = f.now, map[uint32]int32{}, true
	}
	fresh := map[[2]uint64]*unnamed{}
	for i := 0; ; i++ {
		m := s.maps.Maps[gen.MapStacks+strconv.Itoa(i)]
		if m == nil {
			break
		}
		err := each(m, 1, true, func(key []byte, values [][]byte) {
			id := binary.NativeEndian.Uint32(values[0])
			at, known, one := f.look(key)
			if known {
				f.now[id] = at
				return
			}
			if fresh[one.hashed] == nil {
				fresh[one.hashed] = &one
			}
			fresh[one.hashed].ids = append(fresh[one.hashed].ids, id)
		})
		if err != nil {
			break // those that are missing are told to be lost
		}
	}
	var asked []symbol.Asked
	for _, one := range fresh {
		if one.pid != 0 {
			asked = append(asked, symbol.Asked{PID: one.pid, PCs: one.pcs})
		}
	}
	s.processes.Learn(asked)
	for _, one := range fresh {
		at := f.add(s.places(one.pid, one.pcs))
		l, _ := f.of(one.pid)
		l.at[one.hashed] = at
		for _, id := range one.ids {
			f.now[id] = at
		}
	}
}

// places gives what is at the addresses of a stack; pid 0 is the kernel. A process's stack that could not be walked to its end has a place
// behind the last one whose name says why.
func (s *Session) places(pid int, pcs []uint64) []symbol.Place {
	if pid == 0 {
		return s.kernel.Stack(pcs)
	}
	n := len(pcs)
	if n == 0 || gen.StopOf(pcs[n-1]) == 0 {
		return s.processes.Stack(pid, pcs)
	}
	out := s.processes.Stack(pid, pcs[:n-1])
	module := ""
	if n > 1 {
		module = out[n-2].Module
	}
	return append(out, symbol.Place{Name: stoppedFrame(gen.StopOf(pcs[n-1]), module), Address: pcs[n-1]})
}

// trimFrames begins other frames where there are very many, unless somebody is still to be told of those.
func (s *Session) trimFrames() {
	if s.frames == nil || len(s.frames.all) < mostFrames {
		return
	}
	for _, a := range s.aggs {
		for _, t := range a.taps {
			if len(t.rows) > 0 {
				return
			}
		}
	}
	s.frames = newFrames()
}
