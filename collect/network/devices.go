package network

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

var errShort = errors.New("message cut short")

// label is short for measure.Label.
type label = measure.Label

// stillFacts is how long facts that change without an event are used: those of ethtool, routes,
// filters and sockets.
const stillFacts = 5 * time.Second

// Devices reads network devices by rtnetlink(7). It reads counters each interval by RTM_GETSTATS.
// It reads facts (names, masters, MACs, addresses) again only after the kernel announced a change.
// Other files of this package have queueing disciplines, ethtool and uses.
type Devices struct{}

// words returns fields of type Word.
func words(names ...string) []measure.Field {
	help := func(name string) string {
		switch name {
		case "netns":
			return "network namespace; empty is the tool's own"
		case "device":
			return "network device"
		case "direction":
			return "rx or tx, from the device's point of view"
		case "protocol":
			return "protocol, named as in /proc/net/snmp and netstat"
		case "counter":
			return "counter, in the kernel's spelling"
		}
		return ""
	}
	out := make([]measure.Field, len(names))
	for i, n := range names {
		out[i] = measure.Field{Name: n, Type: measure.Word, Help: help(n)}
	}
	return out
}

// Stats implements Collector.
func (Devices) Stats() []measure.Stat {
	directed, plain := words("netns", "device", "direction"), words("netns", "device")
	queued := words("netns", "device", "kind", "handle", "parent")
	delta := func(id string, unit measure.Unit, fields []measure.Field, help string) measure.Stat {
		return measure.Stat{
			ID:     measure.StatID(id),
			Kind:   measure.Delta,
			Unit:   unit,
			Fields: fields,
			Help:   help,
		}
	}
	level := func(id string, unit measure.Unit, fold measure.Fold, fields []measure.Field, help string) measure.Stat {
		return measure.Stat{
			ID:     measure.StatID(id),
			Kind:   measure.Level,
			Unit:   unit,
			Fold:   fold,
			Fields: fields,
			Help:   help,
		}
	}
	sparse := func(s measure.Stat) measure.Stat { s.Sparse = true; return s }
	return []measure.Stat{
		delta("net.device.bytes", measure.Bytes, directed, "bytes through a device, including "+
			"link headers (rtnl_link_stats64)"),
		delta("net.device.packets", measure.Packets, directed, "packets through a device; a "+
			"GSO or GRO super-frame is one (rtnl_link_stats64)"),
		delta("net.device.errors", measure.Packets, directed, "rx_errors, tx_errors of "+
			"rtnl_link_stats64"),
		delta("net.device.drops", measure.Packets, directed, "rx_dropped + rx_missed_errors, "+
			"tx_dropped of rtnl_link_stats64, added up as in /proc/net/dev"),
		delta("net.device.fifo", measure.Packets, directed, "rx_fifo_errors, tx_fifo_errors of "+
			"rtnl_link_stats64"),
		delta("net.device.nohandler", measure.Packets, plain, "rx_nohandler: packets to an "+
			"inactive port"),
		delta("net.device.collisions", measure.Packets, plain, "collisions of rtnl_link_stats64"),
		delta("net.device.multicast", measure.Packets, plain, "multicast packets received"),
		delta("net.device.carrier", measure.Events, plain, "times that the carrier came or "+
			"went (IFLA_CARRIER_CHANGES)"),
		sparse(
			delta(
				"net.device.errors.detail", measure.Packets,
				words("netns", "device", "direction", "reason"),
				"kinds of errors and drops of rtnl_link_stats64, including missed and otherhost",
			),
		),
		delta("net.device.wire", measure.Bytes, directed, wireHelp),
		level("net.device.speed", measure.BitsPerSec, measure.Max, plain,
			"negotiated speed (ethtool); no row if it is unknown, or invented by a driver like "+
				"the 10 Gbit/s of every veth"),
		level(
			"net.device.capacity",
			measure.BitsPerSec,
			measure.Max,
			words("netns", "device", "direction", "from"),
			"what the device can carry: the smaller of its speed and the rate of its queueing "+
				"disciplines; NaN with from unknown if neither is known",
		),
		level(
			"net.device.info",
			measure.Count,
			measure.Max,
			words(
				"netns", "device", "index", "kind", "driver", "mac", "admin", "state", "duplex",
				"autoneg", "mtu", "master", "lower", "rxqueues", "txqueues", "flags",
			),
			"facts of a device (RTM_GETLINK, ethtool); 1",
		),
		level(
			"net.device.address", measure.Count, measure.Max,
			words("netns", "device", "family", "address", "prefix", "scope"),
			"IP addresses (RTM_GETADDR); 1",
		),
		level(
			"net.device.modes",
			measure.BitsPerSec,
			measure.Max,
			words("netns", "device", "list", "mode"),
			"link modes that the device supports, advertises, and that its link partner "+
				"advertises (ethtool)",
		),
		level(
			"net.ring.size", measure.Count, measure.Sum, words("netns", "device", "ring", "bound"),
			"descriptors of a ring: rx or tx, current or max (ethtool)",
		),
		level(
			"net.device.uses", measure.Count, measure.Sum, words("netns", "device", "use"),
			usesHelp,
		),
		sparse(
			delta(
				"net.driver.count", measure.Events, words("netns", "device", "counter"),
				"the driver's own counters (ethtool -S) that grew",
			),
		),
		delta("net.qdisc.bytes", measure.Bytes, queued, "bytes through a queueing discipline "+
			"or HTB class, each segment of a super-frame with its headers (RTM_GETQDISC); "+
			"disciplines nest: parent = \"root\" has the device's sum"),
		delta("net.qdisc.packets", measure.Packets, queued, "segments through a queueing "+
			"discipline or HTB class; disciplines nest: parent = \"root\" has the device's sum"),
		delta("net.qdisc.drops", measure.Packets, queued, "packets that a queueing discipline "+
			"dropped; disciplines nest: parent = \"root\" has the device's sum"),
		delta("net.qdisc.overlimits", measure.Events, queued, "times that a queueing "+
			"discipline delayed packets because of its rate"),
		delta("net.qdisc.requeues", measure.Events, queued, "packets that the device did not "+
			"accept and that were queued again"),
		level("net.qdisc.backlog", measure.Bytes, measure.Sum, queued, "bytes waiting; "+
			"disciplines nest: parent = \"root\" has the device's sum"),
		level("net.qdisc.queue", measure.Packets, measure.Sum, queued, "packets waiting; "+
			"disciplines nest: parent = \"root\" has the device's sum"),
		level("net.qdisc.rate", measure.BitsPerSec, measure.Max, queued, "configured rate of a "+
			"shaper: tbf, cake, netem; the ceiling of an HTB class; the maxrate of fq, which "+
			"applies to each flow"),
	}
}

