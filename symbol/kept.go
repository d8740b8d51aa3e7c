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
	// The sum takes time where thousands of processes are known.
	if ps.uncounted++; ps.uncounted < 32 && len(ps.procs) < ps.limits.processes &&
		bytes < ps.limits.mappings/64 {
		return
	}
	ps.uncounted = 0
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

// usualAddresses is how many addresses are cached for scripts, whose files another process reads.
const usualAddresses = 256 << 10

// learntByUser caches symbols of addresses by the user of the process that asked for them, so that
// the processes of one user do not evict the names of all others.
type learntByUser struct {
	of   map[uint32]*learnt
	most int // addresses of all; one user may have half
}

func newLearntByUser(most int) *learntByUser {
	return &learntByUser{of: map[uint32]*learnt{}, most: most}
}

// get returns the symbol of an address.
func (l *learntByUser) get(user uint32, o *object, addr uint64) (learned, bool) {
	of := l.of[user]
	if of == nil {
		return learned{}, false
	}
	return of.get(o, addr)
}

// put stores the symbol of an address.
func (l *learntByUser) put(user uint32, o *object, addr uint64, one learned) {
	of := l.of[user]
	if of == nil {
		of = &learnt{most: l.most / 2}
		if !IsBounded(user) {
			of.most = l.most
		}
		l.of[user] = of
	}
	of.put(o, addr, one)
}

// turn makes space for what is learned next: each user's cache turns by itself, and that of the
// user with the most addresses while there are too many in all.
func (l *learntByUser) turn() {
	sum, sizes := 0, map[uint32]int{}
	for user, of := range l.of {
		of.turn()
		sizes[user] = of.len()
		sum += sizes[user]
	}
	for sum > l.most {
		user, over := overShare(sizes, sum, l.most)
		if !over || sizes[user] == 0 {
			return
		}
		of := l.of[user]
		of.old, of.now, of.n = of.now, nil, 0
		sum -= sizes[user]
		if sizes[user] = of.len(); sizes[user] == 0 || sum+sizes[user] > l.most {
			sizes[user] = 0
			delete(l.of, user)
		}
		sum += sizes[user]
	}
}

// drop deletes the entries of a file.
func (l *learntByUser) drop(o *object) {
	for _, of := range l.of {
		of.drop(o)
	}
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
