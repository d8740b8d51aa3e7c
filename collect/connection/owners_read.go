package connection

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"culprit/measure"
)

// unreadFirst moves the processes that were never read to the start of the round.
func (o *owners) unreadFirst() {
	o.known = o.known[:0]
	strangers := o.pids[:0]
	for _, pid := range o.pids {
		if _, ok := o.looked[pid]; ok {
			o.known = append(o.known, pid)
		} else {
			strangers = append(strangers, pid)
		}
	}
	o.pids = append(strangers, o.known...)
}

// visit reads one process of a round.
func (o *owners) visit(pid int32) {
	whole := pid < 0
	if whole {
		pid = -pid
	}
	if l, ok := o.looked[pid]; ok && !o.full {
		o.budget--
		if n, err := o.count(pid); err == nil && int32(n)-o.holds(pid) == l.others {
			o.passed = true
			o.looked[pid] = lookedAt{l.others, o.round}
			return
		}
	}
	switch {
	case whole:
		if sockets := o.read(pid, math.MaxInt); sockets < ownerMany && o.left > 0 {
			delete(o.big, pid)
		}
	case o.big[pid]:
		o.pids = append(o.pids, -pid)
	case o.read(pid, ownerMany) >= ownerMany:
		o.pids = append(o.pids, -pid)
		if len(o.big) >= ownerBig {
			clear(o.big)
		}
		o.big[pid] = true
	}
}

// holds returns how many sockets of living connections a process is known to have open.
func (o *owners) holds(pid int32) int32 {
	if i, ok := o.byPID[pid]; ok {
		return int32(o.procs[i].held.n)
	}
	return 0
}

// hold records which open files of the processes are sockets of living connections.
func (o *owners) hold(held func(func(*ownership))) {
	for i := range o.procs {
		o.procs[i].held.clear()
	}
	held(func(s *ownership) {
		if s.who >= ownedBy && s.fd >= 0 {
			o.procs[s.who-ownedBy].held.add(s.fd)
		}
	})
}

// probe tries the likely file numbers of the processes that own sockets.
func (o *owners) probe(budget int) {
	o.order = o.order[:0]
	for i := range o.procs {
		if !o.procs[i].gone {
			o.order = append(o.order, int32(i))
		}
	}
	slices.SortFunc(o.order, func(a, b int32) int {
		p, q := &o.procs[a], &o.procs[b]
		return cmp.Or(-cmp.Compare(p.gained, q.gained), cmp.Compare(p.pid, q.pid))
	})
	most := o.budget - budget
	for _, i := range o.order {
		if o.left == 0 || o.budget <= most {
			return
		}
		o.probeOne(i, most)
	}
}

// probeOne tries the free file numbers of a process in ascending order while more than most of the
// budget is left.
func (o *owners) probeOne(i int32, most int) {
	p := &o.procs[i]
	pid, open, fresh := p.pid, 0, math.MaxInt
	if o.count != nil {
		o.budget--
		n, err := o.count(pid)
		if err != nil {
			return
		}
		if l, ok := o.looked[pid]; ok && int32(n-p.held.n) == l.others {
			return // nothing was opened, or as much was closed
		}
		if open = n; n > p.held.n+p.others.n { // else some of the others were closed
			fresh = n - p.held.n - p.others.n
		}
	}
	for fd, missed, found := int32(0), 0, 0; found < fresh && missed < ownerBeyond; fd++ {
		if o.left == 0 || o.budget <= most {
			return
		}
		if p.held.has(fd) || p.others.has(fd) {
			continue
		}
		if !p.held.below(fd) && !p.others.below(fd) {
			missed++
		}
		o.budget--
		inode, err := o.proc.Socket(pid, fd)
		if errors.Is(err, measure.ErrDenied) {
			return
		}
		if err != nil {
			continue
		}
		missed = 0
		found++
		if o.wanted.first(uint32(inode)) >= 0 {
			if i = o.sure(i, pid); i < 0 {
				return
			}
			o.found(i, fd, uint32(inode))
			p = &o.procs[i]
		} else if o.count != nil {
			p.others.add(fd)
		}
	}
	if o.count != nil && p.held.n+p.others.n == open {
		o.looked[pid] = lookedAt{int32(p.others.n), o.round}
	}
}

