package connection

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

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
	timed  proc.TimedReader // of stat lines
	self   int32
	budget int
	tick   uint32
	// this is the first pid namespace: all processes are visible
	whole bool
	// returns the number of open files; nil: the kernel does not count them
	count func(pid int32) (int, error)
	ownerRound
	ownerTable
	ownerBuffers

	wanted  inodeSet
	left    int
	sockets []*ownership
}

// ownerRound goes around the processes.
type ownerRound struct {
	pids   []int32 // of the round; negative: one with many sockets, read completely at the end
	next   int     // index in pids where the round continues; it ends at len(pids)
	round  uint32
	denied bool // a process of this round could not be read
	full   bool // this round skips no process
	passed bool // this round has skipped a process
}

// ownerTable is the known processes.
type ownerTable struct {
	looked map[int32]lookedAt // processes that were read completely, by pid
	procs  []owner
	byPID  map[int32]int32 // index in procs
	big    map[int32]bool  // processes with many sockets: last in a round
	free   []int32         // indices in procs
}

type ownerBuffers struct {
	order, known []int32
	files        fileSet
	links        []byte
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
		proc: proc,
		ownerTable: ownerTable{
			byPID:  map[int32]int32{},
			big:    map[int32]bool{},
			looked: map[int32]lookedAt{},
		},
		ownerBuffers: ownerBuffers{links: make([]byte, 16<<10)},
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
		o.timed.Close()
		o.proc.Close()
	}
}

// start begins a tick. A process with many files is read at once; what that took beyond the budget
// is missing from the next ones. So a process with 100,000 files is read every 12 ticks at most.
func (o *owners) start(tick uint32, first bool) {
	o.tick, o.budget = tick, min(ownerFiles, o.budget+ownerFiles)
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
	text, err := o.timed.ReadPIDAt(o.proc, p.pid, "stat", 0)
	if errors.Is(err, proc.ErrHangs) {
		return // in execve(2): it is the same process
	}
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
