package trace

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"culprit/measure"
	"culprit/symbol"
)

// frames are stacks as chains of frames, normally with one frame for all places in a function.
// Results of lookups are cached by address: a known stack costs one map lookup, and a new stack of
// known functions one lookup per frame.
type frames struct {
	frameOptions
	links []link // callers first. It only grows; the first is the empty stack
	at    map[link]int32
	funcs []routine
	// inlined are, for each of funcs after resolve, its inlined functions, innermost first.
	inlined [][]string
	number  map[routine]int32
	// evaluated are the functions that interpreters evaluate; nil: there are none
	evaluated map[int32]bool
	all       []measure.Frame // of links, for readers of a running source; empty with later
	code      codeCache
	passing   bool     // the last chain has frames whose names may change
	pcs       []uint64 // buffer for a stack
	of        []int32  // buffer for its functions
	seeds     [2]maphash.Seed
	kernel    lookedUp
	user      lookedUp
	ids       frameIDs
}

// frameOptions select what frames are.
type frameOptions struct {
	later  bool // no reader runs: names of functions in files are looked up by resolve
	kept   bool // stacks are in the stackStore, and values are numbers of frames
	places bool // each place in a function has a frame, whose name has the offset in the symbol
}

// A codeCache contains the functions of addresses that were looked up.
type codeCache struct {
	byPID map[int]*code // 0: the kernel
	size  int           // addresses in byPID
	// groups are the functions of one address, innermost first: inlined functions, and last the one
	// that contains them.
	groups [][]int32
	known  uint64 // the state of inlined functions; see symbol.Processes.Inlinings
}

// frameIDs are the frames of stacks by their IDs in the kernel.
type frameIDs struct {
	now map[uint32]int32 // stacks that were read last
	// before has the stacks of the reading before: a program that ran while they were read may have
	// used their IDs.
	before map[uint32]int32
	turned bool // now and before were exchanged for this reading
}

// A link is a frame: a function, and the frame of its caller.
type link struct{ caller, function int32 }

// A routine is the identity of a function. With a spot its name is not known yet.
type routine struct {
	symbol, module string
	spot           symbol.Spot
	addr           uint64 // of a spot, where each place has its own frame
	past           uint64 // how far behind the spot addr is
}

// code has the functions that addresses of a process are in.
type code struct {
	reading uint64 // number of the reading of the process's maps
	// at has as key twice the address, plus 1 for a return address. A value below 0 is a group: -1
	// is the first.
	at map[uint64]int32
}

// lookedUp caches the frames of stacks by the hash of their addresses.
type lookedUp struct {
	at    map[[2]uint64]int32
	since time.Time
}

const (
	// mostFrames is how many frames there may be before trimFrames drops them. Programs that run
	// briefly, as in a build, add new frames all the time.
	mostFrames = 1 << 15
	// mostKnown is how many stacks are cached by their addresses.
	mostKnown = 1 << 14
	// mostCoded is how many addresses of all processes are cached with their functions.
	mostCoded = 1 << 15
	// Cached stacks expire, because a process may have executed another program, and another module
	// may have been loaded at the same address.
	kernelKnown = 10 * time.Minute
	userKnown   = time.Minute
)

