package symbol

import "slices"

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
	ps.wished = map[*object]*inlineWish{}
}

// wish records addresses whose inlined functions are to be looked up.
func (ps *Processes) wish(o *object, p *process, mapping int, addrs []uint64) {
	if ps.wished == nil || o.noInlined {
		return
	}
	w := ps.wished[o]
	if w == nil {
		if ps.waiting >= mostWished {
			return
		}
		w = &inlineWish{addrs: map[uint64]bool{}}
		ps.wished[o] = w
	}
	// Who came last is there longest.
	w.process, w.mapping, w.file = &process{pid: p.pid}, p.maps[mapping], p.keys[mapping]
	for _, a := range addrs {
		if ps.waiting < mostWished && !w.addrs[a] {
			w.addrs[a] = true
			ps.waiting++
		}
	}
}

// LearnInlined reads the debug information of the waiting file with the most addresses for its
// size; false: none waits. Addresses that are not found before over returns true are dropped.
func (ps *Processes) LearnInlined(over func() bool) bool {
	o, w, addrs := ps.mostWishes()
	if w == nil {
		return false
	}
	f, key, err := ps.open(w.process, &w.mapping)
	if err != nil {
		return true // it has ended, and its file is not there by its name
	}
	defer f.Close()
	if key != w.file {
		return true // it has another one now
	}
	d := newDebugFile()
	there, done, err := ps.debugLater(d, &laterFile{file: f, process: w.process,
		mapping: w.mapping}, o)
	defer done()
	var names [][]string
	if there && err == nil {
		names, _ = d.inlined(addrs, over)
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if !there {
		o.noInlined = true
		return true
	}
	for i, a := range addrs {
		if l, known := ps.lean.get(o, a); known && names != nil && len(names[i]) > 0 {
			l.inlined = names[i]
			ps.lean.put(o, a, l)
			ps.inlinings++
		}
	}
	return true
}

// mostWishes removes and returns the file with the most waiting addresses for its size: small files
// take little time.
func (ps *Processes) mostWishes() (of *object, most *inlineWish, addrs []uint64) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for o, w := range ps.wished {
		if most == nil || float64(len(w.addrs))*float64(most.file.size) > float64(len(
			most.addrs))*float64(w.file.size) {
			of, most = o, w
		}
	}
	if most == nil {
		return nil, nil, nil
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
// reads the debug information of each file once, until over returns true.
func (ps *Processes) FindInlined(stacks []Asked, over func() bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.found == nil {
		ps.found = map[*object]map[uint64][]string{}
	}
	type wish struct {
		p     *process
		i     int // mapping
		addrs []uint64
	}
	wishes := map[*object]*wish{}
	for _, s := range stacks {
		for n, pc := range s.PCs {
			near := pc - uint64(min(n, 1)) // as Stack has it
			_, spot := ps.spot(s.PID, pc, near)
			if spot.file == nil || spot.beyond || spot.file.noInlined {
				continue
			}
			into := ps.found[spot.file]
			if into == nil {
				into = map[uint64][]string{}
				ps.found[spot.file] = into
			}
			if _, known := into[spot.addr]; known || len(into) >= mostWished {
				continue
			}
			into[spot.addr] = nil
			w := wishes[spot.file]
			if w == nil {
				p, err := ps.process(s.PID)
				if err != nil {
					break
				}
				p, i := p.lookup(near)
				if i < 0 {
					continue
				}
				w = &wish{p: p, i: i}
				wishes[spot.file] = w
			}
			w.addrs = append(w.addrs, spot.addr)
		}
	}
	d := newDebugFile()
	for o, w := range wishes {
		f, key, err := ps.open(w.p, &w.p.maps[w.i])
		if err != nil {
			continue
		}
		there, done, err := ps.debugLater(d, &laterFile{file: f, process: w.p,
			mapping: w.p.maps[w.i]}, o)
		switch {
		case err == nil && !there:
			o.noInlined = true
		case err == nil && key == w.p.keys[w.i]:
			slices.Sort(w.addrs)
			names, _ := d.inlined(w.addrs, over)
			for i, a := range w.addrs {
				ps.found[o][a] = names[i]
			}
		}
		done()
		f.Close() //nolint:errcheck // it was read from
	}
}

// InlinedIn returns for each address of a stack the functions inlined there, innermost first, as
// far as FindInlined has found them.
func (ps *Processes) InlinedIn(pid int, pcs []uint64) [][]string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	out := make([][]string, len(pcs))
	for i, pc := range pcs {
		if _, spot := ps.spot(pid, pc, pc-uint64(min(i, 1))); spot.file != nil {
			out[i] = ps.found[spot.file][spot.addr]
		}
	}
	return out
}
