// Package dwarf reads debug information (DWARF 2 to 5): which functions contain an address, and
// which calls the compiler inlined there. It opens nothing and parses what strangers wrote, so only
// a process that may parse it uses it.
package dwarf

import "slices"

// A compiler puts the code of small functions into their callers. Debug information has a tree of
// these inlined calls below each function, with their addresses. It is read in order, for the
// requested addresses only: the code ranges of each unit; in units with an address the functions;
// in functions with an address the calls; then the names of what was found.

// Limits of debug information, against files that have very much of it or are not what they say.
const (
	mostUnits = 1 << 18 // of a file
	// MostDeep is how deep calls are inlined into one another.
	MostDeep = 64
	// inlineCheckEvery is how many entries are read between two checks of the time.
	inlineCheckEvery = 1 << 8
)

// A Function is a function that contains an address. Name "": unknown.
type Function struct {
	Name  string
	Start uint64 // where its code begins
}

// An inlineSearch looks for the inlined calls at some addresses of a file.
type inlineSearch struct {
	d     *File
	over  func() bool // no time is left
	late  bool        // it was over before all was read
	addrs []uint64    // in order, each once
	of    []inlinedAt // by address
	units []uint64    // where units begin

	levels  []inlineLevel
	numbers []int32 // indexes of addresses, for levels
	seen    int     // entries
}

// An inlinedAt is the inlined calls found at an address.
type inlinedAt struct {
	low   uint64   // where the code of the function begins that has it
	whole uint64   // the entry of that function; 0: none was found
	calls []uint64 // the abstract functions, the outermost first
}

// An inlineLevel is an entry whose children are being read.
type inlineLevel struct {
	addrs []int32 // that it has, by number; nil: it is no function, and functions are looked for
	from  int     // where those begin in numbers
	calls int     // how many are around them
}

// Inlined returns for each address, which are sorted, the names of the functions inlined there,
// innermost first; none: the code is the function's own, or it is unknown. late: over returned true
// before all was read; what was found until then has its names.
func (d *File) Inlined(addrs []uint64, over func() bool) (names [][]string, late bool) {
	in := d.search(addrs, over)
	called := in.names(func(at *inlinedAt) []uint64 { return at.calls })
	names = make([][]string, len(addrs))
	for i := range in.of {
		for _, origin := range slices.Backward(in.of[i].calls) {
			if name := called[origin]; name != "" {
				names[i] = append(names[i], name)
			}
		}
	}
	return names, in.late
}

// Functions returns the functions that contain addresses, which are sorted; Name "": unknown. They
// are those found until over returned true.
func (d *File) Functions(addrs []uint64, over func() bool) []Function {
	in := d.search(addrs, over)
	called := in.names(func(at *inlinedAt) []uint64 { return []uint64{at.whole} })
	names := make([]Function, len(addrs))
	for i, at := range in.of {
		if name := called[at.whole]; at.whole != 0 && name != "" {
			names[i] = Function{Name: name, Start: at.low}
		}
	}
	return names
}

// search looks for the functions and the inlined calls at addresses, which are sorted.
func (d *File) search(addrs []uint64, over func() bool) *inlineSearch {
	in := &inlineSearch{d: d, over: over, addrs: addrs, of: make([]inlinedAt, len(addrs))}
	for at := uint64(0); at < d.info.Size() && len(in.units) < mostUnits && !in.late; {
		u, e, ok := d.unit(at)
		if !ok {
			break
		}
		in.units = append(in.units, at)
		at = u.end
		if e != nil && e.tag == tagUnit && in.wanted(&u, e) {
			in.read(&u)
		}
		in.looked()
	}
	return in
}

// looked counts an entry and checks from time to time whether the search is over.
func (in *inlineSearch) looked() {
	if in.seen++; in.seen%inlineCheckEvery == 0 && in.over() {
		in.late = true
	}
}

// first returns the index of the first address that is not below low.
func (in *inlineSearch) first(low uint64) int {
	i, _ := slices.BinarySearch(in.addrs, low)
	return i
}

// wanted reports whether a unit has one of the addresses.
func (in *inlineSearch) wanted(u *unit, e *entry) (yes bool) {
	in.d.rangesOf(u, e, func(low, high uint64) {
		if i := in.first(low); i < len(in.addrs) && in.addrs[i] < high {
			yes = true
		}
	})
	return yes
}

