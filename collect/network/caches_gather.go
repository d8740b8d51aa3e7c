package network

import (
	"errors"
	"fmt"
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// gather counts the entries of the tables that are due.
func (t *tables) gather(o *collect.Out, now time.Time) error {
	slow := t.ticks%lateEvery == 1 // limits and sizes seldom change
	if slow && (t.sock6 == nil || t.trackCount == nil || t.maxTW == nil || t.tcpBuckets == nil) {
		_ = t.space.NetNS.In(func() error { t.late(); return nil }) // tried again later
	}
	if err := t.gatherSockets(now, slow); err != nil {
		return err
	}
	if v, ok := number(t.trackCount); ok {
		t.track.count(uint64(v), now)
		if slow {
			t.track.limit = positive(t.trackMax)
			if t.space.Own() { // all namespaces share the table
				t.track.buckets = positive(t.trackBuckets)
			}
		}
	}
	if t.space.Own() && t.neighbourPace.due(now) {
		t.gatherNeighbours(o, now)
	}
	if err := countRoutes(t.trie, &t.route, &t.routePace, parseTrieStat, now); err != nil {
		o.NoteAll("routes could not be counted: " + err.Error())
	}
	if err := countRoutes(t.rt6, &t.route6, &t.route6Pace, parseRT6Stats, now); err != nil {
		o.NoteAll("IPv6 routes could not be counted: " + err.Error())
	}
	if t.fdbPace.due(now) {
		t.gatherBridges(o, now)
	}
	return nil
}

// gatherNeighbours reads the sizes of the machine's neighbour tables.
func (t *tables) gatherNeighbours(o *collect.Out, now time.Time) {
	began := time.Now()
	t.answered = [2]neighbourTable{}
	err := t.routes.Dump(&t.askNeighbours, t.onNeighbours)
	t.neighbourPace.took(began)
	if err != nil && !errors.Is(err, netlink.ErrInterrupted) {
		o.NoteAll("neighbour tables could not be read: " + err.Error())
	}
	for i, s := range [...]*tableState{&t.neighbour, &t.neighbour6} {
		k := t.answered[i]
		if !k.ok {
			continue
		}
		s.count(uint64(k.entries), now)
		s.buckets, s.limit = float64(k.buckets), float64(k.limit)
		if k.counts {
			s.refused.count(k.refused)
		}
		if k.collects {
			s.collected.count(k.collected)
		}
	}
}

// countRoutes counts the routes in a file, if it is there and its pace allows.
func countRoutes(
	f *proc.File, to *tableState, p *pace, parse func([]byte) (uint64, error), now time.Time,
) error {
	if f == nil || !p.due(now) {
		return nil
	}
	began := time.Now()
	var v uint64
	b, err := f.ReadOne()
	if err == nil {
		if v, err = parse(b); err == nil {
			to.count(v, now)
		}
	}
	p.took(began)
	return err
}

// gatherBridges counts the forwarding entries of bridges.
func (t *tables) gatherBridges(o *collect.Out, now time.Time) {
	began := time.Now()
	t.fdbEntries = 0
	err := t.routes.DumpRetry(&t.askFDB, 3, t.dropFDB, t.onFDB)
	t.fdbPace.took(began)
	switch {
	// no row if there has never been a bridge
	case err == nil && (t.fdbEntries > 0 || t.fdb.entries > 0):
		t.fdb.count(t.fdbEntries, now)
	case err == nil, errors.Is(err, netlink.ErrInterrupted), errors.Is(err, measure.ErrUnsupported):
	default:
		o.NoteAll("forwarding tables of bridges could not be read: " + err.Error())
	}
}

// gatherSockets reads the numbers of sockets. Namespaces share the machine's established table,
// except those that were created with their own (net.ipv4.tcp_child_ehash_entries).
// tcp_ehash_entries is negative in those that share it.
func (t *tables) gatherSockets(now time.Time, slow bool) error {
	var c socketCounts
	for _, f := range [...]*proc.File{t.sock4, t.sock6} {
		if f == nil {
			continue
		}
		b, err := f.ReadOne()
		if err == nil {
			err = parseSockstat(b, c.take)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Path(), err)
		}
	}
	six := t.sock6 != nil // without IPv6 it has no sockets
	t.established.countIf(c.tcp.ok && c.tw.ok && (c.tcp6.ok || !six), c.tcp.n+c.tcp6.n+c.tw.n, now)
	t.timewait.countIf(c.tw.ok, c.tw.n, now)
	t.udp.countIf(c.udp.ok && (c.udp6.ok || !six), c.udp.n+c.udp6.n+c.lite.n, now)
	if t.space.Own() {
		t.orphan.countIf(c.orphan.ok, c.orphan.n, now)
		if t.initial {
			t.sockets.countIf(c.alloc.ok, c.alloc.n, now)
		}
	}
	if slow {
		t.established.buckets, t.udp.buckets = positive(t.tcpBuckets), positive(t.udpBuckets)
		t.sockets.buckets = t.established.buckets
		t.timewait.limit, t.orphan.limit = positive(t.maxTW), positive(t.maxOrphans)
	}
	return nil
}

// number reads a file of one number; ok is false if there is none.
func number(f *proc.File) (v int64, ok bool) {
	if f == nil {
		return 0, false
	}
	b, err := f.ReadOne()
	if err != nil {
		return 0, false
	}
	c := proc.Scan(b)
	v = c.Int()
	return v, c.Err() == nil
}

// positive is number for sizes: NaN if unknown or not above zero.
func positive(f *proc.File) float64 {
	if v, ok := number(f); ok && v > 0 {
		return float64(v)
	}
	return measure.NaN
}

// takeNeighbours parses RTM_NEWNEIGHTBL. The message also comes for each device, with parameters
// that are not used.
func (t *tables) takeNeighbours(_ uint16, payload []byte) error {
	if name, k := parseNeighbourTable(payload); k.ok {
		switch string(name) {
		case "arp_cache":
			t.answered[0] = k
		case "ndisc_cache":
			t.answered[1] = k
		}
	}
	return nil
}

// takeFDB counts forwarding entries of bridges. Entries with NTF_SELF are a device's own address
// lists, or VXLAN's tables.
func (t *tables) takeFDB(typ uint16, payload []byte) error {
	if typ == unix.RTM_NEWNEIGH && len(payload) >= unix.SizeofNdMsg &&
		payload[10]&unix.NTF_SELF == 0 {
		t.fdbEntries++
	}
	return nil
}
