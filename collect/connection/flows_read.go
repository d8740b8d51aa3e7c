package connection

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// flowWords are the label words of the rows, indexed by the constants below.
var flowWords = [...]string{"rx", "tx", "server", "client", "busy", "rwnd", "sndbuf", "size",
	"used", ""}

const (
	wordRx = iota
	wordTx
	wordServer
	wordClient
	wordBusy
	wordRwnd
	wordSndbuf
	wordSize
	wordUsed
	wordNone
)

func (r *flowReading) setTables(out *collect.Out) {
	t := &r.tables
	for _, x := range [...]struct {
		to *(*collect.Table)
		id measure.StatID
	}{
		{&t.bytes, "tcp.flow.bytes"}, {&t.segments, "tcp.flow.segments"}, {&t.retransmits, "tcp.flow.retransmits"},
		{&t.rtt, "tcp.flow.rtt"}, {&t.minrtt, "tcp.flow.minrtt"}, {&t.delivery, "tcp.flow.delivery"},
		{&t.pacing, "tcp.flow.pacing"}, {&t.cwnd, "tcp.flow.cwnd"}, {&t.mss, "tcp.flow.mss"}, {&t.unsent, "tcp.flow.unsent"},
		{&t.unacked, "tcp.flow.unacked"}, {&t.queue, "tcp.flow.queue"}, {&t.limited, "tcp.flow.limited"},
		{&t.buffer, "tcp.flow.buffer"},
		{&t.connections, "tcp.connections"}, {&t.listenQueue, "tcp.listen.queue"}, {&t.listenLimit, "tcp.listen.limit"},
	} {
		*x.to = out.Table(x.id)
	}
}

// take parses one socket of a dump. For an idle connection that is a look-up and two comparisons.
func (r *flowReading) take(_ uint16, payload []byte) error {
	r.pace.socket()
	s, k := r.space, &r.socket
	if !parseDiag(payload, k) {
		r.notes.malformed++
		return nil
	}
	if !r.again {
		s.counts[k.state]++
	}
	if k.state == tcpListen {
		r.takeListener(s, k)
		return nil
	}
	if !r.flows || k.cookie == 0 {
		return nil
	}
	if len(k.info) < infoCounts {
		if k.info != nil {
			r.notes.short = len(k.info)
		} else {
			if k.state == tcpFinWait2 && !r.again {
				s.minis++
			}
			// TIME_WAIT has its connection's cookie, and no counters
			if i := s.table.find(k.cookie); i >= 0 {
				s.table.at(i).tick = r.tick
			}
		}
		return nil
	}

	i := s.table.find(k.cookie)
	fresh := i < 0
	if fresh {
		i = s.table.add(k.cookie)
	}
	f := s.table.at(i)
	if f.tick == r.tick {
		return nil // a dump of a changing table repeats some
	}
	f.tick = r.tick
	f.closed = k.inode == 0
	if !f.closed { // a closed socket that still sends keeps its process
		f.inode, f.owner.user = k.inode, k.uid != 0
	}
	receiving, sending := k.queues()
	if !fresh && k.info.segsOut() == f.last.segsOut && k.info.segsIn() == f.last.segsIn &&
		receiving|sending == 0 {
		return nil
	}
	if len(k.info) < infoWhole {
		r.notes.short = len(k.info)
	}
	now, ports := k.info.counts(k.info[0]), uint32(k.localPort)<<16|uint32(k.peerPort)
	// A socket that was disconnected and connected again keeps its cookie. Counts may differ by SYN
	// and FIN.
	reborn := !fresh && (f.ports != ports || now.tx+2 < f.last.tx || now.rx+2 < f.last.rx)
	if fresh || reborn {
		f.ports, f.epoch, f.last = ports, -1, flowCounts{}
		f.server = s.listening[k.localPort/64]>>(k.localPort%64)&1 != 0
		if fresh && s.first && !(r.out.First && r.out.SinceBoot) {
			f.last = now
		}
	}
	v := flowValues{delta: now.since(&f.last), receiving: receiving, sending: sending}
	// A keep-alive moves no bytes, and thousands of idle connections may send theirs in one second.
	// So it emits no levels.
	v.levels = v.delta.rx|v.delta.tx|uint64(v.delta.resent)|uint64(receiving)|uint64(sending) != 0
	f.last = now
	if r.out.First && !r.out.SinceBoot { // no rows; this is a good time to find owners
		r.owner(s, i, nil)
		return nil
	}
	v.read(k.info)
	v.bufferSize, v.bufferUsed = k.bufferSize, k.bufferUsed
	r.name(f, k)
	if len(s.closed) > 0 {
		if c, ok := s.byLabels[f.labels]; ok && !s.closed[c].merged {
			s.closed[c].merged = true
			v.delta.add(&s.closed[c].delta)
		}
	}
	r.owner(s, i, &v)
	return nil
}