// read reads the functions of a unit.
func (in *inlineSearch) read(u *unit) {
	d, s := in.d, &in.d.entries
	shapes := d.shapesOf(u)
	s.seek(u.first)
	in.levels, in.numbers = in.levels[:0], in.numbers[:0]
	past := 0 // how deep within what is passed over
	var e entry
	for s.at < u.end && !s.bad && !in.late {
		in.looked()
		at := s.at
		code := s.uleb()
		if code == 0 {
			switch {
			case past > 0:
				past--
			case len(in.levels) > 1:
				in.numbers = in.numbers[:in.levels[len(in.levels)-1].from]
				in.levels = in.levels[:len(in.levels)-1]
			default:
				return
			}
			continue
		}
		shape := shapes.of(code)
		if shape == nil {
			return
		}
		if past > 0 {
			d.skipEntry(u, shape)
			if shape.children {
				past++
			}
			continue
		}
		within := inlineLevel{from: len(in.numbers)}
		if len(in.levels) > 0 {
			within.addrs, within.calls = in.levels[len(in.levels)-1].addrs,
				in.levels[len(in.levels)-1].calls
		}
		e.sibling = 0
		enter := false
		switch {
		case shape.tag == tagSubprogram:
			if !d.entry(u, shape, &e, false) {
				return
			}
			within.addrs, within.calls = in.function(u, &e, at), 0
			enter = len(within.addrs) > 0
		case len(within.addrs) > 0 && shape.tag == tagInlined:
			if !d.entry(u, shape, &e, false) {
				return
			}
			within.addrs, within.calls = in.call(u, &e, within), within.calls+1
			enter = len(within.addrs) > 0
		case len(within.addrs) > 0:
			d.skipEntry(u, shape)
			enter = shape.tag == tagBlock || shape.tag == tagTry || shape.tag == tagCatch
		default:
			d.skipEntry(u, shape)
			switch shape.tag {
			case tagUnit, tagNamespace, tagModule, tagStruct, tagClass:
				enter = true
			}
		}
		switch {
		case !shape.children:
			if len(in.levels) == 0 {
				return
			}
			in.numbers = in.numbers[:within.from]
		case enter:
			in.levels = append(in.levels, within)
		case e.sibling > s.at && e.sibling < u.end:
			s.seek(e.sibling)
		default:
			past = 1
		}
	}
}

// function returns the addresses that are in a function and in no function that begins after it. at
// is where its entry begins.
func (in *inlineSearch) function(u *unit, e *entry, at uint64) []int32 {
	from := len(in.numbers)
	in.d.rangesOf(u, e, func(low, high uint64) {
		if low == 0 {
			return // the linker left it out
		}
		for i := in.first(low); i < len(in.addrs) && in.addrs[i] < high; i++ {
			if one := &in.of[i]; low > one.low {
				one.low, one.whole, one.calls = low, at, one.calls[:0]
				in.numbers = append(in.numbers, int32(i))
			}
		}
	})
	return in.numbers[from:]
}

// call returns the addresses within a function that an inlined call has, and records the call for
// them.
func (in *inlineSearch) call(u *unit, e *entry, within inlineLevel) []int32 {
	from := len(in.numbers)
	if e.origin == 0 || within.calls >= MostDeep {
		return nil
	}
	in.d.rangesOf(u, e, func(low, high uint64) {
		for _, i := range within.addrs {
			if a := in.addrs[i]; a >= low && a < high && len(in.of[i].calls) == within.calls {
				in.of[i].calls = append(in.of[i].calls, e.origin)
				in.numbers = append(in.numbers, i)
			}
		}
	})
	return in.numbers[from:]
}

// names returns the names of the functions that were found and that which selects, by their
// entries: the demangled linker name, else the name in the source.
func (in *inlineSearch) names(which func(*inlinedAt) []uint64) map[uint64]string {
	type asked struct{ at, origin uint64 }
	var next []asked
	texts := map[uint64]text{}
	for i := range in.of {
		for _, origin := range which(&in.of[i]) {
			if _, twice := texts[origin]; !twice {
				texts[origin] = text{}
				next = append(next, asked{origin, origin})
			}
		}
	}
	// an instance names an abstract one, which may name its declaration
	for n := 0; n < 8 && len(next) > 0; n++ {
		now := next
		next = nil
		slices.SortFunc(now, func(a, b asked) int {
			if a.at < b.at {
				return -1
			}
			return 1
		})
		var u unit
		var e entry
		for _, a := range now {
			if a.at >= u.end {
				i, ok := slices.BinarySearch(in.units, a.at)
				if !ok {
					i--
				}
				if i < 0 {
					continue
				}
				var root *entry
				if u, root, ok = in.d.unit(in.units[i]); !ok || root == nil {
					u = unit{}
					continue
				}
			}
			if a.at < u.first || a.at >= u.end {
				continue
			}
			shapes := in.d.shapesOf(&u)
			in.d.entries.seek(a.at)
			shape := shapes.of(in.d.entries.uleb())
			if shape == nil || !in.d.entry(&u, shape, &e, true) {
				continue
			}
			if e.linkage.there() {
				texts[a.origin] = e.linkage
				continue
			}
			if known := texts[a.origin]; e.name.there() && !known.there() {
				texts[a.origin] = e.name
			}
			if e.specifies != 0 {
				next = append(next, asked{e.specifies, a.origin})
			} else if e.origin != 0 {
				next = append(next, asked{e.origin, a.origin})
			}
		}
	}
	out := make(map[uint64]string, len(texts))
	var places []uint64
	for origin, t := range texts {
		if t.w == nil {
			out[origin] = in.d.readable(t.text)
		} else {
			places = append(places, origin)
		}
	}
	slices.SortFunc(places, func(a, b uint64) int {
		if texts[a].at < texts[b].at {
			return -1
		}
		return 1
	})
	for _, origin := range places {
		t := texts[origin]
		if text, ok := t.w.Text(t.at); ok {
			out[origin] = in.d.readable(text)
		}
	}
	return out
}
