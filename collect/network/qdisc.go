package network

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Constants of include/uapi/linux/pkt_sched.h, rtnetlink.h and gen_stats.h.
const (
	sizeofTC = 20 // struct tcmsg: u8 family, 3 bytes, s32 index, u32 handle, parent, info

	tcaKind, tcaOptions, tcaStats2, tcaStab = 1, 2, 7, 8

	tcaStatsBasic   = 1 // struct gnet_stats_basic: u64 bytes, u32 packets
	tcaStatsQueue   = 3 // struct gnet_stats_queue: u32 qlen, backlog, drops, requeues, overlimits
	tcaStatsPackets = 8 // u64 packets, if they exceed 32 bits

	tcRoot    = 0xffffffff // TC_H_ROOT
	tcIngress = 0xfffffff1 // TC_H_INGRESS, TC_H_CLSACT
	tcMajor   = 0xffff0000 // TC_H_MAJ

	tbfParms, tbfRate64                       = 1, 4
	htbParms, htbInit, htbRate64, htbCeil64   = 1, 2, 6, 7
	fqFlowMaxRate                             = 7
	cakeBaseRate64                            = 2
	netemRate, netemRate64, sizeofNetemQopt   = 6, 8, 24
	sizeofRateSpec, rateSpecRate, htbGlobSize = 12, 8, 20
)

// qdiscKey identifies a queueing discipline or class in its namespace. Those that mq makes have
// handle 0.
type qdiscKey struct {
	index          int32
	handle, parent uint32
	class          bool
}

// qdisc is a queueing discipline, or one of the classes of HTB, of a device.
type qdisc struct {
	key   qdiscKey
	kind  string
	round uint32

	rate      float64 // bit/s; 0: none. HTB classes: the guaranteed one
	ceil      float64 // bit/s that an HTB class can reach by borrowing
	fallback  uint32  // HTB: minor number of the class for packets that no filter classified
	caught    bool    // HTB: almost nothing bypassed all classes (direct_pkts below 1 %)
	resized   bool    // a size table (tc-stab) adds to what it counts
	perFlow   bool    // rate applies to each flow: fq maxrate
	now, last qdiscCounters
	compared  uint32 // the reading of last; 0: none
	fresh     bool   // delta is of this reading

	delta struct{ bytes, packets, drops, overlimits, requeues float64 }

	epoch  int
	link   *link
	labels [5]label
}

type qdiscCounters struct {
	bytes, packets                             uint64
	queue, backlog, drops, requeues, overlimit uint32
}

// parseQdisc parses RTM_NEWQDISC or RTM_NEWTCLASS. Unchanged strings of q are not allocated again.
// The caller has set q.key by parseQdiscKey.
func parseQdisc(payload []byte, q *qdisc) error {
	q.rate, q.ceil, q.fallback, q.now = 0, 0, 0, qdiscCounters{}
	q.caught, q.resized, q.perFlow = false, false, false
	var options []byte
	a := netlink.AttrsOf(payload[min(sizeofTC, len(payload)):])
	for a.Next() {
		switch a.Type() {
		case tcaKind:
			q.kind = keep(q.kind, a.Text())
		case tcaOptions:
			options = a.Value()
		case tcaStab:
			q.resized = true
		case tcaStats2:
			for s := a.Nested(); s.Next(); {
				switch v := s.Value(); {
				case s.Type() == tcaStatsBasic && len(v) >= 12:
					q.now.bytes = native.Uint64(v)
					q.now.packets = max(q.now.packets, uint64(native.Uint32(v[8:])))
				case s.Type() == tcaStatsPackets && len(v) == 8:
					q.now.packets = native.Uint64(v)
				case s.Type() == tcaStatsQueue && len(v) >= 20:
					q.now.queue, q.now.backlog = native.Uint32(v), native.Uint32(v[4:])
					q.now.drops = native.Uint32(v[8:])
					q.now.requeues, q.now.overlimit = native.Uint32(v[12:]), native.Uint32(v[16:])
				}
			}
		}
	}
	q.options(options)
	return a.Err()
}

func parseQdiscKey(payload []byte, class bool) (qdiscKey, bool) {
	if len(payload) < sizeofTC {
		return qdiscKey{}, false
	}
	return qdiscKey{
		int32(native.Uint32(payload[4:])),
		native.Uint32(payload[8:]),
		native.Uint32(payload[12:]),
		class,
	}, true
}

