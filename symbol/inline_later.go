package symbol

import (
	"os"
	"slices"
	"time"
)

// A server looks up inlined functions when it has time: addresses of Learn wait here until
// LearnInlined is called. From then on its results are returned with them.

// mostWished is how many addresses wait, of all files together. Those of further files are
// requested again later.
const mostWished = 1 << 14

// An inlineWish is addresses of a file whose inlined functions are not known yet.
type inlineWish struct {
	process *process // as it was
	mapping Mapping
	file    fileKey
	addrs   map[uint64]bool
}

// Inlining enables the lookup of inlined functions. It is called after DisableSymbolCache, before
// any other method.
func (ps *Processes) Inlining() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.wished = map[learnKey]*inlineWish{}
}

// wish records addresses whose inlined functions are to be looked up. p had the file last, as m.
func (ps *Processes) wish(of learnKey, p *process, m *Mapping, file fileKey, addrs []uint64) {
	if ps.wished == nil || of.o.noInlined {
		return
	}
	w := ps.wished[of]
	if w == nil {
		if ps.waiting >= mostWished {
			return
		}
		w = &inlineWish{addrs: map[uint64]bool{}}
		ps.wished[of] = w
	}
	// Who came last is there longest.
	w.process = &process{pid: p.pid, user: p.user, known: p.known}
	w.mapping, w.file = *m, file
	for _, a := range addrs {
		if ps.waiting < mostWished && !w.addrs[a] {
			w.addrs[a] = true
			ps.waiting++
		}
	}
}

// LearnInlined reads the debug information of the waiting file with the most addresses for its
// size, and returns the CPU time that it took; false: none waits. Addresses that are not found
// within the limit of CPU time are dropped.
func (ps *Processes) LearnInlined(limit time.Duration) (took time.Duration, any bool) {
	of, w, addrs := ps.mostWishes()
	if w == nil {
		return 0, false
	}
	f, key, err := ps.open(w.process, &w.mapping)
	if err != nil {
		return 0, true // it has ended, and its file is not there by its name
	}
	defer f.Close()
	if key != w.file {
		return 0, true // it has another one now
	}
	var debug *os.File
	if !of.o.full {
		if debug, _ = ps.openDebug(w.process, of.o, w.mapping.Path); debug != nil {
			defer debug.Close()
		}
	}
	// Without the lock: others look up names meanwhile.
	a, err := ps.files.read(of.o.payer, &Request{Op: OpInlined, File: f, Debug: debug, Addrs: addrs,
		Limit: limit})
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.files.apart {
		ps.away.Add(int64(a.CPU))
	}
	if err == nil && !a.Found {
		of.o.noInlined = true
		return a.CPU, true
	}
	for i, names := range a.Inlined {
		if l, known := ps.lean.get(of.user, of.o, addrs[i]); known && len(names) > 0 {
			l.inlined = names
			ps.lean.put(of.user, of.o, addrs[i], l)
			ps.inlinings++
		}
	}
	return a.CPU, true
}

// mostWishes removes and returns the file with the most waiting addresses for its size: small files
// take little time.
func (ps *Processes) mostWishes() (of learnKey, most *inlineWish, addrs []uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for key, w := range ps.wished {
		if most == nil || float64(len(w.addrs))*float64(most.file.size) > float64(len(
			most.addrs))*float64(w.file.size) {
			of, most = key, w
		}
	}
	if most == nil {
		return of, nil, nil
	}
	delete(ps.wished, of)
	ps.waiting -= len(most.addrs)
	for a := range most.addrs {
		addrs = append(addrs, a)
	}
	slices.Sort(addrs)
	return of, most, addrs
}

// Inlinings returns a number that changes when more is known of addresses that were looked up
// before.
func (ps *Processes) Inlinings() uint64 {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.inlinings
}

// FindInlined looks up the inlined functions at the addresses of some stacks, for InlinedIn. It
// reads the debug information of each file once, within a limit of CPU time, and returns the time
// that it took.
func (ps *Processes) FindInlined(stacks []Asked, limit time.Duration) time.Duration {
	wishes := map[*object]*foundWish{}
	ps.run(func() {
		if ps.found == nil {
			ps.found = map[*object]map[uint64][]string{}
		}
		for _, s := range stacks {
			for n, pc := range s.PCs {
				ps.wishInlined(wishes, s.PID, pc, pc-uint64(min(n, 1))) // as Stack has it
			}
		}
	})
	ps.mu.Lock()
	defer ps.mu.Unlock()
	left := limit
	for o, w := range wishes {
		slices.Sort(w.addrs)
		f, key, err := ps.open(w.process, &w.mapping)
		if err != nil {
			continue
		}
		if key == w.file {
			one := &laterFile{file: f, process: w.process, mapping: w.mapping}
			names, _, _ := ps.inlinedIn(o, one, w.addrs, &left) // what was found counts
			for i := range names {
				ps.found[o][w.addrs[i]] = names[i]
			}
		}
		f.Close() //nolint:errcheck // it was read from
	}
	return limit - left
}

// A foundWish is addresses of a file for FindInlined.
type foundWish struct {
	process *process
	mapping Mapping
	file    fileKey
	addrs   []uint64
}

// wishInlined adds the place of an address of a process to wishes if it is in a file and was not
// looked up.
func (ps *Processes) wishInlined(wishes map[*object]*foundWish, pid int, pc, near uint64) {
	_, spot := ps.spot(pid, pc, near)
	if spot.file == nil || spot.beyond || spot.file.noInlined {
		return
	}
	into := ps.found[spot.file]
	if into == nil {
		into = map[uint64][]string{}
		ps.found[spot.file] = into
	}
	if _, known := into[spot.addr]; known || len(into) >= mostWished {
		return
	}
	w := wishes[spot.file]
	if w == nil {
		p, err := ps.process(pid)
		if err != nil {
			return
		}
		p, i := p.lookup(near)
		if i < 0 {
			return
		}
		w = &foundWish{process: p, mapping: p.maps[i], file: p.keys[i]}
		wishes[spot.file] = w
	}
	into[spot.addr] = nil
	w.addrs = append(w.addrs, spot.addr)
}

// InlinedIn returns for each address of a stack the functions inlined there, innermost first, as
// far as FindInlined has found them.
func (ps *Processes) InlinedIn(pid int, pcs []uint64) [][]string {
	out := make([][]string, len(pcs))
	ps.run(func() {
		for i, pc := range pcs {
			if _, spot := ps.spot(pid, pc, pc-uint64(min(i, 1))); spot.file != nil {
				out[i] = ps.found[spot.file][spot.addr]
			}
		}
	})
	return out
}
