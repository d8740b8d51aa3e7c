package network

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"culprit/collect"
	"culprit/kernel/feature"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Tables reads the sizes of the kernel's network tables: TCP and UDP sockets, connection tracking,
// neighbours, routes, forwarding entries of bridges. If the kernel must walk a table to count it,
// and that takes long, it is counted less often.
type Tables struct{}

// Stats returns the statistics of kernel caches. Their field cache has these values:
//
//   - tcp-established: listening sockets and those in the established table, including TIME-WAIT
//   - tcp-timewait, tcp-orphan, udp
//   - tcp-sockets: all TCP sockets of the machine, whose established table the namespaces share
//     unless they have their own
//   - conntrack, route, route6, fdb
//   - neighbour and neighbour6: of the whole machine
func (Tables) Stats() []measure.Stat { return collect.CacheStats() }

// Open opens the files and sockets of each network namespace. It needs no capability. An error
// means that nothing can be measured. The caller closes the Reading.
func (Tables) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	n := &netCaches{}
	if since := feature.FileSince(env.Root, tcpBucketsFile); since != "" {
		n.noBuckets = "buckets of TCP's and UDP's tables are unknown: this kernel does not " +
			"show them, " + since
	}
	n.spaces = collect.PerNamespace[*tables]{Env: env, Open: openTables, Close: (*tables).shut}
	if err := n.spaces.Start(); err != nil {
		return nil, err
	}
	return n, nil
}

type netCaches struct {
	spaces    collect.PerNamespace[*tables]
	noBuckets string // why the buckets of TCP's tables are unknown; "": the kernel is new enough
}

// tables are those of one namespace.
type tables struct {
	space                        *collect.Namespace[*tables]
	routes                       *netlink.Conn
	sock4, sock6, trie, rt6      *proc.File
	tcpBuckets, udpBuckets       *proc.File
	trackCount, trackMax, trackN *proc.File
	maxTW, maxOrphans            *proc.File
	ticks                        int
	initial                      bool // the machine's first namespace: it has the machine's tables

	established, timewait, orphan, sockets, udp, track, neighbour, neighbour6, route, route6, fdb tableState

	neighbourPace, routePace, route6Pace, fdbPace pace
	askNeighbours, askFDB                         netlink.Request
	onNeighbours, onFDB                           func(uint16, []byte) error
	dropFDB                                       func()
	fdbEntries                                    uint64
	neighbourTables                               [2]neighbourTable
}

// tableState is one table, now and at the previous reading. NaN means not known.
type tableState struct {
	name                    string
	entries, buckets, limit float64
	counted                 bool      // in this reading
	at, lastAt              time.Time // when entries was counted, and the time before
	last                    float64   // entries at lastAt
	refused, collected      sinceBoot
	epoch                   int
	label                   label
}

// sinceBoot is a number that the kernel counts of a table since boot: entries that it refused
// because the table was full, or searches for unused entries.
type sinceBoot struct {
	now, last uint64
	counted   int // how often it was read; the latest two numbers are kept
	fresh     bool
}

// count stores a number since boot.
func (r *sinceBoot) count(n uint64) {
	r.last, r.now, r.fresh = r.now, n, true
	r.counted++
}

// since returns the growth between the latest two readings; NaN if this interval has none.
func (r *sinceBoot) since() float64 {
	fresh := r.fresh
	r.fresh = false
	if !fresh || r.counted < 2 || r.now < r.last {
		return measure.NaN
	}
	return float64(r.now - r.last)
}

// count stores a number of entries.
func (s *tableState) count(entries uint64, now time.Time) {
	s.last, s.lastAt = s.entries, s.at
	s.entries, s.at, s.counted = float64(entries), now, true
}

// countIf is count if the number is known; otherwise the entries become unknown.
func (s *tableState) countIf(known bool, entries uint64, now time.Time) {
	if known {
		s.count(entries, now)
	} else {
		s.entries, s.at, s.counted = measure.NaN, time.Time{}, false
	}
}

// growth returns the change of the entries in an interval of length over. If they are counted less
// often than read, it is the interval's share of the change.
func (s *tableState) growth(over measure.Span) float64 {
	switch took := s.at.Sub(s.lastAt); {
	case !s.counted || s.lastAt.IsZero():
		return measure.NaN
	case took.Seconds() > 1.5*over.Seconds() && took > 0:
		return (s.entries - s.last) * over.Seconds() / took.Seconds()
	}
	return s.entries - s.last
}

// pace limits expensive work to 0.1 % of a CPU: after work of duration t it pauses for 1000 t. It
// uses the shorter of the latest two durations, since one may have been long because other threads
// had the CPU.
type pace struct {
	next  time.Time
	last  time.Duration
	rests bool // the pause is longer than a second: worth a note
}