// Open opens the sockets of each network namespace. It needs no capability. An error means that
// nothing can be measured. The caller closes the Reading.
func (Devices) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	n := &netDevices{want: want}
	n.spaces = collect.PerNamespace[*devices]{Env: env, Open: n.openSpace, Close: (*devices).shut}
	if err := n.spaces.Start(); err != nil {
		return nil, err
	}
	return n, nil
}

// netDevices is the Reading of Devices.
type netDevices struct {
	want   collect.Want
	spaces collect.PerNamespace[*devices]
	reads  uint32

	related int // spaces.Matches when devices were last linked to those below them

	epoch  int // of the labels below
	rx, tx label
	from   [3]label     // sources of a capacity: see boundWords
	out    *collect.Out // the Out that the tables belong to
	tables deviceTables
	queues qdiscTables
	room   scratch
}

type deviceTables struct {
	bytes, packets, errors, drops, fifo, nohandler, collisions, multicast, carrier, detail *collect.Table
	wire, speed, capacity, info, address, modes, ring, uses, driver                        *collect.Table
}

func tablesOf(o *collect.Out) deviceTables {
	return deviceTables{
		bytes: o.Table(
			"net.device.bytes",
		), packets: o.Table("net.device.packets"), errors: o.Table("net.device.errors"),
		drops: o.Table(
			"net.device.drops",
		), fifo: o.Table("net.device.fifo"), nohandler: o.Table("net.device.nohandler"),
		collisions: o.Table("net.device.collisions"), multicast: o.Table("net.device.multicast"),
		carrier: o.Table(
			"net.device.carrier",
		), detail: o.Table("net.device.errors.detail"), wire: o.Table("net.device.wire"),
		speed: o.Table(
			"net.device.speed",
		), capacity: o.Table("net.device.capacity"), info: o.Table("net.device.info"),
		address: o.Table(
			"net.device.address",
		), modes: o.Table("net.device.modes"), ring: o.Table("net.ring.size"),
		uses: o.Table("net.device.uses"), driver: o.Table("net.driver.count"),
	}
}

