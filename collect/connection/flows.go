package connection

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Flows reads TCP connections and listeners by inet_diag (sock_diag(7)). One reading dumps all
// sockets and differences their counters by socket. For connections that end between two readings
// it uses the kernel's announcement of their end.
//
// A connection that appeared between two readings counts from zero. The bytes are payload, each
// counted once. Devices also count headers, segments sent again and acknowledgements. They count
// connections whose end was not announced too; a Loss has the number of those.
type Flows struct {
	walk bool // wait until the walk over sockets is open; otherwise it is used with Env.Long
}

const (
	// readings in which a connection may be missing: a dump of a changing table skips some
	flowGrace = 3
	// seconds, instead, if its end is announced, which happens when its process closes it
	flowGraceHear = 60
	// connections kept in this way; for more of them flowGrace applies
	flowsMissing = 16_384
	flowsClosed  = 16_384 // ends in one reading; more are a Loss
	// bytes of kernel memory, 1 kB for each end; used only as they come
	closedQueue = 16 << 20
	closedLate  = 15 * time.Second // how late an end may be announced

	// Each end costs the kernel and culprit 5 us together, in whatever namespace it is. Above this
	// number in a second, 2.5 % of a CPU, announcements are turned off for closedDeaf seconds.
	closedMost = 5_000
	closedDeaf = 30 // seconds
)

// Open opens the sockets of each network namespace. It needs no capability. An error means that
// nothing can be measured. The caller closes the Reading.
func (c Flows) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &flowReading{want: want, flows: false, counting: want.Stat("tcp.connections")}
	for _, s := range (Flows{}).Stats() {
		r.flows = r.flows || want.Stat(s.ID) && strings.HasPrefix(string(s.ID), "tcp.flow.")
		r.owning = r.owning || want.Field(s.ID, "pid") || want.Field(s.ID, "process")
	}
	r.onDump, r.onEnd, r.onHeld = r.take, r.takeEnd, r.held
	r.pace.on = env.Long
	r.spaces = collect.PerNamespace[*flowSpace]{
		Env:   env,
		Open:  r.openSpace,
		Close: (*flowSpace).close,
	}
	if err := r.spaces.Start(); err != nil {
		return nil, err
	}
	if r.owning {
		var err error
		if r.owners, err = openOwners(env.Root); err != nil {
			r.Close()
			return nil, err
		}
	}
	if env.Long || c.walk {
		if r.walks = startFlowWalk(env.Root); c.walk {
			r.walks.wait()
		}
	}
	return r, nil
}

func (r *flowReading) openSpace(sp *collect.Namespace[*flowSpace]) (*flowSpace, error) {
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{Timeout: dumpTimeout})
	if err != nil {
		return nil, fmt.Errorf("TCP connections%s: %w", sp.Of(), err)
	}
	s := &flowSpace{conn: conn, first: true}
	for i, name := range [...]string{"net/sockstat", "net/sockstat6"} {
		if f, err := sp.OpenProc(name); err == nil {
			s.sockstat[i] = f
		}
	}
	if r.want.Stat(
		"tcp.flow.bytes", "tcp.flow.segments", "tcp.flow.retransmits", "tcp.flow.limited",
	) {
		// Before the first dump, so that no end is missed.
		s.listen()
	}
	return s, nil
}

// listen subscribes to the ends of connections. It needs no capability (NL_CFG_F_NONROOT_RECV in
// net/core/sock_diag.c).
func (s *flowSpace) listen() {
	ends, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{Receive: closedQueue})
	if err == nil {
		err = errors.Join(ends.Join(groupTCPDestroy), ends.Join(groupTCP6Destroy))
	}
	if err != nil {
		ends.Close()
		s.deaf = fmt.Sprintf("connections that end between two readings are not counted to "+
			"their end: %v", err)
		return
	}
	s.ends, s.byLabels = ends, map[flowLabels]int32{}
}

func (s *flowSpace) close() {
	s.conn.Close()
	s.ends.Close()
	s.sockstat[0].Close()
	s.sockstat[1].Close()
}

// Close implements Reading.
func (r *flowReading) Close() {
	r.spaces.Shut()
	r.owners.close()
	r.walks.close()
}

// states returns the mask of the states that are dumped besides listeners. TIME_WAIT, often more
// than all others, is counted by sockstat if possible. SYN_RECV has no counters.
func (r *flowReading) states(s *flowSpace) uint32 {
	var mask uint32
	if r.flows {
		mask |= 1<<tcpEstablished | 1<<tcpSynSent | 1<<tcpFinWait1 | 1<<tcpFinWait2 |
			1<<tcpCloseWait | 1<<tcpLastAck | 1<<tcpClosing
	}
	if r.counting {
		mask |= (1<<tcpStates - 1<<tcpEstablished) &^ (1<<tcpClose | 1<<tcpListen)
		if s.sockstat[0] != nil {
			mask &^= 1 << tcpTimeWait
		}
	}
	return mask
}

