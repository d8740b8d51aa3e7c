package network

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
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

// flowFields returns the fields of a connection.
func flowFields() []measure.Field {
	return []measure.Field{
		{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own"},
		{Name: "local", Type: measure.Word, Help: "own address; IPv4 in IPv6 is shown as IPv4; " +
			"%N for a socket bound to device number N"},
		{Name: "localport", Type: measure.Number, Help: "own port"},
		{Name: "peer", Type: measure.Word, Help: "address of the other end"},
		{Name: "peerport", Type: measure.Number, Help: "port of the other end"},
		{Name: "pid", Type: measure.Number, Help: "process that has the socket open, the first " +
			"one found; empty if unknown, or if the connection was too short"},
		{Name: "process", Type: measure.Word, Help: "its name; [kernel] for a socket of no " +
			"process; a connection to a listener that was too short has the listener's"},
		{Name: "side", Type: measure.Word, Help: "server if the local port has a listener, " +
			"else client"},
	}
}

// Stats implements Collector.
func (Flows) Stats() []measure.Stat {
	with := func(fields []measure.Field, f ...measure.Field) []measure.Field {
		return append(append([]measure.Field{}, fields...), f...)
	}
	flowFields := flowFields()
	directed := with(
		flowFields, measure.Field{Name: "direction", Type: measure.Word, Help: "rx or tx"},
	)
	limited := with(flowFields, measure.Field{Name: "by", Type: measure.Word,
		Help: "busy: data was sent or waiting to be sent; this includes rwnd: stopped by the " +
			"peer's receive window, and sndbuf: stopped by the own send buffer"})
	listener := with(flowFields[:3], flowFields[5:7]...)
	delta := func(
		id measure.StatID, unit measure.Unit, fields []measure.Field, help string,
	) measure.Stat {
		st := deltaStat(id, unit, fields, help)
		st.Sparse = true
		return st
	}
	level := levelStat
	const moving = "; only rows for connections that moved data or have data queued"
	return []measure.Stat{
		delta("tcp.flow.bytes", measure.Bytes, directed, "payload received (rx), or sent and "+
			"acknowledged (tx), each byte once (tcp_info bytes_received, bytes_acked)"),
		delta("tcp.flow.segments", measure.Packets, directed, "segments of any kind, also "+
			"without data (tcp_info segs_in, segs_out)"),
		delta("tcp.flow.retransmits", measure.Events, flowFields, "segments sent again "+
			"(tcp_info total_retrans)"),
		level("tcp.flow.rtt", measure.Nanoseconds, measure.Mean, flowFields, "smoothed round "+
			"trip time (tcp_info rtt)"+moving),
		level("tcp.flow.minrtt", measure.Nanoseconds, measure.Min, flowFields, "least round "+
			"trip time of the last minutes (tcp_info min_rtt)"+moving),
		level("tcp.flow.delivery", measure.BitsPerSec, measure.Max, flowFields, "rate at which "+
			"the last data sent was acknowledged (tcp_info delivery_rate)"+moving),
		level("tcp.flow.pacing", measure.BitsPerSec, measure.Max, flowFields, "rate at which "+
			"the sender limits itself (tcp_info pacing_rate)"+moving),
		level("tcp.flow.cwnd", measure.Count, measure.Max, flowFields, "congestion window in "+
			"segments (tcp_info snd_cwnd)"+moving),
		level("tcp.flow.mss", measure.Bytes, measure.Max, flowFields, "largest segment sent "+
			"(tcp_info snd_mss)"+moving),
		level("tcp.flow.unsent", measure.Bytes, measure.Sum, flowFields, "bytes written that "+
			"are not yet sent (tcp_info notsent_bytes)"+moving),
		level("tcp.flow.unacked", measure.Packets, measure.Sum, flowFields, "segments sent "+
			"that are not yet acknowledged (tcp_info unacked)"+moving),
		level("tcp.flow.queue", measure.Bytes, measure.Sum, directed, "bytes in the socket: "+
			"received and not yet read (rx), written and not yet acknowledged (tx) (inet_diag "+
			"rqueue, wqueue)"+moving),
		delta("tcp.flow.limited", measure.Nanoseconds, limited, "time sending, and what "+
			"limited it (tcp_info busy_time, rwnd_limited, sndbuf_limited)"),
		level("tcp.connections", measure.Count, measure.Sum, []measure.Field{flowFields[0],
			{Name: "state", Type: measure.Word, Help: "established, time-wait, listen ... as " +
				"in ss(8)"}}, "sockets by state (inet_diag)"),
		level("tcp.listen.queue", measure.Count, measure.Sum, listener, "connections that wait "+
			"for accept(2) (inet_diag rqueue of a listener)"),
		level("tcp.listen.limit", measure.Count, measure.Sum, listener, "how many may wait; "+
			"the kernel accepts one more (inet_diag wqueue of a listener)"),
	}
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

type flowReading struct {
	want     collect.Want
	flows    bool // any tcp.flow.*
	counting bool // tcp.connections
	owning   bool // the fields pid or process
	spaces   collect.PerNamespace[*flowSpace]
	owners   *owners
	walks    *flowWalk

	tick    uint32
	began   time.Time // time of the first reading
	seconds uint32    // since then
	before  time.Time // time of the previous reading
	elapsed time.Duration

	// Of the current reading.
	out   *collect.Out
	space *flowSpace
	again bool // the second dump of a first reading
	// walkable: a walk may have the sockets; walked: it had them.
	walkable, walked bool
	socket           diagSocket
	pending          []pendingFlow
	asked            []socketRef
	found            []*ownership
	inodes           []uint32
	notes            flowNotes
	tables           flowTables
	words            collect.WordLabels
	w                []label
	text             []byte
	onDump           func(uint16, []byte) error
	onEnd            func(uint16, []byte) error
	onHeld           func(func(*ownership))
}

// flowNotes counts what a reading could not do.
type flowNotes struct {
	short     int    // length of a struct tcp_info that lacks something; 0: none
	unheard   uint64 // connections that ended without an announcement
	late      uint64 // announced so late that they belong to no interval
	overflow  uint64 // announcements beyond flowsClosed
	lost      bool   // announcements lost by the kernel's queue
	deaf      string // why ends are not announced
	partial   string // why the dump is not complete
	malformed uint64
	brief     bool // a connection was over before its process was found
	ownerless bool // a row has no owner although its socket belongs to a process
}

// flowSpace is the state of one namespace.
type flowSpace struct {
	index int32
	name  label
	conn  *netlink.Conn
	ends  *netlink.Conn // announcements; nil: none
	deaf  string        // why there are none
	retry uint32        // the second in which to subscribe again; 0: never
	heard int           // announcements of this reading
	// for listeners, and for all others; one for both families, or two
	requests  [2][]netlink.Request
	sockstat  [2]*proc.File // of IPv4 and IPv6; nil: unreadable
	first     bool          // no reading yet
	table     flowTable
	listening [1 << 16 / 64]uint64 // ports
	listeners []listener
	next      int
	counts    [tcpStates]int
	minis     int // FIN_WAIT2 without a socket: the kernel keeps them as TIME_WAIT
	closed    []closedFlow
	byLabels  map[flowLabels]int32
	walks     uint8  // walksNot ...
	inode     uint64 // of the namespace
	calm      bool   // the last dump had no connection in FIN_WAIT2 without a socket
	short     uint64 // how many of these there had been until then
}

type listener struct {
	cookie       uint64
	address      [16]byte
	size         uint8 // of address
	port         uint16
	device       uint32
	inode        uint32
	queue, limit uint32
	tick         uint32
	owner        ownership
	done         bool // its row was put with another's
}

// closedFlow is a connection whose end was announced.
type closedFlow struct {
	labels flowLabels
	port   uint16
	owner  ownership
	server bool
	merged bool // put with a living one of the same addresses and ports
	delta  flowCounts
}

type pendingFlow struct {
	space int32
	flow  int32
	v     flowValues
}

// socketRef is a socket whose owner is wanted: an index in the table of a namespace or in its
// listeners.
type socketRef struct {
	space    int32
	at       int32
	listener bool
}

// flowValues are the values of a connection's rows.
type flowValues struct {
	delta              flowCounts
	levels             bool
	receiving, sending uint32
	rtt, minrtt        uint32 // microseconds; 0: unknown
	cwnd, mss          uint32
	unsent, unacked    uint32
	hasUnsent          bool
	delivery, pacing   uint64 // bytes per second; 0: unknown
}

type flowTables struct {
	bytes, segments, retransmits, limited                            *collect.Table
	rtt, minrtt, delivery, pacing, cwnd, mss, unsent, unacked, queue *collect.Table
	connections, listenQueue, listenLimit                            *collect.Table
}

// Open opens the sockets of each network namespace. It needs no capability. An error means that
// nothing can be measured. The caller closes the Reading.
func (c Flows) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &flowReading{want: want, flows: false, counting: want.Stat("tcp.connections")}
	for _, s := range (Flows{}).Stats() {
		r.flows = r.flows || want.Stat(s.ID) && strings.HasPrefix(string(s.ID), "tcp.flow.")
		r.owning = r.owning || want.Field(s.ID, "pid") || want.Field(s.ID, "process")
	}
	r.onDump, r.onEnd, r.onHeld = r.take, r.takeEnd, r.held
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
	conn, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{})
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
	states, info := uint32(1<<tcpListen), false
	if which == 1 {
		states, info = r.states(s), r.flows
	}
	if s.requests[which] == nil {
		s.requests[which] = make([]netlink.Request, 1)
		diagRequest(&s.requests[which][0], 0, states, info)
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
			diagRequest(&s.requests[which][0], unix.AF_INET, states, info)
			diagRequest(&s.requests[which][1], unix.AF_INET6, states, info)
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