// owner puts the rows of a connection, or first has its owner found.
func (r *flowReading) owner(s *flowSpace, i int32, v *flowValues) {
	f := s.table.at(i)
	if r.owning && r.owners.due(&f.owner, f.inode) {
		r.asked = append(r.asked, socketRef{s.index, i, false})
		if v != nil {
			r.pending = append(r.pending, pendingFlow{s.index, i, *v})
		}
	} else if v != nil {
		r.emit(s, f, v)
	}
}

// since returns the growth of the counters. Those of segments have 32 bits and wrap.
func (c *flowCounts) since(last *flowCounts) flowCounts {
	grown := func(now, last uint64) uint64 { return max(now, last) - last }
	return flowCounts{
		tx: grown(c.tx, last.tx), rx: grown(c.rx, last.rx),
		busy: grown(
			c.busy, last.busy,
		), rwnd: grown(c.rwnd, last.rwnd), sndbuf: grown(c.sndbuf, last.sndbuf),
		segsOut: c.segsOut - last.segsOut, segsIn: c.segsIn - last.segsIn, resent: c.resent - last.resent,
	}
}

func (c *flowCounts) add(d *flowCounts) {
	c.tx, c.rx = c.tx+d.tx, c.rx+d.rx
	c.busy, c.rwnd, c.sndbuf = c.busy+d.busy, c.rwnd+d.rwnd, c.sndbuf+d.sndbuf
	c.segsOut, c.segsIn, c.resent = c.segsOut+d.segsOut, c.segsIn+d.segsIn, c.resent+d.resent
}

// read sets the levels of a connection from its tcp_info.
func (v *flowValues) read(i tcpInfo) {
	v.rtt, v.minrtt = i.u32(68), i.u32(148)
	if v.minrtt == math.MaxUint32 { // no sample yet (tcp_init_sock)
		v.minrtt = 0
	}
	v.cwnd, v.mss, v.unacked = i.u32(80), i.u32(16), i.u32(24)
	v.unsent, v.hasUnsent = i.u32(144), len(i) >= infoUnsent
	v.delivery, v.pacing = i.u64(160), i.u64(104)
	if v.pacing == math.MaxUint64 { // not paced yet
		v.pacing = 0
	}
}

// name makes the labels of a connection from its socket.
func (r *flowReading) name(f *flow, k *diagSocket) {
	if f.epoch != int32(r.out.Epoch) {
		f.epoch, f.labels = int32(r.out.Epoch), r.labels(k)
	}
}

func (r *flowReading) labels(k *diagSocket) flowLabels {
	peerDevice := uint32(0)
	// link-local: ambiguous without its link
	if len(k.peer) == 16 && k.peer[0] == 0xfe && k.peer[1]&0xc0 == 0x80 {
		peerDevice = k.device
	}
	return flowLabels{
		local: r.address(k.local, k.device), localPort: r.out.Number(int64(k.localPort)),
		peer: r.address(k.peer, peerDevice), peerPort: r.out.Number(int64(k.peerPort)),
	}
}

