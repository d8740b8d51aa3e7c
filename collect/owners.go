package collect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// ownership says which process a socket belongs to: an index into owners.procs + ownedBy, or why there is none.
type ownership struct {
	who   int32
	fd    int32  // of the socket in that process; -1 not known
	since uint32 // the tick at which it was last looked for or made sure of
	round uint32 // the round over all processes that began with it wanted; 0 none yet
	tries uint8  // how often it was looked for in vain
	user  bool   // made by another user than root: not by the kernel
}

const (
	ownerUnasked = iota
	ownerUnknown // looked for, not found: a process that may not be read, a socket that has none
	ownerKernel  // of no process, although all could be read: NFS, SMB ... (or known to io_uring alone)
	ownedBy
)

// owners finds the process of a socket. The kernel tells only its inode, so that the links /proc/PID/fd/* must be
// read until one shows it. First those processes are tried that own sockets already, the one that gained last in front, and of
// their files only those that are not known to be sockets of living connections: a server with 10,000 connections shows its
// hundred new ones by a few hundred links. What is left is looked for in a round over all processes by ascending pid. Of
// several processes that have a socket open the first one found counts: mostly the lowest pid, the parent of workers.
// What was found is kept with the connection and made sure of now and then by one link.
//
// Work is counted in open files looked at (a microsecond each) and bounded by tick; the next tick goes on where this one ended.
type owners struct {
	proc    *kernel.Dir
	pids    []int32 // of the round; negative: one that is read whole, at the end, for it has many sockets
	next    int     // where in pids the round goes on; it ends at len(pids)
	round   uint32
	budget  int
	tick    uint32
	denied  bool // in this round a process could not be read
	whole   bool // this is the first pid namespace: each process is seen
	procs   []owner
	byPID   map[int32]int32
	big     map[int32]bool // processes with many sockets: read last in a round
	free    []int32
	order   []int32
	wanted  inodeSet
	left    int
	sockets []*ownership
	links   []byte
	text    []byte
}

// owner is a process that owns sockets.
type owner struct {
	pid     int32
	start   uint64 // in clock ticks since boot: tells a process from a later one of the same pid
	name    []byte // as /proc/PID/stat has it
	gained  uint32 // the tick at which a socket of its was found last
	checked uint32 // the tick at which it was last seen alive, or first missed
	epoch   int32
	labels  [2]measure.Label // pid, process
	gone    bool             // kept for a while: its connections may live on without it
	files   []uint64         // bit for each open file that is a socket of a living connection; made anew when needed
}

const (
	ownerFiles      = 8_000   // open files looked at in a tick: 5 to 10 ms
	ownerFilesFirst = 200_000 // at the first reading, which nobody waits for
	ownerCheck      = 4       // ticks between looks whether a process is still the same
	ownerRecheck    = 32      // ticks between looks whether a socket is still in the process
	ownerKeep       = 64      // ticks that a process is remembered after its end
	ownerMany       = 512     // sockets of one process that are looked at before other processes
	ownerBig        = 1024    // processes remembered as having as many
	ownerBeyond     = 32      // file numbers that are tried beyond those known: new files take the lowest number that is free
)

// initialPIDs is the inode of the first pid namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

func openOwners(root kernel.Root) (*owners, error) {
	proc, err := root.OpenProcDir("")
	if err != nil {
		return nil, err
	}
	o := &owners{proc: proc, byPID: map[int32]int32{}, big: map[int32]bool{}, links: make([]byte, 16<<10)}
	var buf [64]byte
	link, err := proc.ReadLink(int32(unix.Getpid()), "ns/pid", buf[:])
	o.whole = err == nil && string(link) == initialPIDs
	return o, nil
}

func (o *owners) close() {
	if o != nil {
		o.proc.Close()
	}
}

// start begins a tick.
func (o *owners) start(tick uint32, first bool) {
	o.tick, o.budget = tick, ownerFiles
	if first {
		o.budget = ownerFilesFirst
	}
}

// due says whether the owner of a socket should be looked for now: the first time, and ever more rarely where it was in vain.
func (o *owners) due(s *ownership, inode uint32) bool {
	switch {
	case inode == 0:
		return false
	case s.who == ownerUnasked:
		return true
	case s.who == ownerUnknown, s.who == ownerKernel:
		return o.tick-s.since >= 1<<min(s.tries, 8)
	}
	p := &o.procs[s.who-ownedBy]
	if !p.gone && o.tick-p.checked >= ownerCheck {
		o.check(p)
	}
	if !p.gone && o.tick-s.since >= ownerRecheck && o.budget > 0 {
		o.budget--
		if found, err := o.proc.Socket(p.pid, s.fd); err == nil && uint32(found) == inode {
			s.since = o.tick
			return false
		}
		s.who = ownerUnasked
		return true
	}
	if p.gone {
		s.who = ownerUnasked
	}
	return p.gone
}

