package network

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// ownership is the process of a socket: an index into owners.procs + ownedBy, or why there is none.
type ownership struct {
	who   int32
	fd    int32  // file number of the socket in that process; -1: not known
	since uint32 // the tick at which it was last searched or verified
	round uint32 // the first round over all processes that searched it from the start; 0: none yet
	tries uint8  // how many rounds over all processes did not find it
	full  bool   // not found in the processes whose files had changed: next in all
	user  bool   // created by another user than root: not by the kernel
}

const (
	ownerUnasked = iota
	ownerUnknown // searched, not found: a process that may not be read, or a socket without one
	// of no process, although all could be read: NFS, SMB ... (or known only to io_uring)
	ownerKernel
	ownedBy
)

// owners finds the process of a socket. The kernel shows only the socket's inode, so the links
// /proc/PID/fd/* must be read until one has it. What was found is kept with the connection and
// verified now and then by one link.
//
// The search has two steps:
//
//   - First the processes that already own sockets, the one with the newest socket first. Of their
//     files it reads only those that are not known sockets of living connections. So it finds a
//     hundred new connections of a server with 10,000 by reading a few hundred links.
//   - Then a round over all processes by ascending pid. If several processes have a socket open,
//     the first one found counts: mostly the lowest pid, the parent of workers.
//
// Since Linux 6.2 the number of open files of a process can be read for the price of one link. A
// process that was read completely, and has as many files besides its known sockets as then, is
// skipped at first. It may have replaced a file by the socket. So what is not found is searched in
// all processes at the next tick. Processes that were never read come first.
//
// Work is counted in open files read, at a microsecond each, and limited for each tick. The next
// tick continues where this one ended.
type owners struct {
	proc   *proc.Dir
	pids   []int32 // of the round; negative: one with many sockets, read completely at the end
	next   int     // index in pids where the round continues; it ends at len(pids)
	round  uint32
	budget int
	tick   uint32
	denied bool // a process of this round could not be read
	// this is the first pid namespace: all processes are visible
	whole  bool
	full   bool // this round skips no process
	passed bool // this round has skipped a process
	// returns the number of open files; nil: the kernel does not count them
	count   func(pid int32) (int, error)
	self    int32
	looked  map[int32]lookedAt // processes that were read completely, by pid
	procs   []owner
	byPID   map[int32]int32
	big     map[int32]bool // processes with many sockets: last in a round
	free    []int32
	order   []int32
	known   []int32
	files   fileSet
	wanted  inodeSet
	left    int
	sockets []*ownership
	links   []byte
	text    []byte
}

// owner is a process that owns sockets.
type owner struct {
	pid     int32
	start   uint64 // in clock ticks since boot: distinguishes processes with the same pid
	name    []byte // as in /proc/PID/stat
	gained  uint32 // the tick of its newest socket
	checked uint32 // the tick at which it was last seen alive, or first missed
	epoch   int32
	labels  [2]measure.Label // pid, process
	gone    bool             // ended, but kept for a while: its connections may continue
	held    fileSet          // open files that are sockets of living connections; made when needed
	others  fileSet          // open files that were something else when last read
}

// lookedAt is what was read of a process.
type lookedAt struct {
	others int32  // open files that are not known sockets of living connections
	round  uint32 // the last round that read it
}

const (
	ownerFiles      = 8_000   // open files read in a tick: 5 to 10 ms
	ownerFilesFirst = 200_000 // at the first reading, when more time is available
	ownerCheck      = 4       // ticks between checks whether a process is still the same
	ownerRecheck    = 32      // ticks between checks whether a process still has a socket
	ownerKeep       = 64      // ticks that a process is kept after its end
	ownerMany       = 512     // sockets of one process that are read before other processes
	ownerBig        = 1024    // how many processes with many sockets are kept
	// file numbers that are tried above the known ones: new files take the lowest free number
	ownerBeyond = 32
)

// initialPIDs is the inode of the first pid namespace (PROC_PID_INIT_INO in
// include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