// address returns the label of an address. Its zone is the number of the device that the socket is
// bound to (RFC 4007).
func (r *flowReading) address(b []byte, device uint32) measure.Label {
	r.text = appendAddress(r.text[:0], b)
	if device != 0 {
		r.text = strconv.AppendUint(append(r.text, '%'), uint64(device), 10)
	}
	return r.out.LabelBytes(r.text)
}

// appendAddress appends the text of an address of 4 or 16 bytes.
func appendAddress(text, b []byte) []byte {
	if len(b) == 4 {
		return netip.AddrFrom4([4]byte(b)).AppendTo(text)
	}
	return netip.AddrFrom16([16]byte(b)).AppendTo(text)
}

// emit puts the rows of one connection.
func (r *flowReading) emit(s *flowSpace, f *flow, v *flowValues) {
	none := r.w[wordNone]
	who := [2]measure.Label{none, none}
	if r.owning {
		who = r.owners.labels(r.out, &f.owner)
		// not yet accepted, or closed before its owner was found
		if f.server && f.owner.who < ownerKernel {
			who[1] = r.listens(s, uint16(f.ports>>16))
		}
		r.notes.ownerless = r.notes.ownerless || f.owner.who == ownerUnknown && f.inode != 0
	}
	r.put(s.name, &f.labels, who, f.server, v)
}

func (r *flowReading) put(
	ns measure.Label, l *flowLabels, who [2]measure.Label, server bool, v *flowValues,
) {
	w, t := r.w, &r.tables
	key := [9]measure.Label{
		ns, l.local, l.localPort, l.peer, l.peerPort, who[0], who[1], w[wordClient], 0,
	}
	if server {
		key[7] = w[wordServer]
	}
	plain := key[:8]
	amount := func(t *collect.Table, word int, value uint64, scale float64) {
		if value != 0 {
			key[8] = w[word]
			t.Put(float64(value)*scale, key[:]...)
		}
	}
	amount(t.bytes, wordRx, v.delta.rx, 1)
	amount(t.bytes, wordTx, v.delta.tx, 1)
	amount(t.segments, wordRx, uint64(v.delta.segsIn), 1)
	amount(t.segments, wordTx, uint64(v.delta.segsOut), 1)
	if v.delta.resent != 0 {
		t.retransmits.Put(float64(v.delta.resent), plain...)
	}
	const µs = 1000
	amount(t.limited, wordBusy, v.delta.busy, µs)
	amount(t.limited, wordRwnd, v.delta.rwnd, µs)
	amount(t.limited, wordSndbuf, v.delta.sndbuf, µs)
	if !v.levels {
		return
	}
	known := func(t *collect.Table, value uint64, scale float64) {
		if value != 0 {
			t.Put(float64(value)*scale, plain...)
		}
	}
	t.unacked.Put(float64(v.unacked), plain...)
	if t.queue != nil {
		key[8] = w[wordRx]
		t.queue.Put(float64(v.receiving), key[:]...)
		key[8] = w[wordTx]
		t.queue.Put(float64(v.sending), key[:]...)
	}
	if t.buffer != nil && v.bufferSize > 0 {
		key[8] = w[wordSize]
		t.buffer.Put(float64(v.bufferSize), key[:]...)
		key[8] = w[wordUsed]
		t.buffer.Put(float64(v.bufferUsed), key[:]...)
	}
	known(t.rtt, uint64(v.rtt), µs)
	known(t.minrtt, uint64(v.minrtt), µs)
	known(t.delivery, v.delivery, 8)
	known(t.pacing, v.pacing, 8)
	known(t.cwnd, uint64(v.cwnd), 1)
	known(t.mss, uint64(v.mss), 1)
	if v.hasUnsent {
		t.unsent.Put(float64(v.unsent), plain...)
	}
}

