package symbol

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"
)

// Bounds of what is kept of the files that just-in-time compilers write. Each of these files can
// grow for as long as its process runs, and any user can write one.
const (
	// mostGenerated is how many bytes of names are kept, of all processes. One user's processes may
	// have half of it.
	mostGenerated     = 64 << 20
	mostGeneratedLean = 8 << 20 // with DisableSymbolCache
	// jitEach is how often a file is checked for changes. A reading that took long is followed by
	// a pause jitShare times as long.
	jitEach  = time.Second / 2
	jitShare = 20
	// dumpEach is how often the maps of a process are read to find a dump that it may have begun.
	dumpEach = 10 * time.Second
)

// A jitMap is what was asked of the map of generated code of a process.
type jitMap struct {
	names  []Name // by address; their ranges, Low to High, do not overlap
	size   int    // bytes that names take, about
	file   fileKey
	to     int64  // up to where the file was read: behind a newline
	before []byte // bytes before to; they differ when the file was written anew
	first  []byte // and what the file begins with
	due    time.Time
	none   bool      // nothing can be read before due
	again  time.Time // when maps without a dump are read again
}

// find returns the answer for an address; !known: it was not asked for.
func (j *jitMap) find(addr uint64) (n Name, known bool) {
	i, same := slices.BinarySearchFunc(j.names, addr,
		func(n Name, addr uint64) int { return cmp.Compare(n.Low, addr) })
	if !same {
		i--
	}
	if i < 0 || addr >= j.names[i].High {
		return Name{}, false
	}
	return j.names[i], true
}

// unknown returns those of the addresses that were not asked for.
func (j *jitMap) unknown(addrs []uint64) (out []uint64) {
	for _, a := range addrs {
		if _, known := j.find(a); !known {
			out = append(out, a)
		}
	}
	return out
}

// add stores answers.
func (j *jitMap) add(names []Name) {
	j.names = append(j.names, names...)
	slices.SortStableFunc(j.names, func(a, b Name) int { return cmp.Compare(a.Low, b.Low) })
	j.names = slices.CompactFunc(j.names, func(a, b Name) bool { return a.Low == b.Low })
	const each = 16 + 3*8 + 16 // a Name, and what an allocated text takes beside its bytes
	j.size = each * cap(j.names)
	for i := range j.names {
		j.size += len(j.names[i].Name)
	}
}

// inCompiled returns the just-in-time code at an address. It reads the file again when it has
// changed.
func (ps *Processes) inCompiled(p *process, addr uint64) (Name, bool) {
	ps.learnCompiled(p, []uint64{addr})
	n, _ := p.jit.find(addr)
	return n, n.Name != ""
}

// learnCompiled looks up addresses, which are sorted, in the map of generated code of a process. A
// file that is gone, or that another user wrote, changes nothing. It is called by run, once more
// after each answer.
func (ps *Processes) learnCompiled(p *process, addrs []uint64) {
	now := time.Now()
	early := now.Before(p.jit.due)
	addrs = addrs[:min(len(addrs), MostAddrs)]
	fresh := p.jit.unknown(addrs)
	if early && (len(fresh) == 0 || p.jit.none) {
		return
	}
	if !early {
		p.jit.due = now.Add(jitEach)
	}
	f, key, err := ps.openGenerated(p)
	if err != nil {
		p.jit.none = len(p.jit.names) == 0
		return
	}
	p.jit.none = false
	if key != p.jit.file {
		if one := ps.renewCompiled(p, f, key); one != nil {
			one.opened = []*os.File{f}
			ps.ask(jitKey{p, key, true, 0}, one)
			if ps.talk == nil && key == p.jit.file { // there is an answer already
				ps.learnCompiled(p, addrs)
			}
			return
		}
	}
	if fresh = p.jit.unknown(addrs); len(fresh) == 0 {
		f.Close() //nolint:errcheck // no more is to be read
		return
	}
	one := ps.addCompiled(p, f, fresh)
	one.opened = []*os.File{f}
	ps.ask(jitKey{p, key, false, fresh[0]}, one)
}

// openGenerated opens the dump of generated code that a process has mapped (jitdump.go), else its
// map. It fails with fs.ErrPermission when the file belongs to another user.
func (ps *Processes) openGenerated(p *process) (*os.File, fileKey, error) {
	inside, name := ps.insideOf(p), fmt.Sprintf("/tmp/perf-%d.map", ps.insideOf(p))
	i := p.dumpOf(inside)
	if now := time.Now(); i < 0 && now.Sub(p.read) > maxMapsAge && now.After(p.jit.again) &&
		ps.history.versionOf(p.pid) == 0 {
		p.jit.again = now.Add(dumpEach)
		ps.again(p) // with an error the maps stay
		i = p.dumpOf(inside)
	}
	if i >= 0 {
		if f, key, err := ps.open(p, &p.maps[i]); err == nil {
			if key.owner == 0 || key.owner == ps.userOf(p) && p.known {
				return f, key, nil
			}
			f.Close() //nolint:errcheck // nothing was read
		}
	}
	dir := ps.in(p.pid, "")
	return ps.openGuarded(p.pid, func() (*os.File, fileKey, error) {
		f, key, err := openBelow(dir+"root", name)
		if err == nil && !ownedBy(f, dir) {
			f.Close() //nolint:errcheck // nothing was read
			return nil, key, fs.ErrPermission
		}
		return f, key, err
	})
}

// A jitKey identifies a query for a map of generated code.
type jitKey struct {
	p     *process
	file  fileKey
	renew bool
	first uint64 // address
}