func (p *pace) due(now time.Time) bool { return !now.Before(p.next) }

// took stores the time since began as the duration.
func (p *pace) took(began time.Time) { p.spent(began, time.Since(began)) }

func (p *pace) spent(began time.Time, took time.Duration) {
	cost := min(took, p.last)
	p.last = took
	p.rests = cost > 2*time.Millisecond
	p.next = began
	if cost > 500*time.Microsecond {
		p.next = began.Add(min(1000*cost, 10*time.Minute))
	}
}

func openTables(s *collect.Namespace[*tables]) (*tables, error) {
	t := &tables{space: s}
	for name, state := range map[string]*tableState{"tcp-established": &t.established, "tcp-timewait": &t.timewait,
		"tcp-orphan": &t.orphan, "tcp-sockets": &t.sockets, "udp": &t.udp, "conntrack": &t.track, "neighbour": &t.neighbour,
		"neighbour6": &t.neighbour6, "route": &t.route, "route6": &t.route6, "fdb": &t.fdb} {
		*state = tableState{
			name:    name,
			entries: measure.NaN,
			buckets: measure.NaN,
			limit:   measure.NaN,
			epoch:   -1,
		}
	}
	var err error
	if t.sock4, err = s.OpenProc("net/sockstat"); err != nil {
		return nil, err
	}
	if t.routes, err = netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{Strict: true}); err != nil {
		t.shut()
		return nil, err
	}
	// only there (neigh_sysctl_register)
	thresh, err := s.OpenProc("sys/net/ipv4/neigh/default/gc_thresh3")
	t.initial = err == nil
	thresh.Close()
	t.askNeighbours.Begin(unix.RTM_GETNEIGHTBL, 0)
	t.askNeighbours.Extend(sizeofNeighbourTable)
	t.askFDB.Begin(unix.RTM_GETNEIGH, 0)
	t.askFDB.Extend(unix.SizeofNdMsg)[0] = unix.AF_BRIDGE
	t.onNeighbours, t.onFDB, t.dropFDB = t.takeNeighbours, t.takeFDB, func() { t.fdbEntries = 0 }
	return t, nil
}

// tcpBucketsFile has the buckets of the namespace's table of connections. A negative number means
// that it uses the table of the machine.
const tcpBucketsFile = "sys/net/ipv4/tcp_ehash_entries"

// late opens what may appear later, with a module.
func (t *tables) late() {
	open := func(at **proc.File, name string) {
		if *at == nil {
			*at, _ = t.space.OpenProc(name) // not in this kernel, or not loaded yet
		}
	}
	open(&t.sock6, "net/sockstat6")
	open(&t.trie, "net/fib_triestat")
	open(&t.rt6, "net/rt6_stats")
	open(&t.tcpBuckets, tcpBucketsFile)                  // since Linux 6.1
	open(&t.udpBuckets, "sys/net/ipv4/udp_hash_entries") // since Linux 6.2
	open(&t.maxTW, "sys/net/ipv4/tcp_max_tw_buckets")
	open(&t.maxOrphans, "sys/net/ipv4/tcp_max_orphans")
	open(&t.trackCount, "sys/net/netfilter/nf_conntrack_count")
	open(&t.trackMax, "sys/net/netfilter/nf_conntrack_max")
	open(&t.trackN, "sys/net/netfilter/nf_conntrack_buckets")
}

func (t *tables) shut() {
	t.routes.Close()
	for _, f := range [...]*proc.File{t.sock4, t.sock6, t.trie, t.rt6, t.tcpBuckets, t.udpBuckets, t.maxTW, t.maxOrphans, t.trackCount, t.trackMax, t.trackN} {
		f.Close()
	}
}

// Close implements Reading.
func (n *netCaches) Close() { n.spaces.Shut() }