// takeEnd parses the announcement that a connection ended (sock_diag_broadcast_destroy in
// net/core/sock_diag.c). It comes when the process has closed the socket and the connection is
// over, and has the last counters.
func (r *flowReading) takeEnd(_ uint16, payload []byte) error {
	s, k := r.space, &r.socket
	s.heard++
	if !parseDiag(payload, k) || len(k.info) < infoCounts || k.cookie == 0 {
		return nil
	}
	s.table.expect = s.table.size // the order of a dump does not apply
	i := s.table.find(k.cookie)
	if s.first { // before the first dump there was no interval
		return nil
	}
	var last flowCounts
	c := closedFlow{port: k.localPort}
	if i >= 0 {
		f := s.table.at(i)
		last, c.owner, c.server = f.last, f.owner, f.server
		// disconnected and connected again meanwhile
		if f.ports != uint32(k.localPort)<<16|uint32(k.peerPort) {
			last = flowCounts{}
		}
		s.table.remove(i)
	} else {
		c.server = s.listening[k.localPort/64]>>(k.localPort%64)&1 != 0
	}
	now := k.info.counts(k.state)
	c.delta = now.since(&last)
	if c.delta == (flowCounts{}) {
		return nil
	}
	// A connection that was never dumped began after the previous reading, and cannot have been
	// quiet for longer. Otherwise it was over long ago and only its socket was kept: what it moved
	// belongs to no current interval. A kernel that closes many sockets announces ends up to 10 s
	// late.
	if i < 0 &&
		time.Duration(k.info.quiet())*time.Millisecond > min(
			r.before.Sub(r.began), 2*r.elapsed+closedLate,
		) {
		if now.tx+now.rx > 0 {
			r.notes.late++
		}
		return nil
	}
	if len(s.closed) >= flowsClosed {
		r.notes.overflow++
		return nil
	}
	c.labels = r.labels(k)
	if at, ok := s.byLabels[c.labels]; ok {
		s.closed[at].delta.add(&c.delta)
		return nil
	}
	s.byLabels[c.labels] = int32(len(s.closed))
	s.closed = append(s.closed, c)
	return nil
}

// emitClosed puts the last rows of the connections that ended.
func (r *flowReading) emitClosed(s *flowSpace) {
	none := r.w[wordNone]
	for i := range s.closed {
		c := &s.closed[i]
		if c.merged {
			continue
		}
		who := [2]measure.Label{none, none}
		if r.owning {
			who = r.owners.labels(r.out, &c.owner)
			if c.owner.who < ownerKernel {
				r.notes.brief = r.notes.brief || c.owner.who == ownerUnasked
				r.notes.ownerless = r.notes.ownerless || c.owner.who == ownerUnknown
				if c.server {
					who[1] = r.listens(s, c.port)
				}
			}
		}
		r.put(s.name, &c.labels, who, c.server, &flowValues{delta: c.delta})
	}
	if cap(s.closed) > 4096 && len(s.closed) < cap(s.closed)/8 {
		s.closed, s.byLabels = nil, map[flowLabels]int32{}
	}
}

// listens returns the name of the process that listens on a port. It is used for a connection whose
// own process, among those that share the listener, is not known.
func (r *flowReading) listens(s *flowSpace, port uint16) measure.Label {
	for i := range s.listeners {
		if l := &s.listeners[i]; l.port == port && l.owner.who >= ownerKernel {
			return r.owners.labels(r.out, &l.owner)[1]
		}
	}
	return r.w[wordNone]
}