// Read implements Reading.
func (r *flowReading) Read(out *collect.Out) error {
	now := time.Now()
	if r.tick == 0 {
		r.began, r.before = now, now
	}
	r.elapsed, r.before, r.seconds = now.Sub(r.before), now, uint32(now.Sub(r.began)/time.Second)
	r.tick++
	r.out, r.notes = out, flowNotes{}
	r.pace.start()
	r.w = r.words.Of(out, flowWords[:])
	r.setTables(out)
	r.pending, r.asked = r.pending[:0], r.asked[:0]
	list := r.spaces.Follow(out)
	if r.owning {
		r.owners.start(r.tick, out.First)
	}
	r.walkable, r.walked = r.walks.ready(), false
	var fault error
	good := 0
	for i, sp := range list {
		s := sp.Data
		s.index, s.name = int32(i), sp.Label(out)
		if err := r.readSpace(sp, s); err != nil {
			fault = err
			continue
		}
		good++
	}
	if r.walked {
		r.tables.buffer.Lacks("the sizes of send buffers are not recorded: sockets are read by " +
			"BPF here, which lacks them (`culprit diagnose` reads them)")
	}
	if good == 0 && fault != nil {
		return fault
	}
	if fault != nil {
		out.NoteAll(fault.Error())
	}
	if r.owning {
		for _, sp := range list {
			for i := range sp.Data.listeners {
				if l := &sp.Data.listeners[i]; r.owners.due(&l.owner, l.inode) {
					r.asked = append(r.asked, socketRef{sp.Data.index, int32(i), true})
				}
			}
		}
	}
	if err := r.resolve(); err != nil {
		out.NoteAll(err.Error())
	}
	for i := range r.pending {
		p := &r.pending[i]
		s := list[p.space].Data
		r.emit(s, s.table.at(p.flow), &p.v)
	}
	for _, sp := range list {
		r.emitClosed(sp.Data)
		r.emitListeners(sp.Data)
		r.emitCounts(sp.Data)
		sp.Data.first = false
		sp.Data.table.shrink()
	}
	if r.owning {
		r.owners.forget(r.removeOwners)
	}
	r.putNotes()
	if cap(r.asked) > 4096 { // the first reading asks for all
		r.pending, r.asked, r.found, r.inodes = nil, nil, nil, nil
	}
	return nil
}

func (r *flowReading) readSpace(sp *collect.Namespace[*flowSpace], s *flowSpace) error {
	r.space = s
	s.closed = s.closed[:0]
	if s.retry != 0 && r.seconds >= s.retry {
		s.retry, s.deaf = 0, ""
		if err := sp.NetNS.In(func() error { s.listen(); return nil }); err != nil {
			s.deaf = err.Error()
		}
	}
	if s.ends != nil {
		clear(s.byLabels)
		s.heard = 0
		if err := s.ends.Receive(0, r.onEnd); errors.Is(err, netlink.ErrOverrun) {
			r.notes.lost = true
		} else if err != nil {
			r.notes.deaf = err.Error()
		}
		if s.heard > closedMost && float64(s.heard) > closedMost*r.elapsed.Seconds() {
			s.ends.Close()
			s.ends, s.retry = nil, r.seconds+closedDeaf
			s.deaf = fmt.Sprintf("more than %d connections end each second: they are not "+
				"counted to their end, which would cost too much CPU", closedMost)
		}
	}
	if s.deaf != "" {
		r.notes.deaf = s.deaf
	}
	clear(s.listening[:])
	clear(s.counts[:])
	s.minis = 0
	r.again = false
	err := r.dump(s, 0)
	if err == nil && r.states(s) != 0 && !r.walk(sp, s) && !r.empty(s) {
		if err = r.dumpAll(s); err == nil {
			r.recordFinWait(s)
		}
	}
	if err != nil {
		if errors.Is(err, netlink.ErrInterrupted) || errors.Is(err, netlink.ErrOverrun) {
			r.notes.partial = err.Error()
			return nil // nothing is removed
		}
		return err
	}
	r.sweep(s)
	return nil
}

// empty reports whether a namespace has no sockets but listeners. A dump walks the table of the
// whole machine for each namespace, which takes a millisecond with 262,144 buckets. sockstat has
// the number of the namespace's sockets for free. It does not include those that the kernel keeps
// in short form, SYN_RECV and TIME_WAIT.
func (r *flowReading) empty(s *flowSpace) bool {
	if s.sockstat[0] == nil || r.counting && s.counts[tcpListen] > 0 {
		return false
	}
	used := uint64(0)
	for i, f := range s.sockstat {
		if f == nil {
			continue // no IPv6
		}
		b, err := f.ReadOne()
		if err != nil {
			return false
		}
		n, ok := parseTCPSockets(b, sockstatLines[i], "inuse")
		if !ok {
			return false
		}
		used += n
		if i == 0 && r.counting {
			if waiting, ok := parseTCPSockets(b, sockstatLines[i], "tw"); !ok || waiting > 0 {
				return false
			}
		}
	}
	return used == uint64(s.counts[tcpListen])
}