// check reads the name of a process again, and whether it is still the same.
func (o *owners) check(p *owner) {
	p.checked = o.tick
	text, err := o.proc.ReadPIDOne(p.pid, "stat", o.text)
	o.text = text
	name, start, ok := parseOwner(text)
	if err != nil || !ok || start != p.start {
		p.gone = true
		return
	}
	if !bytes.Equal(name, p.name) {
		p.name, p.epoch = append(p.name[:0], name...), -1
	}
}

// parseOwner reads the name and the start time (field 22, clock ticks since boot) from /proc/PID/stat. A name may hold
// brackets and blanks: it ends at the last bracket.
func parseOwner(b []byte) (name []byte, start uint64, ok bool) {
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from {
		return nil, 0, false
	}
	c := kernel.Scan(b[to+1:])
	c.Skip(19)
	start = c.Uint()
	return b[from+1 : to], start, c.Err() == nil
}

// resolve looks for the owners of the sockets and sets them. It stops when all are found, all processes were read or the
// budget is spent. held calls its argument with the ownership of each socket of a living connection.
func (o *owners) resolve(sockets []*ownership, inodes []uint32, held func(func(*ownership))) error {
	if len(sockets) == 0 {
		return nil
	}
	o.wanted.reset(len(sockets))
	o.sockets, o.left = sockets, len(sockets)
	fresh := false
	for i, inode := range inodes {
		o.wanted.add(inode, int32(i))
		sockets[i].since = o.tick
		fresh = fresh || sockets[i].round == 0
	}
	if fresh && len(o.byPID) > 0 {
		o.probe(held, o.budget/2)
	}
	if o.next >= len(o.pids) && o.left > 0 { // a new round over all processes
		var err error
		if o.pids, err = o.proc.ListPIDs(o.pids[:0]); err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		o.round++
		o.next, o.denied = 0, false
		for _, s := range sockets {
			s.round = o.round
		}
	}
	for ; o.next < len(o.pids); o.next++ {
		if o.left == 0 {
			o.next = len(o.pids)
			return nil
		}
		if o.budget <= 0 {
			return nil
		}
		pid := o.pids[o.next]
		switch {
		case pid < 0:
			if sockets := o.read(-pid, math.MaxInt); sockets < ownerMany && o.left > 0 {
				delete(o.big, -pid)
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
	// All processes were read. Whose is a socket that none has open? It is asked twice, for it may be on its way from one to
	// another, and answered only where nothing was hidden.
	for _, s := range sockets {
		if s.who < ownedBy && s.round == o.round { // wanted during the whole round
			s.tries++
			s.who = ownerUnknown
			if s.tries >= 2 && !o.denied && o.whole && !s.user {
				s.who = ownerKernel
			}
		}
	}
	return nil
}

// probe tries the likely file numbers of the processes that own sockets.
func (o *owners) probe(held func(func(*ownership)), budget int) {
	o.order = o.order[:0]
	for i := range o.procs {
		p := &o.procs[i]
		clear(p.files)
		p.files = p.files[:0]
		if !p.gone {
			o.order = append(o.order, int32(i))
		}
	}
	held(func(s *ownership) {
		if s.who < ownedBy || s.fd < 0 || s.fd > 1<<20 {
			return
		}
		p, at := &o.procs[s.who-ownedBy], int(s.fd/64)
		for at >= len(p.files) {
			p.files = append(p.files, 0)
		}
		p.files[at] |= 1 << (s.fd % 64)
	})
	slices.SortFunc(o.order, func(a, b int32) int {
		p, q := &o.procs[a], &o.procs[b]
		return cmp.Or(-cmp.Compare(p.gained, q.gained), cmp.Compare(p.pid, q.pid))
	})
	for _, i := range o.order {
		p, missed := &o.procs[i], 0
		for fd := 0; missed < ownerBeyond; fd++ {
			if o.left == 0 || budget <= 0 {
				return
			}
			if fd < 64*len(p.files) {
				if p.files[fd/64]>>(fd%64)&1 != 0 {
					continue
				}
			} else {
				missed++
			}
			budget--
			o.budget--
			inode, err := o.proc.Socket(p.pid, int32(fd))
			switch {
			case errors.Is(err, measure.ErrDenied):
				missed = ownerBeyond
			case err == nil:
				missed = 0
				if o.wanted.first(uint32(inode)) >= 0 {
					if i = o.sure(i, p.pid); i >= 0 {
						o.found(i, int32(fd), uint32(inode))
					}
				}
			}
			if i < 0 {
				break
			}
			p = &o.procs[i]
		}
	}
}

// found notes that a process has a wanted socket open.
func (o *owners) found(p, fd int32, inode uint32) {
	for at := o.wanted.first(inode); at >= 0; at = o.wanted.after(at, inode) {
		if s := o.sockets[o.wanted.refs[at].ref]; s.who < ownedBy {
			s.who, s.fd, s.tries = p+ownedBy, fd, 0
			o.procs[p].gained = o.tick
			o.left--
		}
	}
}

// read looks at the open files of one process, up to so many sockets, and gives how many it saw.
func (o *owners) read(pid int32, most int) (sockets int) {
	index := int32(-1)
	seen, err := o.proc.Sockets(pid, o.links, func(fd int32, inode uint64) bool {
		sockets++
		if o.wanted.first(uint32(inode)) < 0 {
			return sockets < most
		}
		if index < 0 {
			known, ok := o.byPID[pid]
			if !ok {
				known = -1
			}
			if index = o.sure(known, pid); index < 0 {
				return false
			}
		}
		o.found(index, fd, uint32(inode))
		return o.left > 0 && sockets < most
	})
	o.budget -= seen + 8 // for opening and reading the directory
	if errors.Is(err, measure.ErrDenied) {
		o.denied = true
	}
	return sockets
}

// sure gives the place of a process that was known at index (-1: unknown), after a look whether the pid has passed to another; -1
// when there is no such process.
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

// enter makes a process known; -1 when it is gone.
func (o *owners) enter(pid int32) int32 {
	text, err := o.proc.ReadPIDOne(pid, "stat", o.text)
	o.text = text
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
	*p = owner{pid: pid, start: start, name: append(p.name[:0], name...), checked: o.tick, epoch: -1, files: p.files[:0]}
	o.byPID[pid] = i
	return i
}

// forget drops the processes that are long gone; lose is called before their places are used again, to take them from all sockets.
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
			*p = owner{gone: true, name: p.name[:0], files: p.files[:0]}
			o.free = append(o.free, int32(i))
		}
	}
}