// bound reports whether speed or capacity is wanted.
func (t *deviceTables) bound() bool { return t.speed != nil || t.capacity != nil || t.wire != nil }

// devices is one namespace: its sockets and its devices.
type devices struct {
	space  *collect.Namespace[*devices]
	routes *netlink.Conn
	events *netlink.Conn // nil: no events, so all is read again each time
	tools  ethtools

	stale  changes
	links  map[int32]*link
	order  []*link // by index
	round  uint32  // of dumps of links
	now    uint32  // the current reading
	done   uint32  // the last reading that succeeded
	linked uint32  // the reading in which links were last read
	strays bool    // counters came for a device that is not in links

	counting int // index in order of the device whose counters come next, if all come

	addresses []address
	qdiscs    qdiscs
	uses      uses
	usesStale bool
	peers     peers

	askLinks, askStats, askAddresses netlink.Request
	// bound once: a method value allocates
	onLink, onStats, onAddress, onChange func(uint16, []byte) error
	dropAddresses, nothing               func()
	// this kernel lacks RTM_GETSTATS (before 4.7): the counters come with the links
	noStats bool
	// /proc/net/dev, if netlink has no counters at all
	text       *proc.File
	spare      linkFacts
	spareStats [linkCounters]uint64
}

// changes are the kinds of facts that the kernel announced as changed since they were read.
// qdiscs for uses, queues for qdiscs.read
type changes struct{ links, addresses, routes, qdiscs, queues bool }

func (n *netDevices) openSpace(s *collect.Namespace[*devices]) (*devices, error) {
	d := &devices{space: s, links: map[int32]*link{}, stale: changes{true, true, true, true, true}}
	var err error
	if d.routes, err = netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{Strict: true}); err != nil {
		return nil, err
	}
	if d.events, err = netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{}); err == nil {
		for _, group := range [...]uint32{unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR} {
			if err = d.events.Join(group); err != nil {
				d.events.Close()
				d.events = nil
				break
			}
		}
	}
	d.tools.open(func(protocol int) (*netlink.Conn, error) {
		return netlink.Dial(protocol, netlink.Options{})
	}, plainSocket)
	d.tools.ask(n.want.Stat("net.device.modes"), n.want.Stat("net.ring.size"))

	d.qdiscs.open()
	if n.want.Stat("net.device.uses") {
		d.uses.open(s)
	}
	d.askLinks.Begin(unix.RTM_GETLINK, 0)
	d.askLinks.Extend(unix.SizeofIfInfomsg)
	d.askLinks.AttrUint32(unix.IFLA_EXT_MASK, rtextFilterSkipStats)
	d.askStats.Begin(unix.RTM_GETSTATS, 0)
	native.PutUint32(d.askStats.Extend(sizeofStatsMsg)[8:], 1<<(unix.IFLA_STATS_LINK_64-1))
	d.askAddresses.Begin(unix.RTM_GETADDR, 0)
	d.askAddresses.Extend(unix.SizeofIfAddrmsg)
	d.onLink, d.onStats, d.onAddress, d.onChange = d.takeLink, d.takeStats, d.takeAddress, d.takeChange
	d.dropAddresses, d.nothing = func() { d.addresses = d.addresses[:0] }, func() {}
	return d, nil
}

// plainSocket opens a socket for ioctl. Any kind works (sock_ioctl in net/socket.c), and Unix
// sockets are in every kernel.
func plainSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
}

