package symbol

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
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
	file, debug *os.File // nil: not held; debug is what a distribution keeps beside it
	process     *process // that had it first, and where
	mapping     Mapping
	complete    bool // debug was looked for
}

// mostHeld is how many files are kept open. Others are opened again by name.
const mostHeld = 512

// DeferSymbols defers reading the symbols of files to Resolve. Until then places in files have the
// module alone. It is called before any other method.
func (ps *Processes) DeferSymbols() {
	ps.DisableSymbolCache()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.later, ps.asks = map[*object]*laterFile{}, false
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
	places, spots, inlined := make([]Place, len(pcs)), make([]Spot, len(pcs)),
		make([][]string, len(pcs))
	ps.run(func() {
		for i, pc := range pcs {
			near := pc - uint64(min(i, 1))
			if ps.later == nil || ps.asks {
				places[i], inlined[i] = ps.within(pid, pc, near)
				continue
			}
			if places[i], spots[i] = ps.spot(pid, pc, near); spots[i].beyond {
				places[i], spots[i] = Place{Address: pc}, Spot{} // no code is there
			}
		}
	})
	return places, spots, inlined
}

// hold keeps a file for Resolve if it may have symbols; false: it is not kept.
func (ps *Processes) hold(o *object, f *os.File, p *process, m *Mapping) bool {
	if ps.later == nil || o == nil || ps.later[o] != nil {
		return false
	}
	l := &laterFile{process: p, mapping: *m}
	ps.later[o] = l
	if len(ps.later) > mostHeld {
		return false
	}
	l.file = f
	l.complete = true
	if !o.full {
		l.debug, _ = ps.openDebug(p, o, m.Path)
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
	names, offsets = make([]string, len(spots)), make([]uint64, len(spots))
	of := map[*object][]int{}
	for i, s := range spots {
		if s.file != nil {
			of[s.file] = append(of[s.file], i)
		}
	}
	ps.run(func() {
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
			module := clean(path.Base(l.mapping.Path))
			//nolint:errcheck // what could be read counts
			ps.askNames(o, o, l, slices.Compact(addrs),
				func(_ []uint64, into map[uint64]learned, _ error) {
					for _, i := range which {
						if one := into[spots[i].addr]; one.name != "" {
							names[i], offsets[i] = named(one.name, module), one.from
						}
					}
				})
		}
	})
	return names, offsets
}

// askNames looks up addresses, which are sorted, in a file, which it opens if it is not open. done
// gets parts of the addresses with what was found of them, and the error of a Reader. key
// identifies the file in the call. The error is that of opening the file: then nothing is asked.
func (ps *Processes) askNames(key any, o *object, l *laterFile, addrs []uint64,
	done func(addrs []uint64, into map[uint64]learned, err error)) error {
	for n := 0; len(addrs) > 0; n++ {
		part := addrs[:min(len(addrs), MostAddrs)]
		addrs = addrs[len(part):]
		type partKey struct {
			of any
			n  int
		}
		if ps.talk.has(partKey{key, n}) {
			continue
		}
		l, opened, err := ps.opened(o, l)
		if err == nil && opened == nil && ps.talk != nil {
			l, opened, err = l.duplicate() // another call may close it meanwhile
		}
		if err != nil {
			return err
		}
		ps.ask(partKey{key, n}, &query{payer: o.payer, opened: opened,
			q: &Request{Op: OpNames, File: l.file, Debug: l.debug, Addrs: part, Whole: ps.asks},
			done: func(a *Answer, err error) {
				into := make(map[uint64]learned, len(part))
				for i, name := range a.Names {
					if name.Name != "" {
						into[part[i]] = learned{name: name.Name, from: part[i] - name.Start}
					}
				}
				if errors.Is(err, ErrLimit) {
					ps.fail(l.mapping.Path, fmt.Sprintf("reading its symbols takes more than %v "+
						"of CPU", ps.files.limit))
				}
				done(part, into, err)
			}})
	}
	return nil
}

// mostFailed is how many files a note names whose names are missing.
const mostFailed = 8

// fail records why names of a file are missing.
func (ps *Processes) fail(path, why string) {
	if len(ps.failed) < mostFailed {
		ps.failed[clean(path)] = why
	}
}

// opened returns a file whose descriptors are open, and those that it opened, which the caller
// must close.
func (ps *Processes) opened(o *object, l *laterFile) (open *laterFile, more []*os.File, err error) {
	if l.file != nil && l.complete {
		return l, nil, nil
	}
	open = &laterFile{file: l.file, process: l.process, mapping: l.mapping}
	if l.file == nil {
		if open.file, _, err = ps.open(l.process, &l.mapping); err != nil {
			return nil, nil, err
		}
		more = append(more, open.file)
	}
	if !o.full {
		if open.debug, _ = ps.openDebug(l.process, o, l.mapping.Path); open.debug != nil {
			more = append(more, open.debug)
		}
	}
	return open, more, nil
}

// duplicate returns the file with descriptors of its own, which the caller must close.
func (l *laterFile) duplicate() (own *laterFile, files []*os.File, err error) {
	own = &laterFile{process: l.process, mapping: l.mapping, complete: true}
	for _, one := range []struct{ from, to **os.File }{
		{&l.file, &own.file}, {&l.debug, &own.debug},
	} {
		if *one.from == nil {
			continue
		}
		fd, err := unix.FcntlInt((*one.from).Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeAll(files)
			return nil, nil, err
		}
		*one.to = os.NewFile(uintptr(fd), (*one.from).Name())
		files = append(files, *one.to)
	}
	return own, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close() //nolint:errcheck // it was read from
	}
}