func openOwners(root kernel.Root) (*owners, error) {
	proc, err := proc.OpenProcDir(root, "")
	if err != nil {
		return nil, err
	}
	o := &owners{
		proc:   proc,
		byPID:  map[int32]int32{},
		big:    map[int32]bool{},
		looked: map[int32]lookedAt{},
		links:  make([]byte, 16<<10),
	}
	var buf [64]byte
	o.self = int32(unix.Getpid())
	link, err := proc.ReadLink(o.self, "ns/pid", buf[:])
	o.whole = err == nil && string(link) == initialPIDs
	if n, err := proc.OpenFiles(o.self); err == nil && n > 0 && root.Proc == "" {
		o.count = proc.OpenFiles
	}
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

// due reports whether the owner of a socket should be searched now: the first time, and then more
// and more rarely while it is not found.
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

// check reads the name of a process again, and whether it is still the same process.
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

// parseOwner returns the name and the start time (field 22, clock ticks since boot) in
// /proc/PID/stat. A name may contain brackets and spaces: it ends at the last bracket.
func parseOwner(b []byte) (name []byte, start uint64, ok bool) {
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from {
		return nil, 0, false
	}
	c := proc.Scan(b[to+1:])
	c.Skip(19)
	start = c.Uint()
	return b[from+1 : to], start, c.Err() == nil
}

// resolve searches the owners of the sockets and sets them. It stops when all are found, all
// processes were read or the budget is spent. held calls its argument with the ownership of each
// socket of a living connection.
func (o *owners) resolve(sockets []*ownership, inodes []uint32, held func(func(*ownership))) error {
	if len(sockets) == 0 {
		return nil
	}
	o.wanted.reset(len(sockets))
	o.sockets, o.left = sockets, len(sockets)
	fresh, full := false, false
	for i, inode := range inodes {
		s := sockets[i]
		o.wanted.add(inode, int32(i))
		s.since = o.tick
		fresh, full = fresh || s.round == 0, full || s.full || s.tries > 0
	}
	o.hold(held)
	if fresh && len(o.byPID) > 0 {
		o.probe(o.budget / 2)
	}
	if o.next >= len(o.pids) && o.left > 0 { // a new round over all processes
		var err error
		if o.pids, err = o.proc.ListPIDs(o.pids[:0]); err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		o.round++
		o.next, o.denied, o.passed, o.full = 0, false, false, full || o.count == nil
		if !o.full {
			o.unreadFirst()
		}
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
		o.visit(o.pids[o.next])
	}
	if len(o.looked) > 2*len(o.pids) {
		maps.DeleteFunc(o.looked, func(_ int32, l lookedAt) bool { return l.round != o.round })
	}
	// All processes were read and none has the socket. It is searched twice, since it may move from
	// one to another. Then it is the kernel's, unless a process could not be read.
	for _, s := range sockets {
		if s.who < ownedBy && s.round == o.round { // searched during the whole round
			s.who, s.full = ownerUnknown, true
			if o.passed {
				continue
			}
			s.tries++
			if s.tries >= 2 && !o.denied && o.whole && !s.user {
				s.who = ownerKernel
			}
		}
	}
	return nil
}

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

// enter adds a process; -1 if it has ended.
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

// labels returns the labels of pid and process.
func (o *owners) labels(out *collect.Out, s *ownership) [2]measure.Label {
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

// same reports whether two sockets have the same labels.
func (o *owners) same(a, b *ownership) bool {
	return a.who == b.who || a.who <= ownerUnknown && b.who <= ownerUnknown
}

// fileSet is a set of file numbers. It never has numbers above fileMost.
type fileSet struct {
	bits []uint64
	n    int
}

const fileMost = 1 << 20

func (s *fileSet) has(fd int32) bool { return s.below(fd) && s.bits[fd/64]>>(fd%64)&1 != 0 }

// below reports whether there may be numbers from fd on.
func (s *fileSet) below(fd int32) bool { return int(fd) < 64*len(s.bits) }

func (s *fileSet) add(fd int32) {
	if fd > fileMost || s.has(fd) {
		return
	}
	for !s.below(fd) {
		s.bits = append(s.bits, 0)
	}
	s.bits[fd/64] |= 1 << (fd % 64)
	s.n++
}

func (s *fileSet) remove(fd int32) {
	if s.has(fd) {
		s.bits[fd/64] &^= 1 << (fd % 64)
		s.n--
	}
}

func (s *fileSet) clear() { *s = s.emptied() }

// emptied returns an empty set in the same memory.
func (s *fileSet) emptied() fileSet { return fileSet{bits: s.bits[:0]} }

// all returns the numbers in ascending order.
func (s *fileSet) all() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i, w := range s.bits {
			for ; w != 0; w &= w - 1 {
				if !yield(int32(64*i + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// inodeSet finds searched sockets by inode; several may have the same one.
type inodeSet struct {
	refs []inodeRef
	mask uint32
}

type inodeRef struct {
	inode uint32 // 0: empty
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

// first returns the index of the first socket with the inode, -1: none. after returns the next.
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
