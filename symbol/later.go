package symbol

import (
	"os"
	"path"
	"slices"
)

// Who wants the names of what was met when all is over has each file read through once, in the end:
// the file is held open until then, so that it counts for nothing if it lost its name, or its
// process ended.

// A Spot is an address in a file whose symbol is resolved later. The zero Spot is none.
type Spot struct {
	file   *object
	addr   uint64
	beyond bool // the file's own bytes
}

// A laterFile is a file whose symbols are resolved later.
type laterFile struct {
	file, debug     *os.File // nil: not held; debug is what a distribution keeps beside it
	size, debugSize int64
	process         *process // that had it first, and where
	mapping         Mapping
}

// mostHeld is how many files are kept open. Others are opened again by name.
const mostHeld = 512

// DeferSymbols defers reading the symbols of files to Resolve. Until then places in files have the
// module alone. It is called before any other method.
func (ps *Processes) DeferSymbols() {
	ps.DisableSymbolCache()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.later = map[*object]*laterFile{}
}

// Reading returns a number that changes when the maps of a process are read again, which
// invalidates results for its addresses; 0: its maps can't be read.
func (ps *Processes) Reading(pid int) uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p, err := ps.process(pid)
	if err != nil {
		return 0
	}
	return p.reading
}

// Spots resolves a stack as Stack does. For each place whose name Resolve may find it returns a
// Spot; for the others the functions inlined there, innermost first, as far as LearnInlined has
// found them.
func (ps *Processes) Spots(pid int, pcs []uint64) ([]Place, []Spot, [][]string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	places, spots, inlined := make([]Place, len(pcs)), make([]Spot, len(pcs)),
		make([][]string, len(pcs))
	for i, pc := range pcs {
		near := pc - uint64(min(i, 1))
		if ps.later == nil {
			places[i], inlined[i] = ps.within(pid, pc, near)
			continue
		}
		if places[i], spots[i] = ps.spot(pid, pc, near); spots[i].beyond {
			places[i], spots[i] = Place{Address: pc}, Spot{} // no code is there
		}
	}
	return places, spots, inlined
}

// hold keeps a file for Resolve if it may have symbols; false: it is not kept.
func (ps *Processes) hold(o *object, f *os.File, size int64, p *process, m *Mapping) bool {
	if ps.later == nil || o == nil || ps.later[o] != nil {
		return false
	}
	l := &laterFile{size: size, process: p, mapping: *m}
	ps.later[o] = l
	if len(ps.later) > mostHeld {
		return false
	}
	l.file = f
	if h, err := readHeader(f, size); err == nil && !h.full() {
		l.debug, l.debugSize = ps.openDebug(p, o.buildID)
	}
	return true
}

func (l *laterFile) close() {
	for _, f := range []*os.File{l.file, l.debug} {
		if f != nil {
			f.Close() //nolint:errcheck // it was read from
		}
	}
	l.file, l.debug = nil, nil
}

// Resolve returns the names of spots, "" without one, and their offsets from the start of the
// symbol. Each file is read once.
func (ps *Processes) Resolve(spots []Spot) (names []string, offsets []uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	names, offsets = make([]string, len(spots)), make([]uint64, len(spots))
	of := map[*object][]int{}
	for i, s := range spots {
		if s.file != nil {
			of[s.file] = append(of[s.file], i)
		}
	}
	for o, which := range of {
		l := ps.later[o]
		if l == nil {
			continue
		}
		addrs := make([]uint64, len(which))
		for n, i := range which {
			addrs[n] = spots[i].addr
		}
		slices.Sort(addrs)
		addrs = slices.Compact(addrs)
		into := make(map[uint64]learned, len(addrs))
		_ = ps.learnLater(l, addrs, into) // what could be read counts
		for _, i := range which {
			one := into[spots[i].addr]
			names[i], offsets[i] = named(one.name, clean(path.Base(l.mapping.Path))), one.from
		}
	}
	return names, offsets
}

func (ps *Processes) learnLater(l *laterFile, addrs []uint64, into map[uint64]learned) error {
	if l.file == nil {
		f, key, err := ps.open(l.process, &l.mapping)
		if err != nil {
			return err
		}
		defer f.Close()
		return ps.learnFile(f, key.size, l.process, addrs, into)
	}
	h, err := readHeader(l.file, l.size)
	if err != nil {
		return err
	}
	var d *header
	if l.debug != nil {
		d, _ = readHeader(l.debug, l.debugSize)
	}
	return h.learn(d, addrs, into)
}