// old says whether a process ended so long ago that it is to be dropped.
func (o *owners) old(p *owner) bool { return p.gone && p.pid != 0 && o.tick-p.checked >= ownerKeep }

// labels gives the words for pid and process.
func (o *owners) labels(out *Out, s *ownership) [2]measure.Label {
	switch s.who {
	case ownerUnasked, ownerUnknown:
		none := out.Label("")
		return [2]measure.Label{none, none}
	case ownerKernel:
		return [2]measure.Label{out.Label(""), out.Label("[kernel]")}
	}
	p := &o.procs[s.who-ownedBy]
	if p.epoch != int32(out.Epoch) {
		p.epoch = int32(out.Epoch)
		p.labels = [2]measure.Label{out.Number(int64(p.pid)), out.LabelBytes(p.name)}
	}
	return p.labels
}

// same says whether two sockets have the same labels.
func (o *owners) same(a, b *ownership) bool {
	return a.who == b.who || a.who <= ownerUnknown && b.who <= ownerUnknown
}

// inodeSet finds what is wanted by inode; several may want one.
type inodeSet struct {
	refs []inodeRef
	mask uint32
}

type inodeRef struct {
	inode uint32 // 0 empty
	ref   int32
}

func (s *inodeSet) reset(n int) {
	size := 64
	for size < 2*n {
		size *= 2
	}
	if size > len(s.refs) || size < len(s.refs)/8 {
		s.refs = make([]inodeRef, size)
	} else {
		clear(s.refs)
	}
	s.mask = uint32(len(s.refs) - 1)
}

func (s *inodeSet) add(inode uint32, ref int32) {
	at := s.hash(inode)
	for s.refs[at].inode != 0 {
		at = (at + 1) & s.mask
	}
	s.refs[at] = inodeRef{inode, ref}
}

func (s *inodeSet) hash(inode uint32) uint32 { return inode * 0x9e3779b1 >> 7 & s.mask }

// first gives the place of the first that wants the inode, -1 none; after gives the next.
func (s *inodeSet) first(inode uint32) int32 { return s.from(s.hash(inode), inode) }

func (s *inodeSet) after(at int32, inode uint32) int32 {
	return s.from((uint32(at)+1)&s.mask, inode)
}

func (s *inodeSet) from(at, inode uint32) int32 {
	for ; s.refs[at].inode != 0; at = (at + 1) & s.mask {
		if s.refs[at].inode == inode {
			return int32(at)
		}
	}
	return -1
}