// options parses the rates of the kinds that shape. struct tc_ratespec has bytes/s in its last u32.
// A rate above 32 bits has its own attribute.
func (q *qdisc) options(b []byte) {
	spec := func(v []byte, at int) float64 {
		if len(v) < at+sizeofRateSpec {
			return 0
		}
		return 8 * float64(native.Uint32(v[at+rateSpecRate:]))
	}
	if q.kind == "netem" { // struct tc_netem_qopt comes before the attributes
		b = b[min(sizeofNetemQopt, len(b)):]
	}
	for a := netlink.AttrsOf(b); a.Next(); {
		v := a.Value()
		switch q.kind {
		case "tbf":
			switch {
			case a.Type() == tbfParms && q.rate == 0:
				q.rate = spec(v, 0)
			case a.Type() == tbfRate64 && len(v) == 8:
				q.rate = 8 * float64(a.Uint())
			}
		case "htb":
			switch {
			case a.Type() == htbParms: // struct tc_htb_opt: rate, ceil ...
				q.rate, q.ceil = spec(v, 0), spec(v, sizeofRateSpec)
			case a.Type() == htbRate64 && len(v) == 8:
				q.rate = 8 * float64(a.Uint())
			case a.Type() == htbCeil64 && len(v) == 8:
				q.ceil = 8 * float64(a.Uint())
			// struct tc_htb_glob: version, rate2quantum, defcls, debug, direct_pkts
			case a.Type() == htbInit && len(v) >= htbGlobSize:
				q.fallback = native.Uint32(v[8:])
				q.caught = uint64(native.Uint32(v[16:]))*100 <= q.now.packets
			}
		case "fq":
			if a.Type() == fqFlowMaxRate && len(v) == 4 && a.Uint() != 1<<32-1 {
				q.rate, q.perFlow = 8*float64(a.Uint()), true
			}
		case "cake":
			if a.Type() == cakeBaseRate64 && len(v) == 8 {
				q.rate = 8 * float64(a.Uint())
			}
		case "netem":
			switch {
			case a.Type() == netemRate && len(v) >= 4 && q.rate == 0:
				q.rate = 8 * float64(native.Uint32(v))
			case a.Type() == netemRate64 && len(v) == 8:
				q.rate = 8 * float64(a.Uint())
			}
		}
	}
}

// qdiscs are those of one namespace.
type qdiscs struct {
	all      map[qdiscKey]*qdisc
	order    []*qdisc
	round    uint32
	changed  bool
	idle     bool    // all of them are noqueue, and the latest dump was complete
	htb      []int32 // devices that have one
	ask      netlink.Request
	askClass netlink.Request
	take     func(uint16, []byte) error
	restart  func()
}

func (s *qdiscs) open() {
	s.all = map[qdiscKey]*qdisc{}
	s.ask.Begin(unix.RTM_GETQDISC, 0)
	s.ask.Extend(sizeofTC)
	s.take, s.restart = s.takeOne, func() { s.htb = s.htb[:0] }
}

func (s *qdiscs) takeOne(typ uint16, payload []byte) error {
	if typ != unix.RTM_NEWQDISC && typ != unix.RTM_NEWTCLASS {
		return nil
	}
	key, ok := parseQdiscKey(payload, typ == unix.RTM_NEWTCLASS)
	if !ok {
		return nil
	}
	q := s.all[key]
	if q == nil {
		q = &qdisc{key: key, epoch: -1}
		s.all[key], s.changed = q, true
	}
	q.round = s.round
	kind, rate, ceil, caught := q.kind, q.rate, q.ceil, q.caught
	if err := parseQdisc(payload, q); err != nil {
		return err
	}
	if q.kind == "htb" && !key.class {
		s.htb = append(s.htb, key.index)
	}
	if q.kind != kind || q.rate != rate || q.ceil != ceil || q.caught != caught {
		s.changed = true
	}
	if q.kind != kind { // replaced by another with the same handle
		q.compared, q.epoch = 0, -1
	}
	return nil
}