// rtextFilterSkipStats omits IPv6's counters of each device from RTM_GETLINK's answers
// (RTEXT_FILTER_SKIP_STATS, since Linux 4.5).
const rtextFilterSkipStats = 1 << 3

func (d *devices) shut() {
	d.routes.Close()
	d.events.Close()
	d.tools.close()
	d.uses.close()
	d.text.Close()
}

// Close implements Reading.
func (n *netDevices) Close() {
	n.spaces.Shut()
	n.room.free()
}

// Read implements Reading.
func (n *netDevices) Read(o *collect.Out) error {
	n.reads++
	if n.out != o {
		n.out, n.tables, n.queues = o, tablesOf(o), qdiscTablesOf(o)
	}
	if n.epoch != o.Epoch || n.reads == 1 {
		n.epoch, n.rx, n.tx = o.Epoch, o.Label("rx"), o.Label("tx")
		for i, w := range boundWords {
			n.from[i] = o.Label(w)
		}
	}
	list := n.spaces.Follow(o)
	var failed error
	read := 0
	for _, s := range list {
		if err := s.Data.gather(n, o); err != nil {
			failed = fmt.Errorf("read network devices%s: %w", s.Of(), err)
			o.NoteAll(failed.Error())
			continue
		}
		read++
	}
	if n.related != n.spaces.Matches ||
		slices.ContainsFunc(
			list, func(s *collect.Namespace[*devices]) bool { return s.Data.linked == n.reads },
		) {
		n.relate(list)
		n.related = n.spaces.Matches
	}
	for _, s := range list {
		if s.Data.done == n.reads {
			s.Data.emit(n, o)
		}
	}
	if read == 0 {
		return failed
	}
	return nil
}