// Read implements Reading.
func (n *netCaches) Read(o *collect.Out) error {
	entries, buckets, limit, growth := o.Table("cache.entries"), o.Table(
		"cache.buckets",
	), o.Table("cache.limit"), o.Table(
		"cache.growth",
	)
	refused, collected := o.Table("cache.refusals"), o.Table("cache.collections")
	if n.noBuckets != "" {
		buckets.Note(n.noBuckets)
	}
	now := time.Now()
	var failed error
	read := 0
	for _, s := range n.spaces.Follow(o) {
		t := s.Data
		t.ticks++
		if err := t.gather(o, now); err != nil {
			failed = fmt.Errorf("read network tables%s: %w", s.Of(), err)
			o.NoteAll(failed.Error())
			continue
		}
		read++
		if t.established.entries != t.established.entries || t.udp.entries != t.udp.entries {
			const why = "/proc/net/sockstat does not have the number of TCP or UDP sockets"
			entries.Lacks(why)
			growth.Lacks(why)
		}
		ns := s.Label(o)
		for _, c := range [...]*tableState{&t.established, &t.timewait, &t.orphan, &t.sockets, &t.udp, &t.track, &t.neighbour, &t.neighbour6,
			&t.route, &t.route6, &t.fdb} {
			if c.entries != c.entries {
				continue // not in this kernel, or not of this namespace
			}
			if c.epoch != o.Epoch {
				c.epoch, c.label = o.Epoch, o.Label(c.name)
			}
			entries.Put(c.entries, ns, c.label)
			if c.buckets > 0 {
				buckets.Put(c.buckets, ns, c.label)
			}
			if c.limit > 0 {
				limit.Put(c.limit, ns, c.label)
			}
			if !o.First { // since boot: the time in which it grew is not known
				growth.Put(c.growth(o.Over().Span()), ns, c.label)
			}
			if c.refused.counted > 0 && !o.First {
				refused.Put(c.refused.since(), ns, c.label)
			}
			if c.collected.counted > 0 && !o.First {
				collected.Put(c.collected.since(), ns, c.label)
			}
			c.counted = false
		}
		for _, p := range [...]struct {
			pace *pace
			what string
		}{{&t.routePace, "the IPv4 routes"}, {&t.route6Pace, "the IPv6 routes"}, {&t.fdbPace, "the entries of bridges"}, {&t.neighbourPace, "the neighbours"}} {
			if p.pace.rests {
				note := p.what + " are so many that they are counted only now and then"
				entries.Note(note)
				growth.Note(note)
			}
		}
	}
	if read == 0 {
		return failed
	}
	return nil
}

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
				t.track.buckets = positive(t.trackN)
			}
		}
	}
	if t.space.Own() && t.neighbourPace.due(now) {
		began := time.Now()
		t.neighbourTables = [2]neighbourTable{}
		err := t.routes.Dump(&t.askNeighbours, t.onNeighbours)
		t.neighbourPace.took(began)
		if err != nil && !errors.Is(err, netlink.ErrInterrupted) {
			o.NoteAll("neighbour tables could not be read: " + err.Error())
		}
		for i, s := range [...]*tableState{&t.neighbour, &t.neighbour6} {
			if k := t.neighbourTables[i]; k.ok {
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
	}
	if t.trie != nil && t.routePace.due(now) {
		began := time.Now()
		b, err := t.trie.ReadOne()
		if err == nil {
			var v uint64
			if v, err = parseTrieStat(b); err == nil {
				t.route.count(v, now)
			}
		}
		t.routePace.took(began)
		if err != nil {
			o.NoteAll("routes could not be counted: " + err.Error())
		}
	}
	if t.rt6 != nil && t.route6Pace.due(now) {
		began := time.Now()
		b, err := t.rt6.ReadOne()
		if err == nil {
			var v uint64
			if v, err = parseRT6Stats(b); err == nil {
				t.route6.count(v, now)
			}
		}
		t.route6Pace.took(began)
		if err != nil {
			o.NoteAll("IPv6 routes could not be counted: " + err.Error())
		}
	}
	if t.fdbPace.due(now) {
		began := time.Now()
		t.fdbEntries = 0
		err := t.routes.DumpRetry(&t.askFDB, 3, t.dropFDB, t.onFDB)
		t.fdbPace.took(began)
		switch {
		// no row if there has never been a bridge
		case err == nil && (t.fdbEntries > 0 || t.fdb.entries > 0):
			t.fdb.count(t.fdbEntries, now)
		case err != nil && !errors.Is(err, netlink.ErrInterrupted) && !errors.Is(err, measure.ErrUnsupported):
			o.NoteAll("forwarding tables of bridges could not be read: " + err.Error())
		}
	}
	return nil
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

// socketCounts are the numbers of sockets in sockstat and sockstat6. UDP-Lite, which some kernels
// lack, is part of UDP.
type socketCounts struct {
	tcp, tcp6, tw, orphan, alloc, udp, udp6, lite struct {
		n  uint64
		ok bool
	}
}

func (c *socketCounts) take(protocol, state []byte, v uint64) {
	to := &c.lite
	switch string(protocol) + " " + string(state) {
	case "TCP inuse":
		to = &c.tcp
	case "TCP6 inuse":
		to = &c.tcp6
	case "TCP tw":
		to = &c.tw
	case "TCP orphan":
		to = &c.orphan
	case "TCP alloc":
		to = &c.alloc
	case "UDP inuse":
		to = &c.udp
	case "UDP6 inuse":
		to = &c.udp6
	case "UDPLITE inuse", "UDPLITE6 inuse":
	default:
		return
	}
	to.n, to.ok = to.n+v, true
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

const sizeofNeighbourTable = 4 // struct ndtmsg, include/uapi/linux/neighbour.h

// neighbourTable is one neighbour table of the machine.
type neighbourTable struct {
	ok                      bool
	entries, buckets, limit uint32
	counts, collects        bool // the kernel counts refusals, and forced collections
	refused, collected      uint64
}

// takeNeighbours parses RTM_NEWNEIGHTBL. The message also comes for each device, with parameters
// that are not used.
func (t *tables) takeNeighbours(_ uint16, payload []byte) error {
	if name, k := parseNeighbourTable(payload); k.ok {
		switch string(name) {
		case "arp_cache":
			t.neighbourTables[0] = k
		case "ndisc_cache":
			t.neighbourTables[1] = k
		}
	}
	return nil
}

// parseNeighbourTable parses three attributes (include/uapi/linux/neighbour.h):
//
//   - NDTA_NAME 1 and NDTA_THRESH3 4
//   - NDTA_CONFIG 5: struct ndt_config of u16 key_len, entry_size, u32 entries, last_flush,
//     last_rand, hash_rnd, hash_mask
//   - NDTA_STATS 7: struct ndt_stats of eleven u64. The last two are forced_gc_runs and, since
//     Linux 4.3, table_fulls.
func parseNeighbourTable(payload []byte) (name []byte, t neighbourTable) {
	for a := netlink.AttrsOf(payload[min(sizeofNeighbourTable, len(payload)):]); a.Next(); {
		switch v := a.Value(); {
		case a.Type() == 1:
			name = a.Text()
		case a.Type() == 4 && len(v) == 4:
			t.limit = native.Uint32(v)
		case a.Type() == 5 && len(v) >= 24:
			t.entries, t.buckets, t.ok = native.Uint32(v[4:]), native.Uint32(v[20:])+1, true
		case a.Type() == 7 && len(v) >= 80:
			t.collected, t.collects = native.Uint64(v[72:]), true
			if len(v) >= 88 {
				t.refused, t.counts = native.Uint64(v[80:]), true
			}
		}
	}
	return name, t
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

// parseTrieStat adds up the prefixes of all routing tables in /proc/net/fib_triestat. Main and
// Local are one trie until a rule is added (fib_unmerge). The file then shows it twice with the
// same statistics, and it counts once.
func parseTrieStat(b []byte) (prefixes uint64, err error) {
	var local, main []byte
	var localCount, mainCount uint64
	var at *uint64
	var body *[]byte
	other := uint64(0)
	for c := proc.Scan(b); !c.End(); {
		line := c.Line()
		switch {
		case len(line) == 0 || bytes.HasPrefix(line, []byte("Basic info")):
		case line[0] != '\t' && line[0] != ' ' && line[len(line)-1] == ':':
			start := c.Rest()
			switch string(line) {
			case "Local:":
				at, body, local = &localCount, &local, start[:0]
			case "Main:":
				at, body, main = &mainCount, &main, start[:0]
			default:
				at, body = &other, nil
			}
		default:
			if body != nil {
				*body = (*body)[:len(*body)+len(line)+min(1, len(c.Rest()))]
			}
			w := proc.Scan(line)
			if string(w.Word()) == "Prefixes:" && at != nil {
				*at += w.Uint()
				if err := w.Err(); err != nil {
					return 0, fmt.Errorf("%.40q: %w", line, err)
				}
			}
		}
	}
	if at == nil {
		return 0, fmt.Errorf("no routing table in it: %w", measure.ErrUnclear)
	}
	prefixes = other + mainCount
	if local != nil && !bytes.Equal(bytes.TrimRight(local, "\n"), bytes.TrimRight(main, "\n")) {
		prefixes += localCount
	}
	return prefixes, nil
}

// parseRT6Stats returns the routes in /proc/net/rt6_stats, the fourth of its hexadecimal numbers
// (rt6_stats_seq_show: fib_nodes, route_nodes, rt_alloc, rt_entries ...).
func parseRT6Stats(b []byte) (uint64, error) {
	c := proc.Scan(b)
	c.Skip(3)
	v := c.Hex()
	return v, c.Err()
}

// pageSize returns the machine's page size, in which the kernel counts socket memory.
func pageSize() float64 { return float64(os.Getpagesize()) }