// addCompiled returns the query for addresses in the whole file.
func (ps *Processes) addCompiled(p *process, f *os.File, addrs []uint64) *query {
	file := p.jit.file
	return &query{payer: payerOf(file, ps.userOf(p)), q: &Request{Op: OpGenerated, File: f,
		Addrs: addrs}, done: func(a *Answer, err error) {
		if p.jit.file != file {
			return // another call has read a newer one
		}
		if len(a.Names) == len(addrs) {
			p.jit.add(a.Names)
			if p.jit.to == 0 {
				p.jit.mark(f, a.To)
			}
		}
		ps.readCompiled(p, err)
	}}
}

// readCompiled is called when a map of generated code was read.
func (ps *Processes) readCompiled(p *process, err error) {
	if errors.Is(err, ErrUnavailable) {
		p.jit.none, p.jit.due = true, time.Now().Add(jitEach)
	}
	ps.boundCompiled()
}

// renewCompiled returns the query for what was appended to the file, which changes what is known of
// it; nil: nothing is known that could change. It drops what is known of a file that was written
// anew.
func (ps *Processes) renewCompiled(p *process, f *os.File, key fileKey) *query {
	j := &p.jit
	if !j.grew(f, key) {
		*j = jitMap{due: j.due, file: key, first: readUpTo(f, 0, jitCheck)}
		return nil
	}
	if len(j.names) == 0 {
		j.file = key
		return nil
	}
	addrs := make([]uint64, min(len(j.names), MostAddrs))
	for i := range addrs {
		addrs[i] = j.names[i].Low
	}
	file, from, known := j.file, j.to, len(j.names)
	return &query{payer: payerOf(key, ps.userOf(p)), q: &Request{Op: OpGenerated, File: f,
		Addrs: addrs, From: from}, done: func(a *Answer, err error) {
		if j.file != file || j.to != from || len(j.names) != known {
			return // another call has read it
		}
		if err == nil || len(a.Names) > 0 {
			j.renew(addrs, a)
			j.file = key
			j.mark(f, a.To)
			j.due = time.Now().Add(max(jitEach, jitShare*a.CPU))
		}
		ps.readCompiled(p, err)
	}}
}

// renew applies what was appended to a file to the names of addresses.
func (j *jitMap) renew(addrs []uint64, a *Answer) {
	names := j.names[:min(len(addrs), len(a.Names))]
	for i := range names {
		n := a.Names[i]
		if n.Name == "" {
			n = names[i]
			n.High = min(n.High, a.Names[i].High)
		}
		names[i] = n
	}
	j.names = names
	j.add(nil)
}

// mark records up to where the file was read.
func (j *jitMap) mark(f *os.File, to int64) {
	back := max(0, to-jitCheck)
	j.to, j.before = to, readUpTo(f, back, int(to-back))
}

// jitCheck is how many bytes of a file's beginning and end are compared.
const jitCheck = 256

// grew reports whether the file is the one that was read, with more at its end.
func (j *jitMap) grew(f *os.File, key fileKey) bool {
	if j.to == 0 || key.dev != j.file.dev || key.ino != j.file.ino || key.size < j.to ||
		key.size-j.to > maxPerfMap {
		return false
	}
	return bytes.Equal(j.first, readUpTo(f, 0, len(j.first))) &&
		bytes.Equal(j.before, readUpTo(f, j.to-int64(len(j.before)), len(j.before)))
}

// readUpTo returns at most n bytes of a file from an offset.
func readUpTo(f *os.File, at int64, n int) []byte {
	b := make([]byte, n)
	n, _ = f.ReadAt(b, at)
	return b[:n]
}

// boundCompiled drops names of generated code until the sums are within their limits: those of the
// process that was used least recently, of a user with more than half, else of the user with the
// most.
func (ps *Processes) boundCompiled() {
	most := mostGenerated
	if ps.lean != nil {
		most = mostGeneratedLean
	}
	for {
		sum, of := 0, map[uint32]int{}
		for _, p := range ps.procs {
			if p.jit.size > 0 {
				sum += p.jit.size
				of[ps.userOf(p)] += p.jit.size
			}
		}
		user, over := overShare(of, sum, most)
		if !over {
			return
		}
		var oldest *process
		used := uint64(math.MaxUint64)
		for _, p := range ps.procs {
			if p.jit.size > 0 && ps.userOf(p) == user && p.used < used {
				oldest, used = p, p.used
			}
		}
		if oldest == nil {
			return
		}
		oldest.jit = jitMap{due: oldest.jit.due}
	}
}

// overShare returns the user whose entries are to be dropped: one with more than half of most, else
// the one with the most if the sum is above it; !over: none.
func overShare(of map[uint32]int, sum, most int) (user uint32, over bool) {
	largest := -1
	for u, n := range of {
		if n > largest || n == largest && u > user {
			user, largest = u, n
		}
	}
	if sum > most {
		return user, true
	}
	return user, largest > most/2 && IsBounded(user)
}

// learnGenerated looks up the addresses of some stacks that are in generated code, and reads each
// map once. It is called by run.
func (ps *Processes) learnGenerated(stacks []Asked) {
	wanted := map[*process][]uint64{}
	for _, s := range stacks {
		for n, pc := range s.PCs {
			near := pc - uint64(min(n, 1)) // as in Stack
			p, err := ps.process(s.PID)
			if err != nil {
				break
			}
			if i := find(p.maps, near); i >= 0 && p.maps[i].generated() {
				wanted[p] = append(wanted[p], near)
			}
		}
	}
	for p, addrs := range wanted {
		slices.Sort(addrs)
		ps.learnCompiled(p, slices.Compact(addrs))
	}
}