// takeListener stores a listening socket. Listeners come first in a dump, so that connections to
// them are recognised.
func (r *flowReading) takeListener(s *flowSpace, k *diagSocket) {
	s.listening[k.localPort/64] |= 1 << (k.localPort % 64)
	at := -1
	if s.next < len(s.listeners) && s.listeners[s.next].cookie == k.cookie {
		at = s.next
	} else {
		for i := range s.listeners {
			if s.listeners[i].cookie == k.cookie {
				at = i
				break
			}
		}
	}
	if at < 0 {
		at = len(s.listeners)
		s.listeners = append(s.listeners, listener{cookie: k.cookie})
	}
	s.next = at + 1
	l := &s.listeners[at]
	l.owner.user = k.uid != 0
	l.port, l.device, l.inode = k.localPort, k.device, k.inode
	l.queue, l.limit = k.receiving, k.sending
	l.size, l.tick, l.done = uint8(copy(l.address[:], k.local)), r.tick, false
}

// emitListeners puts the rows of the listeners. Those that share address, port and process
// (SO_REUSEPORT) are added up.
func (r *flowReading) emitListeners(s *flowSpace) {
	t := &r.tables
	if t.listenQueue == nil && t.listenLimit == nil || r.out.First && !r.out.SinceBoot {
		return
	}
	for i := range s.listeners {
		l := &s.listeners[i]
		if l.done {
			continue
		}
		queue, limit := float64(l.queue), float64(l.limit)
		for j := i + 1; j < len(s.listeners); j++ {
			if m := &s.listeners[j]; m.port == l.port && m.size == l.size &&
				m.address == l.address &&
				m.device == l.device &&
				(!r.owning || r.owners.same(&m.owner, &l.owner)) {
				m.done = true
				queue, limit = queue+float64(m.queue), limit+float64(m.limit)
			}
		}
		who := [2]measure.Label{r.w[wordNone], r.w[wordNone]}
		if r.owning {
			who = r.owners.labels(r.out, &l.owner)
			r.notes.ownerless = r.notes.ownerless || l.owner.who == ownerUnknown
		}
		key := [5]measure.Label{
			s.name,
			r.address(l.address[:l.size], l.device),
			r.out.Number(int64(l.port)),
			who[0],
			who[1],
		}
		t.listenQueue.Put(queue, key[:]...)
		t.listenLimit.Put(limit, key[:]...)
	}
}

// slowDump notes that a dump was slow (dumpPace).
const slowDump = "to read all connections each second would take more than 10 % of a CPU: they " +
	"are read less often, and each number covers the time since the previous reading"

// putNotes puts the losses and notes of the reading.
func (r *flowReading) putNotes() {
	n, t := &r.notes, &r.tables
	moved := [...]*collect.Table{t.bytes, t.segments, t.retransmits, t.limited}
	lose := func(reason string, events uint64, sure bool) {
		if events == 0 && !sure {
			return
		}
		for _, t := range moved {
			t.Loss(reason, events)
		}
	}
	lose("connections that ended: what they moved since the previous reading", n.unheard, false)
	lose("connections that ended: more than one reading takes", n.overflow, false)
	lose("connections that ended: announcements lost", 0, n.lost)
	lose("connections that were over long before their socket was closed", n.late, false)
	if n.deaf != "" {
		for _, t := range moved {
			t.Note(n.deaf)
		}
	}
	if r.pace.paused > 0 {
		r.out.NoteAll(slowDump)
	}
	if n.partial != "" {
		r.out.NoteAll("some connections are missing: " + n.partial)
	}
	if n.malformed > 0 {
		r.out.NoteAll("the kernel described some sockets in a way that culprit does not understand")
	}
	if n.short > 0 && n.short < infoLimited {
		r.out.NoteAll(fmt.Sprintf("this kernel has only %d bytes about a connection, too few "+
			"for all statistics", n.short))
		r.tables.limited.Unmeasured("this kernel does not count what limits a connection " +
			"(Linux 4.10 and later do)")
	}
	if n.brief {
		for _, t := range moved {
			t.Note("connections that begin and end between two readings have no pid; those to " +
				"a listener have the name of its process")
		}
	}
	if n.ownerless && r.owners.denied {
		r.out.NoteAll(kernel.UnreadNote("the files of some processes may not be read: their "+
			"connections have no pid without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
			unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH))
	}
}