// gather reads the namespace's state and counters.
func (d *devices) gather(n *netDevices, o *collect.Out) error {
	d.now = n.reads
	switch {
	case d.events == nil:
		d.stale = changes{true, true, true, true, true}
	case d.events.Receive(0, d.onChange) != nil:
		d.stale = changes{true, true, true, true, true} // ErrOverrun: what changed is not known
	}
	if d.stale.links || d.noStats {
		if err := d.readLinks(); err != nil {
			return err
		}
	}
	if d.noStats {
		if err := d.readText(o); err != nil {
			return err
		}
	}
	if !d.noStats {
		err := d.readStats()
		if err == nil && d.strays { // created between the two dumps
			if err = d.readLinks(); err == nil {
				err = d.readStats()
			}
		}
		switch {
		case errors.Is(err, measure.ErrUnsupported):
			d.withoutStats()
			if err := d.readLinks(); err != nil {
				return err
			}
			if err := d.readText(o); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	if d.stale.addresses && (n.tables.address != nil || n.tables.uses != nil) {
		d.addresses = d.addresses[:0]
		switch err := d.routes.DumpRetry(&d.askAddresses, 3, d.dropAddresses, d.onAddress); {
		case err == nil:
			d.stale.addresses, d.usesStale = false, true
		case errors.Is(err, netlink.ErrInterrupted):
		default:
			n.tables.address.Note("addresses could not be read: " + err.Error())
		}
	}
	if t := &n.tables; t.bound() || t.info != nil || t.modes != nil || t.ring != nil ||
		t.driver != nil {
		changed, note := d.tools.refresh(d.order, time.Now())
		if changed {
			for _, l := range d.order {
				l.info = l.info[:0]
			}
		}
		if note != "" {
			n.tables.speed.Note(note)
			n.tables.capacity.Note(note)
			n.tables.info.Note(note)
		}
	}
	for _, l := range d.order {
		l.difference(o, n.reads)
	}
	if n.queues.any() || n.tables.capacity != nil || n.tables.wire != nil || n.tables.uses != nil {
		still := d.events != nil && !d.stale.queues && !d.stale.links
		d.stale.queues = false
		if err := d.qdiscs.read(d.routes, d.links, o, n.reads, still); err != nil {
			note := "queueing disciplines could not be read" + d.space.Of() + ": " + err.Error()
			n.tables.capacity.Note(note)
			n.tables.wire.Note(note)
			n.queues.note(note)
		}
	}
	if n.tables.uses != nil {
		d.uses.refresh(d, time.Now())
	}
	d.done = n.reads
	return nil
}

// withoutStats reads the counters with the links. That is more expensive, but kernels before 4.7
// and gVisor lack RTM_GETSTATS.
func (d *devices) withoutStats() {
	d.noStats = true
	d.askLinks.Begin(unix.RTM_GETLINK, 0)
	d.askLinks.Extend(unix.SizeofIfInfomsg)
}

// readText reads the counters of devices for which netlink has none (gVisor) from /proc/net/dev.
func (d *devices) readText(o *collect.Out) error {
	for _, l := range d.order {
		if l.counted == d.now {
			continue
		}
		if d.text == nil {
			err := d.space.NetNS.In(func() (err error) {
				d.text, err = d.space.OpenProc("net/dev")
				return err
			})
			if err != nil {
				return fmt.Errorf("netlink has no counters: %w", err)
			}
		}
		b, err := d.text.Read()
		if err != nil {
			return fmt.Errorf("netlink has no counters: read %s: %w", d.text.Path(), err)
		}
		parseDev(b, func(name []byte, stats *[linkCounters]uint64) {
			for _, l := range d.order {
				if l.counted != d.now && l.name == string(name) {
					l.counters, l.counted, l.moved, l.narrow = *stats, d.now, true, true
				}
			}
		})
		o.NoteAll("counters of devices come from /proc/net/dev, which has fewer kinds of " +
			"errors: this kernel has none in netlink")
		break
	}
	return nil
}

// readLinks dumps the facts of all devices and removes those that are gone.
func (d *devices) readLinks() error {
	d.round++
	d.linked = d.now
	err := d.routes.DumpRetry(&d.askLinks, 3, d.nothing, d.onLink)
	switch {
	case err == nil:
		d.stale.links = false
	// some may be missing: keep them and read again next time
	case errors.Is(err, netlink.ErrInterrupted):
		d.round--
		d.index()
		return nil
	default:
		return err
	}
	for i, l := range d.links {
		if l.round != d.round {
			delete(d.links, i)
		}
		l.info = l.info[:0] // it contains names of other devices
	}
	d.index()
	d.tools.stale = true
	return nil
}

// index sorts the devices by their index.
func (d *devices) index() {
	d.order = d.order[:0]
	for _, l := range d.links {
		d.order = append(d.order, l)
	}
	sortLinks(d.order)
	d.strays = false
}

func (d *devices) takeLink(typ uint16, payload []byte) error {
	if typ != unix.RTM_NEWLINK || len(payload) < unix.SizeofIfInfomsg {
		return nil
	}
	index := int32(native.Uint32(payload[4:]))
	l := d.links[index]
	if l == nil {
		l = &link{}
	}
	d.spare = l.linkFacts
	has, err := parseLink(payload, &d.spare, &d.spareStats)
	if err != nil {
		return err
	}
	if d.spare != l.linkFacts {
		l.linkFacts = d.spare
		l.epoch = -1
	}
	l.round = d.round
	if d.noStats && has {
		l.counters, l.counted, l.moved = d.spareStats, d.now, true
	}
	d.links[index] = l
	return nil
}

// readStats dumps the counters of all devices.
func (d *devices) readStats() error {
	d.strays, d.counting = false, 0
	err := d.routes.DumpRetry(&d.askStats, 3, d.nothing, d.onStats)
	// each answer is a whole device, so those that came are right
	if errors.Is(err, netlink.ErrInterrupted) {
		d.stale.links = true
		return nil
	}
	return err
}

func (d *devices) takeStats(typ uint16, payload []byte) error {
	if typ != unix.RTM_NEWSTATS || len(payload) < sizeofStatsMsg {
		return nil
	}
	index := int32(native.Uint32(payload[4:]))
	var l *link
	// they come in the order of their indices
	if d.counting < len(d.order) && d.order[d.counting].index == index {
		l = d.order[d.counting]
		d.counting++
	} else if l = d.links[index]; l == nil {
		_, has := parseLinkStats(payload, &d.spareStats)
		d.strays = d.strays || has
		return nil
	}
	if _, stats := linkStats(payload); stats != nil {
		l.follow(stats)
		l.counted = d.now
	}
	return nil
}

// takeAddress parses an RTM_NEWADDR: struct ifaddrmsg (u8 family, prefix length, flags, scope, u32
// index) and attributes.
func (d *devices) takeAddress(typ uint16, payload []byte) error {
	if a, ok := parseAddress(typ, payload); ok {
		d.addresses = append(d.addresses, a)
	}
	return nil
}

// takeChange records what an event makes stale. It removes a device at once when it is gone, since
// another one may get its index.
func (d *devices) takeChange(typ uint16, payload []byte) error {
	switch typ {
	case unix.RTM_DELLINK:
		// AF_BRIDGE: a port left its bridge and still exists (rtnetlink of net/bridge).
		if len(payload) >= unix.SizeofIfInfomsg && payload[0] == unix.AF_UNSPEC {
			delete(d.links, int32(native.Uint32(payload[4:])))
		}
		d.stale.links, d.stale.routes, d.stale.queues = true, true, true
	case unix.RTM_NEWLINK: // a device that comes up gets its discipline without an event
		d.stale.links, d.stale.routes, d.stale.queues = true, true, true
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		d.stale.addresses, d.stale.routes = true, true
	case unix.RTM_NEWQDISC,
		unix.RTM_DELQDISC,
		unix.RTM_NEWTCLASS,
		unix.RTM_DELTCLASS,
		unix.RTM_NEWTFILTER,
		unix.RTM_DELTFILTER:
		d.stale.qdiscs, d.stale.queues = true, true
	}
	return nil
}

// difference sets l.delta and l.fresh from the counters of this reading and the previous one.
func (l *link) difference(o *collect.Out, read uint32) {
	l.fresh = false
	if l.counted != read {
		return
	}
	// If a reading between them failed, the growth is that of several intervals.
	l.fresh = l.compared != 0 && l.compared == read-1 || o.First && o.SinceBoot
	switch {
	case !l.fresh:
		l.last, l.idle = l.counters, false
	case l.moved:
		for i, v := range l.counters {
			l.delta[i] = grown(o, l.last[i], v)
		}
		l.last, l.idle = l.counters, false
	case !l.idle: // usual: most devices of a machine with many are idle
		l.delta, l.idle = [linkCounters]float64{}, true
	}
	l.compared, l.moved = read, false
}

// grown returns the growth of a counter; NaN with the note on resets if it decreased. Counters of
// 32-bit kernels wrap.
func grown(o *collect.Out, last, now uint64) float64 {
	switch {
	case now >= last:
		return float64(now - last)
	case strconv.IntSize == 32 && last <= 1<<32-1 && last > 3<<30 && now < 1<<30:
		return float64(now + 1<<32 - last)
	}
	o.MarkReset()
	return measure.NaN
}

// emit puts the rows of the namespace.
func (d *devices) emit(n *netDevices, o *collect.Out) {
	t := &n.tables
	ns := d.space.Label(o)
	for _, l := range d.order {
		if l.counted != n.reads {
			continue
		}
		if l.epoch != o.Epoch {
			l.epoch, l.device, l.info = o.Epoch, o.Label(l.name), l.info[:0]
		}
		l.ns = ns
		if l.fresh {
			v := &l.delta
			t.both(t.bytes, n, l, v[rxBytes], v[txBytes])
			t.both(t.packets, n, l, v[rxPackets], v[txPackets])
			t.both(t.errors, n, l, v[rxErrors], v[txErrors])
			t.both(t.drops, n, l, v[rxDropped]+v[rxMissedErrors], v[txDropped])
			t.both(t.fifo, n, l, v[rxFIFOErrors], v[txFIFOErrors])
			if l.narrow {
				t.nohandler.Lacks("this kernel, before 4.6, does not count packets to inactive " +
					"ports")
			} else {
				t.nohandler.Put(v[rxNoHandler], ns, l.device)
			}
			t.collisions.Put(v[collisions], ns, l.device)
			t.multicast.Put(v[multicast], ns, l.device)
			t.reasons(n, o, l)
		}
		if l.hasCarrier {
			if l.fresh && (l.carrierBefore || o.First && o.SinceBoot) {
				t.carrier.Put(grown(o, l.lastCarrier, l.carrier), ns, l.device)
			}
			l.lastCarrier, l.carrierBefore = l.carrier, true
		}
		d.emitWire(n, o, l)
		if t.info != nil {
			if len(l.info) == 0 {
				d.describe(o, l)
			}
			t.info.Put(1, l.info...)
		}
		if t.modes != nil || t.ring != nil {
			d.tools.of(l).emit(t, o, l)
		}
	}
	if t.uses != nil {
		d.uses.emit(t.uses, o, d, n.reads)
	}
	if t.driver != nil {
		d.tools.drivers(o, t.driver, d.order, n.reads, n.room.get())
	}
	if n.queues.any() {
		d.qdiscs.emit(&n.queues, o, n.reads)
	}
	if t.address != nil {
		for i := range d.addresses {
			a := &d.addresses[i]
			if l := d.links[a.index]; l != nil && l.counted == n.reads {
				t.address.Put(
					1, ns, l.device, o.Label(a.familyWord()), o.Label(a.text),
					o.Number(int64(a.prefix)), o.Label(a.scopeWord()),
				)
			}
		}
	}
}

func (t *deviceTables) both(table *collect.Table, n *netDevices, l *link, rx, tx float64) {
	table.Put(rx, l.ns, l.device, n.rx)
	table.Put(tx, l.ns, l.device, n.tx)
}

// reasons puts the kinds of errors that occurred.
func (t *deviceTables) reasons(n *netDevices, o *collect.Out, l *link) {
	if t.detail == nil {
		return
	}
	kinds := [...]struct {
		at   int
		rx   bool
		word string
	}{
		{
			rxLengthErrors,
			true,
			"length",
		}, {rxOverErrors, true, "over"}, {rxCRCErrors, true, "crc"}, {rxFrameErrors, true, "frame"},
		{
			rxFIFOErrors,
			true,
			"fifo",
		}, {rxMissedErrors, true, "missed"}, {rxDropped, true, "dropped"},
		{rxNoHandler, true, "nohandler"}, {rxOtherHostDropped, true, "otherhost"},
		{
			txAbortedErrors,
			false,
			"aborted",
		}, {txCarrierErrors, false, "carrier"}, {txFIFOErrors, false, "fifo"},
		{
			txHeartbeatErrors,
			false,
			"heartbeat",
		}, {txWindowErrors, false, "window"}, {txDropped, false, "dropped"},
	}
	for _, k := range kinds {
		if v := l.delta[k.at]; v != 0 {
			direction := n.tx
			if k.rx {
				direction = n.rx
			}
			t.detail.Put(v, l.ns, l.device, direction, o.Label(k.word))
		}
	}
}

// describe makes the labels of net.device.info.
func (d *devices) describe(o *collect.Out, l *link) {
	admin := "down"
	if l.up() {
		admin = "up"
	}
	e := d.tools.of(l)
	l.info = append(
		l.info[:0], l.ns, l.device, o.Number(int64(l.index)), o.Label(l.kindWord()),
		o.Label(e.driver), o.Label(l.mac), o.Label(admin), o.Label(operWord(l.operstate)),
		o.Label(e.duplexWord()), o.Label(e.autonegWord()), o.Number(int64(l.mtu)),
		o.Label(d.nameOf(l.master)), o.Label(d.lowerName(l)), o.Number(int64(l.rxQueues)),
		o.Number(int64(l.txQueues)), o.Label(flagWords(l.flags)),
	)
}

// nameOf returns the name of a device of this namespace, "" if there is none.
func (d *devices) nameOf(index int32) string {
	if index == 0 {
		return ""
	}
	if l := d.links[index]; l != nil {
		return l.name
	}
	return "if" + strconv.Itoa(int(index))
}