func newFrames() *frames {
	f := &frames{
		links:  []link{{-1, -1}},
		at:     map[link]int32{},
		number: map[routine]int32{},
		code:   codeCache{byPID: map[int]*code{}},
		ids:    frameIDs{now: map[uint32]int32{}, before: map[uint32]int32{}},
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	f.all = []measure.Frame{{Parent: -1}}
	return f
}

// add returns the frame of a stack of functions, innermost first.
func (f *frames) add(of []int32) int32 {
	at := int32(-1)
	for i := len(of) - 1; i >= 0; i-- {
		l := link{at, of[i]}
		n, ok := f.at[l]
		if !ok {
			n = int32(len(f.links))
			f.at[l] = n
			f.links = append(f.links, l)
			if !f.later {
				fn := &f.funcs[l.function]
				f.all = append(
					f.all, measure.Frame{Symbol: fn.symbol, Module: fn.module, Parent: at},
				)
			}
		}
		at = n
	}
	return max(at, 0)
}

// function returns the number of the function that a place is in.
func (f *frames) function(p symbol.Place, spot symbol.Spot, past uint64) int32 {
	var fn routine
	switch {
	case spot == symbol.Spot{}:
		fn.module, fn.symbol = f.called(p)
	case f.places:
		fn = routine{module: p.Module, spot: spot, addr: p.Address, past: past}
	default:
		fn = routine{module: p.Module, spot: spot}
	}
	return f.routine(fn)
}

// routine returns the number of a function.
func (f *frames) routine(fn routine) int32 {
	n, ok := f.number[fn]
	if !ok {
		n = int32(len(f.funcs))
		f.number[fn] = n
		f.funcs = append(f.funcs, fn)
	}
	return n
}

// called returns the module and the name of a frame.
func (f *frames) called(p symbol.Place) (module, name string) {
	switch {
	case f.places:
		p.Module, module = "", p.Module
		return module, p.String()
	case p.Name != "":
		return p.Module, p.Name
	case p.Module != "": // functions without a name share a frame per file
		return p.Module, "[" + p.Module + "]"
	}
	return "", unknownFrame
}

// unknownFrame is the name of a frame about which nothing is known.
const unknownFrame = "[unknown]"

// inlinedMark follows the names of inlined functions, as in FlameGraph's stacks.
const inlinedMark = "_[i]"

// resolve looks up the names of functions in files, with inline also of inlined functions. It
// returns caveats on inlined functions.
func (f *frames) resolve(ps *symbol.Processes, inline bool) (notes []string) {
	var spots []symbol.Spot
	for i := range f.funcs {
		spots = append(spots, f.funcs[i].spot)
	}
	names, offsets := ps.Resolve(spots)
	if inline {
		f.inlined, notes = ps.Inlined(spots)
	}
	for i := range f.funcs {
		if fn := &f.funcs[i]; fn.spot != (symbol.Spot{}) {
			fn.module, fn.symbol = f.called(
				symbol.Place{
					Address: fn.addr,
					Module:  fn.module,
					Name:    names[i],
					Offset:  offsets[i] + fn.past,
				},
			)
			fn.spot = symbol.Spot{}
		}
	}
	return notes
}

// texts returns a function that appends the names of a stack's frames, innermost first. Call it
// after resolve.
func (f *frames) texts() func(out []string, at int32) []string {
	text := make([]string, len(f.funcs)) // cache
	return func(out []string, at int32) []string {
		for at > 0 {
			l := f.links[at]
			if text[l.function] == "" {
				fn := &f.funcs[l.function]
				text[l.function] = fn.symbol
				if fn.module != "" && fn.symbol != "["+fn.module+"]" {
					text[l.function] = fn.module + "`" + fn.symbol
				}
			}
			if f.inlined != nil {
				for _, name := range f.inlined[l.function] {
					if module := f.funcs[l.function].module; module != "" {
						name = module + "`" + name
					}
					out = append(out, name+inlinedMark)
				}
			}
			out = append(out, text[l.function])
			at = l.caller
		}
		return out
	}
}

// releaseLookups releases the caches by which new stacks are looked up.
func (f *frames) releaseLookups() {
	f.at, f.number, f.code, f.ids = nil, nil, codeCache{}, frameIDs{}
	f.kernel, f.user = lookedUp{}, lookedUp{}
}

// look parses a key of a map of stacks. It returns the process, and the frame if the same addresses
// are cached; else it sets f.pcs to the addresses. hashed is the key in the cache.
func (f *frames) look(key []byte) (pid int, at int32, known bool, hashed [2]uint64) {
	pid = int(binary.NativeEndian.Uint64(key))
	l, lasts := f.lookedUp(pid)
	if l.at == nil || len(l.at) >= mostKnown || time.Since(l.since) > lasts {
		*l = lookedUp{map[[2]uint64]int32{}, time.Now()}
		if pid == 0 {
			delete(f.code.byPID, 0)
		}
	}
	n := 8
	for n+8 <= len(key) && binary.NativeEndian.Uint64(key[n:]) != 0 {
		n += 8
	}
	hashed = [2]uint64{maphash.Bytes(f.seeds[0], key[:n]), maphash.Bytes(f.seeds[1], key[:n])}
	if at, known = l.at[hashed]; known {
		return pid, at, true, hashed
	}
	f.pcs = f.pcs[:0]
	for i := 8; i < n; i += 8 {
		f.pcs = append(f.pcs, binary.NativeEndian.Uint64(key[i:]))
	}
	return pid, 0, false, hashed
}

// lookedUp returns the cache of stacks of the kernel (pid 0) or of processes, and how long its
// entries last.
func (f *frames) lookedUp(pid int) (*lookedUp, time.Duration) {
	if pid == 0 {
		return &f.kernel, kernelKnown
	}
	return &f.user, userKnown
}

// of returns the cached addresses of a process. reading is the number of the last reading of its
// maps.
func (c *codeCache) of(pid int, reading uint64) *code {
	if c.size > mostCoded {
		c.clear()
	}
	one := c.byPID[pid]
	if one == nil || one.reading != reading {
		one = &code{reading, map[uint64]int32{}}
		c.byPID[pid] = one
	}
	return one
}

func (c *codeCache) clear() {
	clear(c.byPID)
	c.size, c.groups = 0, nil
}

// relearn drops cached addresses of processes when more inlined functions are known.
func (f *frames) relearn(known uint64) {
	if known != f.code.known {
		f.code.known, f.user = known, lookedUp{}
		f.code.clear()
	}
}

// group returns the value in code.at of a place in a function, with the names of the functions that
// are inlined there.
func (f *frames) group(module string, inlined []string, function int32) int32 {
	if len(inlined) == 0 {
		return function
	}
	var all []int32
	for _, name := range inlined {
		all = append(all, f.routine(routine{module: module, symbol: name + inlinedMark}))
	}
	f.code.groups = append(f.code.groups, append(all, function))
	return -int32(len(f.code.groups))
}

// expand appends the functions of a value in code.at.
func (c *codeCache) expand(of []int32, number int32) []int32 {
	if number >= 0 {
		return append(of, number)
	}
	return append(of, c.groups[-number-1]...)
}

// innermost returns the frame of a stack that has only the innermost frames of another one: at most
// most of them, not counting MissingFrame.
func (f *frames) innermost(at int32, most int) int32 {
	var of []int32
	for ; at > 0 && most > 0; at = f.links[at].caller {
		of = append(of, f.links[at].function)
		if f.funcs[f.links[at].function].symbol != MissingFrame {
			most--
		}
	}
	return f.add(of)
}