// read dumps all of them and the classes of HTB with their counters, and differences these. still
// means that nothing was announced since the previous reading.
func (s *qdiscs) read(
	conn *netlink.Conn, links map[int32]*link, o *collect.Out, read uint32, still bool,
) error {
	s.round++
	if still && s.idle {
		// noqueue never has a packet (__dev_queue_xmit in net/core/dev.c), so its counters stay 0.
		for _, q := range s.order {
			q.round = s.round
			q.difference(o, true, read)
		}
		return nil
	}
	s.changed, s.idle, s.htb = false, false, s.htb[:0]
	err := conn.DumpRetry(&s.ask, 3, s.restart, s.take)
	interrupted := errors.Is(err, netlink.ErrInterrupted)
	if err != nil && !interrupted {
		return err
	}
	for _, index := range s.htb {
		s.askClass.Begin(unix.RTM_GETTCLASS, 0)
		native.PutUint32(s.askClass.Extend(sizeofTC)[4:], uint32(index))
		if err := conn.DumpRetry(&s.askClass, 3, s.restart, s.take); err != nil {
			interrupted = true // the device is being removed, or its classes are being changed
		}
	}
	for key, q := range s.all {
		if q.round != s.round && !interrupted || links[key.index] == nil {
			delete(s.all, key)
			s.changed = true
		}
	}
	if s.changed {
		s.order = s.order[:0]
		for _, q := range s.all {
			s.order = append(s.order, q)
		}
		slices.SortFunc(s.order, compareQdiscs)
	}
	s.idle = !interrupted
	for _, q := range s.order {
		s.idle = s.idle && q.kind == "noqueue"
		q.difference(o, q.round == s.round, read)
		if l := links[q.key.index]; l != q.link {
			q.link, q.epoch = l, -1
		}
	}
	if s.changed {
		s.shape(links)
	}
	return nil
}

func compareQdiscs(a, b *qdisc) int {
	if a.key.index != b.key.index {
		return int(a.key.index) - int(b.key.index)
	}
	if a.key.class != b.key.class {
		if b.key.class {
			return -1
		}
		return 1
	}
	if a.key.parent != b.key.parent {
		if a.key.parent > b.key.parent { // root, then ingress, then those below
			return -1
		}
		return 1
	}
	if a.key.handle < b.key.handle {
		return -1
	}
	return 1
}

func (q *qdisc) difference(o *collect.Out, seen bool, read uint32) {
	q.fresh = seen && (q.compared != 0 && q.compared == read-1 || o.First && o.SinceBoot)
	if q.fresh {
		d := &q.delta
		d.bytes = grown(o, q.last.bytes, q.now.bytes)
		d.packets = grown(o, q.last.packets, q.now.packets)
		d.drops = grown32(o, q.last.drops, q.now.drops)
		d.overlimits = grown32(o, q.last.overlimit, q.now.overlimit)
		d.requeues = grown32(o, q.last.requeues, q.now.requeues)
		// made again with the same handle: the other counters are not comparable either
		if q.now.bytes < q.last.bytes {
			d.packets, d.drops = measure.NaN, measure.NaN
			d.overlimits, d.requeues = measure.NaN, measure.NaN
		}
	}
	if seen {
		q.last, q.compared = q.now, read
	}
}

// grown32 is grown for a 32-bit counter of the kernel, which wraps on every machine. A step of more
// than half its range is a reset: there are not 2^31 events between two readings.
func grown32(o *collect.Out, last, now uint32) float64 {
	if d := now - last; d < 1<<31 {
		return float64(d)
	}
	o.MarkReset()
	return measure.NaN
}

// shape finds for each device the root discipline and the rate that its tree can reach.
func (s *qdiscs) shape(links map[int32]*link) {
	for _, l := range links {
		l.root, l.shaped = nil, 0
	}
	for _, q := range s.order {
		if l := q.link; l != nil && q.key.parent == tcRoot && !q.key.class {
			l.root, l.shaped = q, s.reach(q, 16)
		}
	}
}

// reach returns the bit/s that a discipline lets through at most, 0 if it sets no bound:
//
//   - tbf, cake and netem: their rate, or that of what is inside them
//   - mq and prio: the sum over their parts, if each has a bound
//   - HTB: the ceilings of its top classes, or what the classes and disciplines below let through
//     if that is less. It has a bound only if unclassified packets get into a class.
func (s *qdiscs) reach(q *qdisc, depth int) float64 {
	if depth == 0 {
		return 0
	}
	switch q.kind {
	case "tbf", "netem", "cake":
		bound := q.rate
		for _, c := range s.order {
			if c.below(q) && !c.key.class {
				if r := s.reach(c, depth-1); r > 0 && (bound == 0 || r < bound) {
					bound = r
				}
			}
		}
		return bound
	case "htb":
		return s.reachHTB(q, depth)
	case "mq", "mqprio", "prio", "multiq":
		var bound float64
		for _, c := range s.order {
			if c.below(q) && !c.key.class {
				r := s.reach(c, depth-1)
				if r == 0 {
					return 0
				}
				bound += r
			}
		}
		return bound
	}
	return 0
}

// mostLevels is how deep classes of HTB nest (TC_HTB_MAXDEPTH).
const mostLevels = 8

