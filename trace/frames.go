package trace

import (
	"encoding/binary"
	"hash/maphash"
	"time"

	"culprit/measure"
	"culprit/symbol"
)

// frames is stacks as chains of frames, by function: of a function's places one frame is made. What
// was looked up is remembered by the addresses, so that a stack that comes again costs a look into
// a map, and another one of the same functions one for each of its frames.
type frames struct {
	links []link // callers first; it only grows. The first is the empty stack
	at    map[link]int32
	funcs []routine
	// of funcs, once they were resolved: the functions within them, innermost first; nil: none
	inlined [][]string
	number  map[routine]int32
	all     []measure.Frame // of links, for readers of a running source
	// nobody is: all has nothing, and functions of files have their names when resolve was called
	later bool
	// stacks stay in the kernel until the end, and values that are stacks are numbers of frames
	kept bool
	// a frame is made of each place in a function, with its offset in the symbol
	places bool
	// functions of one address, innermost first: those that were inlined, and the one that has them
	groups  [][]int32
	known   uint64        // of what was inlined; see symbol.Processes.Inlinings
	code    map[int]*code // by process; that of the kernel is 0
	coded   int           // addresses in code, of all
	passing bool          // the last chain has frames whose names may be others the next time
	pcs     []uint64      // buffer for a stack
	of      []int32       // buffer for its functions
	seeds   [2]maphash.Seed
	kernel  lookedUp
	user    lookedUp
	now     map[uint32]int32 // of the stacks that the kernel gave last, by their ids
	// and of those before: a program that ran while they were read may have used their ids
	before map[uint32]int32
	turned bool // they were exchanged for this gathering
}

// A link is a frame: which function, and the frame of its caller.
type link struct{ caller, function int32 }

// A routine is what makes a function what it is. With a spot its name is not known yet.
type routine struct {
	symbol, module string
	spot           symbol.Spot
	addr           uint64 // of a spot, where each place has its own frame
	past           uint64 // and how far behind it that is
}

// code is which functions addresses of a process are in.
type code struct {
	reading uint64 // of the process's maps
	// by the address twice, plus 1 if it is a return address; below 0: the group of that number,
	// from -1 on
	at map[uint64]int32
}

// lookedUp is the frames of stacks by their addresses.
type lookedUp struct {
	at    map[[2]uint64]int32
	since time.Time
}

const (
	// mostFrames is how many frames there may be before others are begun. Beside builds, which
	// always bring new ones, frames and functions took 15 MB after six minutes with a bound of 1 <<
	// 17.
	mostFrames = 1 << 15
	// mostKnown is how many stacks are remembered by their addresses.
	mostKnown = 1 << 14
	// mostCoded is how many addresses of all processes are remembered with their functions.
	mostCoded = 1 << 15
	// What was looked up is forgotten in time: a process may have replaced its program, or a module
	// have come where another was.
	kernelKnown = 10 * time.Minute
	userKnown   = time.Minute
)

func newFrames() *frames {
	f := &frames{
		links:  []link{{-1, -1}},
		at:     map[link]int32{},
		number: map[routine]int32{},
		code:   map[int]*code{},
		now:    map[uint32]int32{},
		before: map[uint32]int32{},
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

// called returns what a frame is called.
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
	return "", "[unknown]"
}

// inlinedMark stands behind the names of inlined functions, as in FlameGraph's stacks.
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
	text := make([]string, len(f.funcs)) // of those that were asked for
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

// rested releases what new stacks are looked up by.
func (f *frames) releaseLookups() {
	f.at, f.number, f.code, f.now, f.before = nil, nil, nil, nil, nil
	f.kernel, f.user = lookedUp{}, lookedUp{}
}

// look parses a key of a map of stacks, and returns its frame if the same addresses were looked up
// before.
func (f *frames) look(key []byte) (pid int, at int32, known bool, hashed [2]uint64) {
	pid = int(binary.NativeEndian.Uint64(key))
	l, lasts := f.lookedUp(pid)
	if l.at == nil || len(l.at) >= mostKnown || time.Since(l.since) > lasts {
		*l = lookedUp{map[[2]uint64]int32{}, time.Now()}
		if pid == 0 {
			delete(f.code, 0)
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

// lookedUp returns where stacks of a process are remembered, or of the kernel, and for how long.
func (f *frames) lookedUp(pid int) (*lookedUp, time.Duration) {
	if pid == 0 {
		return &f.kernel, kernelKnown
	}
	return &f.user, userKnown
}

// codeOf returns the looked-up addresses of a process. reading is the number of the last reading of
// its maps.
func (f *frames) codeOf(pid int, reading uint64) *code {
	if f.coded > mostCoded {
		f.uncode()
	}
	c := f.code[pid]
	if c == nil || c.reading != reading {
		c = &code{reading, map[uint64]int32{}}
		f.code[pid] = c
	}
	return c
}

// uncode forgets which functions addresses are in.
func (f *frames) uncode() {
	clear(f.code)
	f.coded, f.groups = 0, nil
}

// relearn drops looked-up addresses when more inlined functions are known.
func (f *frames) relearn(known uint64) {
	if known != f.known {
		f.known, f.user = known, lookedUp{}
		f.uncode()
	}
}

// group returns the number in code of a place whose function is known, and what was put into it
// there.
func (f *frames) group(module string, inlined []string, function int32) int32 {
	if len(inlined) == 0 {
		return function
	}
	var all []int32
	for _, name := range inlined {
		all = append(all, f.routine(routine{module: module, symbol: name + inlinedMark}))
	}
	f.groups = append(f.groups, append(all, function))
	return -int32(len(f.groups))
}

// expand appends the functions of a number in code.
func (f *frames) expand(of []int32, number int32) []int32 {
	if number >= 0 {
		return append(of, number)
	}
	return append(of, f.groups[-number-1]...)
}

// innermost returns the frame of a stack that has the innermost frames of another one alone.
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
