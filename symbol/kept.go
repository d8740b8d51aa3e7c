package symbol

import (
	"cmp"
	"slices"
	"time"
)

// What is kept of processes and files is bounded in sum, since other people's processes decide how
// many there are, how many mappings each has and how many functions they run. What is dropped is
// read again when it is asked for; of a process that has ended it can't be, so what was asked for
// last stays longest.

// limits are the bounds of a Processes.
type limits struct {
	processes int // known processes
	mappings  int // bytes of the mappings of all but the newest process
	symbols   int // bytes of the files' symbols
	files     int // known files, also unreadable ones
	// cached addresses of all files, without those of one Learn; see learnt
	addresses int

	idle time.Duration // how long an unused process is kept; 0: until the space is needed
}

// table: never changed
var (
	usualLimits = limits{processes: 4096, mappings: 16 << 20, symbols: 64 << 20, files: 16 << 10}
	// leanLimits are those of a server. A server that samples 2 CPUs 49 times a second beside a
	// build met 60 processes of 5 kB and 300 new addresses a second.
	leanLimits = limits{processes: 512, mappings: 2 << 20, symbols: 1 << 20, files: 1 << 10,
		addresses: 32 << 10, idle: time.Minute}
)

const (
	// mostMappings is how many mappings of one process are kept, those with the lowest addresses:
	// half of what the kernel allows (vm.max_map_count).
	mostMappings = 1 << 15
	// mostUnseen is how many processes that can't be read are counted.
	mostUnseen = 1 << 12
	// mostTexts is how many paths of mappings are shared before the set is rebuilt.
	mostTexts = 1 << 12
)

// cost estimates the bytes that the mappings of a process take.
func (p *process) cost() int {
	bytes := 512 + 56*cap(p.maps) + 50*len(p.keys)
	for _, old := range p.former {
		bytes += old.cost()
	}
	return bytes
}

// makeSpace drops processes until another one with that many bytes of mappings fits: those not used
// within limits.idle, then the least recently used.
func (ps *Processes) makeSpace(bytes int) {
	now := time.Now()
	if idle := ps.limits.idle; idle > 0 && now.Sub(ps.swept) > idle/4 {
		ps.swept = now
		for pid, p := range ps.procs {
			if now.Sub(p.checked) > idle {
				delete(ps.procs, pid)
			}
		}
	}
	sum := bytes
	for _, p := range ps.procs {
		sum += p.cost()
	}
	if len(ps.procs) < ps.limits.processes && sum <= ps.limits.mappings {
		return
	}
	all := make([]*process, 0, len(ps.procs))
	for _, p := range ps.procs {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *process) int { return cmp.Compare(a.used, b.used) })
	// Some more are dropped than necessary, so that the next process needs no sort.
	for _, p := range all {
		if len(ps.procs) <= ps.limits.processes*7/8 && sum <= ps.limits.mappings*7/8 {
			break
		}
		sum -= p.cost()
		delete(ps.procs, p.pid)
	}
}

// shared returns b as a string that all mappings with the same text share.
func (ps *Processes) shared(b []byte) string {
	if t, ok := ps.texts[string(b)]; ok {
		return t
	}
	if ps.texts == nil || len(ps.texts) >= mostTexts {
		ps.texts = map[string]string{}
	}
	t := string(b)
	ps.texts[t] = t
	return t
}

// learnt caches symbols of addresses by file, in two generations. A lookup moves an entry to the
// new one. turn drops the old one when the new one has half of the limit. So an entry in use stays,
// and none is dropped between two turns.
type learnt struct {
	now, old map[*object]map[uint64]learned
	n        int // addresses in now
	most     int // addresses in both
}

// get returns the symbol of an address.
func (l *learnt) get(o *object, addr uint64) (learned, bool) {
	if one, ok := l.now[o][addr]; ok {
		return one, true
	}
	one, ok := l.old[o][addr]
	if ok {
		l.put(o, addr, one)
	}
	return one, ok
}

// turn makes space for what is learned next.
func (l *learnt) turn() {
	if l.n >= l.most/2 {
		l.old, l.now, l.n = l.now, nil, 0
	}
}

// put stores the symbol of an address.
func (l *learnt) put(o *object, addr uint64, one learned) {
	if l.now == nil {
		l.now = map[*object]map[uint64]learned{}
	}
	of := l.now[o]
	if of == nil {
		of = map[uint64]learned{}
		l.now[o] = of
	}
	if _, known := of[addr]; !known {
		l.n++
	}
	of[addr] = one
}

// drop deletes the entries of a file.
func (l *learnt) drop(o *object) {
	l.n -= len(l.now[o])
	delete(l.now, o)
	delete(l.old, o)
}

// len returns the number of addresses.
func (l *learnt) len() (n int) {
	for _, g := range []map[*object]map[uint64]learned{l.now, l.old} {
		for _, of := range g {
			n += len(of)
		}
	}
	return n
}