// reachHTB is reach for HTB. Only classes without classes send (htb_classify). So a class whose
// leaves together have a lower ceiling never reaches its own.
func (s *qdiscs) reachHTB(q *qdisc, depth int) float64 {
	var classes []*qdisc
	within := map[uint32]float64{} // of a class: what is inside lets through; missing: no bound
	caught := q.caught
	for _, c := range s.order {
		switch {
		case c.key.class && c.key.index == q.key.index &&
			c.key.handle&tcMajor == q.key.handle&tcMajor:
			classes = append(classes, c)
			caught = caught || c.key.handle&^tcMajor == q.fallback&^tcMajor
		case !c.key.class && c.below(q):
			if r := s.reach(c, depth-1); r > 0 {
				within[c.key.parent] = r
			}
		}
	}
	if !caught {
		return 0
	}
	through := func(c *qdisc) float64 {
		if w, ok := within[c.key.handle]; ok && w < c.ceil {
			return w
		}
		return c.ceil
	}
	var bound float64
	for range mostLevels { // from the leaves one level up each time
		bound = 0
		sums := map[uint32]float64{}
		for _, c := range classes {
			if c.key.parent == tcRoot || c.key.parent == q.key.handle {
				bound += through(c)
			} else {
				sums[c.key.parent] += through(c)
			}
		}
		if len(sums) == 0 {
			break
		}
		maps.Copy(within, sums)
	}
	return bound
}

// below reports whether q is attached to a class of p.
func (q *qdisc) below(p *qdisc) bool {
	return q != p && q.key.index == p.key.index && q.key.parent < tcIngress && p.key.handle != 0 &&
		q.key.parent&tcMajor == p.key.handle&tcMajor
}

type qdiscTables struct {
	bytes, packets, drops, overlimits, requeues, backlog, queue, rate *collect.Table
}

func qdiscTablesOf(o *collect.Out) qdiscTables {
	return qdiscTables{
		o.Table("net.qdisc.bytes"),
		o.Table("net.qdisc.packets"),
		o.Table("net.qdisc.drops"),
		o.Table("net.qdisc.overlimits"),
		o.Table("net.qdisc.requeues"),
		o.Table("net.qdisc.backlog"),
		o.Table("net.qdisc.queue"),
		o.Table("net.qdisc.rate"),
	}
}

func (t *qdiscTables) any() bool { return *t != qdiscTables{} }

func (t *qdiscTables) note(text string) {
	for _, one := range [...]*collect.Table{
		t.bytes, t.packets, t.drops, t.overlimits, t.requeues, t.backlog, t.queue, t.rate,
	} {
		one.Note(text)
	}
}

// emit puts the rows of all disciplines of a namespace.
func (s *qdiscs) emit(t *qdiscTables, o *collect.Out, read uint32) {
	for _, q := range s.order {
		l := q.link
		if q.round != s.round || l == nil || l.counted != read {
			continue
		}
		if q.epoch != o.Epoch || q.labels[1] != l.device {
			q.epoch = o.Epoch
			q.labels = [5]label{
				l.ns,
				l.device,
				o.Label(q.kind),
				o.Label(handleWord(q.key.handle)),
				o.Label(q.parentWord()),
			}
		}
		k := q.labels[:]
		if q.fresh {
			t.bytes.Put(q.delta.bytes, k...)
			t.packets.Put(q.delta.packets, k...)
			t.drops.Put(q.delta.drops, k...)
			t.overlimits.Put(q.delta.overlimits, k...)
			t.requeues.Put(q.delta.requeues, k...)
		}
		t.backlog.Put(float64(q.now.backlog), k...)
		t.queue.Put(float64(q.now.queue), k...)
		if bound := q.rate; bound > 0 || q.ceil > 0 {
			t.rate.Put(max(bound, q.ceil), k...)
		}
	}
}

// handleWord returns a handle in tc(8)'s spelling: "8001:" for a discipline, "1:10" for a class.
func handleWord(h uint32) string {
	s := strconv.FormatUint(uint64(h>>16), 16) + ":"
	if h&^tcMajor != 0 {
		s += strconv.FormatUint(uint64(h&^tcMajor), 16)
	}
	return s
}

// parentWord returns "root", "ingress" or the handle above. A class at the top of its discipline
// has that discipline's handle, so that parent = "root" selects one row for each device.
func (q *qdisc) parentWord() string {
	switch {
	case q.key.class && q.key.parent == tcRoot:
		return handleWord(q.key.handle & tcMajor)
	case q.key.parent == tcRoot:
		return "root"
	case q.key.parent == tcIngress:
		return "ingress"
	}
	return handleWord(q.key.parent)
}
