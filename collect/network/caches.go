package network

import (
	"fmt"
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
	space   *collect.Namespace[*tables]
	routes  *netlink.Conn
	ticks   int
	initial bool // the machine's first namespace: it has the machine's tables
	socketSizes
	trackTable
	neighbourTables
	routeTables
	bridgeTable
}

// socketSizes are the tables of sockets. A file is nil while this kernel does not have it.
type socketSizes struct {
	sock4, sock6           *proc.File
	tcpBuckets, udpBuckets *proc.File
	maxTW, maxOrphans      *proc.File

	established, timewait, orphan, sockets, udp tableState
}

// trackTable is the table of connection tracking; the files are nil until its module is loaded.
type trackTable struct {
	trackCount, trackMax, trackBuckets *proc.File
	track                              tableState
}

// neighbourTables are those of the machine, for IPv4 and IPv6.
type neighbourTables struct {
	neighbour, neighbour6 tableState
	neighbourPace         pace
	askNeighbours         netlink.Request
	onNeighbours          func(uint16, []byte) error
	answered              [2]neighbourTable // of the latest dump
}

// routeTables are the routes of IPv4 and IPv6. A file is nil if this kernel does not have it.
type routeTables struct {
	trie, rt6             *proc.File
	route, route6         tableState
	routePace, route6Pace pace
}

// bridgeTable has the forwarding entries of all bridges.
type bridgeTable struct {
	fdb        tableState
	fdbPace    pace
	askFDB     netlink.Request
	onFDB      func(uint16, []byte) error
	dropFDB    func()
	fdbEntries uint64 // in the dump so far
}

// states returns the tables in the order of their rows.
func (t *tables) states() [11]*tableState {
	return [...]*tableState{
		&t.established, &t.timewait, &t.orphan, &t.sockets, &t.udp, &t.track,
		&t.neighbour, &t.neighbour6, &t.route, &t.route6, &t.fdb,
	}
}

func openTables(s *collect.Namespace[*tables]) (*tables, error) {
	t := &tables{space: s}
	for i, name := range [...]string{
		"tcp-established", "tcp-timewait", "tcp-orphan", "tcp-sockets", "udp", "conntrack",
		"neighbour", "neighbour6", "route", "route6", "fdb",
	} {
		*t.states()[i] = tableState{
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
	t.onNeighbours, t.onFDB = t.takeNeighbours, t.takeFDB
	t.dropFDB = func() { t.fdbEntries = 0 }
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
	open(&t.trackBuckets, "sys/net/netfilter/nf_conntrack_buckets")
}

func (t *tables) shut() {
	t.routes.Close()
	for _, f := range [...]*proc.File{
		t.sock4, t.sock6, t.trie, t.rt6, t.tcpBuckets, t.udpBuckets, t.maxTW, t.maxOrphans,
		t.trackCount, t.trackMax, t.trackBuckets,
	} {
		f.Close()
	}
}

// Close implements Reading.
func (n *netCaches) Close() { n.spaces.Shut() }

// Read implements Reading.
func (n *netCaches) Read(o *collect.Out) error {
	rows := cacheRows{
		entries:   o.Table("cache.entries"),
		buckets:   o.Table("cache.buckets"),
		limit:     o.Table("cache.limit"),
		growth:    o.Table("cache.growth"),
		refused:   o.Table("cache.refusals"),
		collected: o.Table("cache.collections"),
	}
	if n.noBuckets != "" {
		rows.buckets.Note(n.noBuckets)
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
		rows.put(o, s.Label(o), t)
	}
	if read == 0 {
		return failed
	}
	return nil
}

// cacheRows are the tables of the statistics; nil: not wanted.
type cacheRows struct{ entries, buckets, limit, growth, refused, collected *collect.Table }

// put puts the rows and the notes of a namespace.
func (r *cacheRows) put(o *collect.Out, ns label, t *tables) {
	if t.established.entries != t.established.entries || t.udp.entries != t.udp.entries {
		const why = "/proc/net/sockstat does not have the number of TCP or UDP sockets"
		r.entries.Lacks(why)
		r.growth.Lacks(why)
	}
	for _, c := range t.states() {
		if c.entries != c.entries {
			continue // not in this kernel, or not of this namespace
		}
		if c.epoch != o.Epoch {
			c.epoch, c.label = o.Epoch, o.Label(c.name)
		}
		r.entries.Put(c.entries, ns, c.label)
		if c.buckets > 0 {
			r.buckets.Put(c.buckets, ns, c.label)
		}
		if c.limit > 0 {
			r.limit.Put(c.limit, ns, c.label)
		}
		if !o.First { // since boot: the time in which it grew is not known
			r.growth.Put(c.growth(o.Over().Span()), ns, c.label)
		}
		if c.refused.counted > 0 && !o.First {
			r.refused.Put(c.refused.since(), ns, c.label)
		}
		if c.collected.counted > 0 && !o.First {
			r.collected.Put(c.collected.since(), ns, c.label)
		}
		c.counted = false
	}
	for _, p := range [...]struct {
		pace *pace
		what string
	}{
		{&t.routePace, "the IPv4 routes"},
		{&t.route6Pace, "the IPv6 routes"},
		{&t.fdbPace, "the entries of bridges"},
		{&t.neighbourPace, "the neighbours"},
	} {
		if p.pace.rests {
			note := p.what + " are counted only now and then, because there are many"
			r.entries.Note(note)
			r.growth.Note(note)
		}
	}
}