// sockstatLines are the names of TCP in /proc/net/sockstat and sockstat6.
var sockstatLines = [2]string{"TCP:", "TCP6:"} // table: constant

func (r *flowReading) dumpAll(s *flowSpace) error {
	// A dump of a changing table may leave some out. One left out of the first dump would look new
	// in the second reading, and its whole past would count for one interval. So the first reading
	// makes two dumps.
	err := r.dump(s, 1)
	if s.first && r.flows && err == nil {
		r.again = true
		err = r.dump(s, 1)
	}
	return err
}

// dump asks for the sockets of a namespace: in one walk by the older request, or in two by the
// newer one if the kernel has only that.
func (r *flowReading) dump(s *flowSpace, which int) error {
	states, ext := uint32(1<<tcpListen), byte(0)
	if which == 1 {
		states = r.states(s)
		if r.flows {
			ext = 1 << (diagInfo - 1)
		}
		if r.want.Stat("tcp.flow.buffer") {
			ext |= 1 << (diagMemory - 1)
		}
	}
	if s.requests[which] == nil {
		s.requests[which] = make([]netlink.Request, 1)
		requestWith(&s.requests[which][0], 0, states, ext)
	}
	for i := range s.requests[which] {
		s.table.expect, s.next = 0, 0
		err := s.conn.Dump(&s.requests[which][i], r.onDump)
		if err == nil {
			continue
		}
		var refused *netlink.Error
		if i == 0 && len(s.requests[which]) == 1 && errors.As(err, &refused) &&
			!errors.Is(err, measure.ErrDenied) {
			s.requests[which] = make([]netlink.Request, 2)
			requestWith(&s.requests[which][0], unix.AF_INET, states, ext)
			requestWith(&s.requests[which][1], unix.AF_INET6, states, ext)
			return r.dump(s, which)
		}
		if errors.Is(err, measure.ErrUnsupported) && i == 1 {
			return nil // no IPv6
		}
		return fmt.Errorf("TCP connections by inet_diag: %w", err)
	}
	return nil
}

// sweep removes the connections and listeners that are gone.
func (r *flowReading) sweep(s *flowSpace) {
	missing := 0
	for i := range s.table.size {
		f := s.table.at(i)
		if f.cookie == 0 || f.tick == r.tick {
			continue
		}
		missing++
		absent := r.tick - f.tick
		if absent == 1 {
			f.gone = r.seconds
			if s.ends == nil {
				r.notes.unheard++
			}
		}
		if absent > flowGrace &&
			(s.ends == nil || missing > flowsMissing || r.seconds-f.gone > flowGraceHear) {
			s.table.remove(i)
		}
	}
	kept := s.listeners[:0]
	for i := range s.listeners {
		if s.listeners[i].tick == r.tick {
			kept = append(kept, s.listeners[i])
		}
	}
	s.listeners = kept
}

// resolve finds the owners of the sockets that were asked for.
func (r *flowReading) resolve() error {
	if len(r.asked) == 0 {
		return nil
	}
	r.found, r.inodes = r.found[:0], r.inodes[:0]
	for _, a := range r.asked {
		s := r.spaces.List[a.space].Data
		if a.listener {
			l := &s.listeners[a.at]
			r.found, r.inodes = append(r.found, &l.owner), append(r.inodes, l.inode)
			continue
		}
		f := s.table.at(a.at)
		r.found, r.inodes = append(r.found, &f.owner), append(r.inodes, f.inode)
	}
	return r.owners.resolve(r.found, r.inodes, r.onHeld)
}

// held calls f with the ownership of each living socket.
func (r *flowReading) held(f func(*ownership)) {
	for _, sp := range r.spaces.List {
		for i := range sp.Data.table.size {
			if w := sp.Data.table.at(i); w.tick == r.tick && w.inode != 0 && !w.closed {
				f(&w.owner)
			}
		}
		for i := range sp.Data.listeners {
			f(&sp.Data.listeners[i].owner)
		}
	}
}

// removeOwners removes processes that ended long ago from all sockets.
func (r *flowReading) removeOwners(old func(int32) bool) {
	for _, sp := range r.spaces.List {
		for i := range sp.Data.table.size {
			if o := &sp.Data.table.at(i).owner; old(o.who) {
				*o = ownership{}
			}
		}
		for i := range sp.Data.listeners {
			if o := &sp.Data.listeners[i].owner; old(o.who) {
				*o = ownership{}
			}
		}
	}
}