// found records that a process has a searched socket open.
func (o *owners) found(p, fd int32, inode uint32) {
	for at := o.wanted.first(inode); at >= 0; at = o.wanted.after(at, inode) {
		if s := o.sockets[o.wanted.refs[at].ref]; s.who < ownedBy {
			s.who, s.fd, s.tries, s.full = p+ownedBy, fd, 0, false
			o.procs[p].gained = o.tick
			o.procs[p].held.add(fd)
			o.procs[p].others.remove(fd)
			o.left--
		}
	}
}

// read reads the open files of one process, up to most sockets, and returns how many sockets it
// read.
func (o *owners) read(pid int32, most int) (sockets int) {
	index, whole := int32(-1), true
	o.files.clear()
	seen, err := o.proc.Sockets(pid, o.links, func(fd int32, inode uint64) bool {
		if inode == 0 {
			o.files.add(fd)
			return true
		}
		sockets++
		switch {
		case o.wanted.first(uint32(inode)) < 0:
			o.files.add(fd)
		case index < 0:
			known, ok := o.byPID[pid]
			if !ok {
				known = -1
			}
			if index = o.sure(known, pid); index < 0 {
				whole = false
				return false
			}
			fallthrough
		default:
			o.found(index, fd, uint32(inode))
		}
		whole = o.left > 0 && sockets < most
		return whole
	})
	o.budget -= seen + 8 // to open and read the directory
	if errors.Is(err, measure.ErrDenied) {
		o.denied = true
	}
	if o.count == nil || err != nil {
		return sockets
	}
	if whole {
		if pid == o.self {
			seen-- // the directory that was just read
		}
		o.looked[pid] = lookedAt{int32(seen) - o.holds(pid), o.round}
	}
	if i, ok := o.byPID[pid]; ok {
		p := &o.procs[i]
		if whole {
			p.others.clear()
		}
		for fd := range o.files.all() {
			if !p.held.has(fd) {
				p.others.add(fd)
			}
		}
	}
	return sockets
}

// sure checks that the process known at index (-1: unknown) still has the pid. It returns the index
// of the process with that pid, or -1 if there is none.
func (o *owners) sure(index, pid int32) int32 {
	if index >= 0 {
		p := &o.procs[index]
		if p.checked != o.tick && !p.gone {
			o.check(p)
		}
		if !p.gone {
			return index
		}
	}
	return o.enter(pid)
}

// enter adds a process; -1 if it has ended, or hangs in execve(2).
func (o *owners) enter(pid int32) int32 {
	text, err := o.timed.ReadPIDAt(o.proc, pid, "stat", 0)
	name, start, ok := parseOwner(text)
	if err != nil || !ok {
		return -1
	}
	var i int32
	if n := len(o.free); n > 0 {
		i = o.free[n-1]
		o.free = o.free[:n-1]
	} else {
		i = int32(len(o.procs))
		o.procs = append(o.procs, owner{})
	}
	p := &o.procs[i]
	*p = owner{
		pid:     pid,
		start:   start,
		name:    append(p.name[:0], name...),
		checked: o.tick,
		epoch:   -1,
		held:    p.held.emptied(),
		others:  p.others.emptied(),
	}
	o.byPID[pid] = i
	return i
}

// forget drops the processes that ended long ago. lose is called before their indices are reused,
// to remove them from all sockets.
func (o *owners) forget(lose func(old func(who int32) bool)) {
	old := false
	for i := range o.procs {
		p := &o.procs[i]
		if !p.gone && o.tick-p.checked >= ownerKeep {
			o.check(p)
		}
		old = old || o.old(p)
	}
	if !old {
		return
	}
	lose(func(who int32) bool { return who >= ownedBy && o.old(&o.procs[who-ownedBy]) })
	for i := range o.procs {
		if p := &o.procs[i]; o.old(p) {
			if at, ok := o.byPID[p.pid]; ok && at == int32(i) {
				delete(o.byPID, p.pid)
			}
			*p = owner{
				gone:   true,
				name:   p.name[:0],
				held:   p.held.emptied(),
				others: p.others.emptied(),
			}
			o.free = append(o.free, int32(i))
		}
	}
}

// old reports whether a process ended so long ago that it is dropped.
func (o *owners) old(p *owner) bool { return p.gone && p.pid != 0 && o.tick-p.checked >= ownerKeep }
