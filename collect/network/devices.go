package network

import (
	"errors"
	"fmt"
	"slices"
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
	buffer scratch
}

// devices is one namespace: its sockets and its devices.
type devices struct {
	space *collect.Namespace[*devices]
	deviceRequests
	linkTable
	tools ethtools

	stale changes
	now   uint32 // the current reading
	done  uint32 // the last reading that succeeded

	addresses []address
	qdiscs    qdiscs
	uses      uses
	usesStale bool
	peers     peers
}

// deviceRequests are the sockets and messages by which the devices of a namespace are read.
type deviceRequests struct {
	routes *netlink.Conn
	events *netlink.Conn // nil: no events, so all is read again each time

	askLinks, askStats, askAddresses netlink.Request
	// bound once: a method value allocates
	onLink, onStats, onAddress, onChange func(uint16, []byte) error
	dropAddresses, nothing               func()

	// this kernel lacks RTM_GETSTATS (before 4.7): the counters come with the links
	noStats bool
	text    *proc.File // /proc/net/dev; nil: netlink has counters
}

// linkTable is the known devices of a namespace.
type linkTable struct {
	links  map[int32]*link
	order  []*link // by index
	round  uint32  // of dumps of links
	linked uint32  // the reading in which links were last read
	strays bool    // counters came for a device that is not in links

	counting int // index in order of the device whose counters come next, if all come

	spare      linkFacts            // buffer for parseLink
	spareStats [linkCounters]uint64 // buffer
}

func (n *netDevices) openSpace(s *collect.Namespace[*devices]) (*devices, error) {
	d := &devices{space: s, stale: changes{true, true, true, true, true}}
	d.links = map[int32]*link{}
	var err error
	if d.routes, err = netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{Strict: true}); err != nil {
		return nil, err
	}
	if d.events, err = netlink.Dial(unix.NETLINK_ROUTE, netlink.Options{}); err == nil {
		for _, group := range [...]uint32{
			unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		} {
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
	d.onLink, d.onStats = d.takeLink, d.takeStats
	d.onAddress, d.onChange = d.takeAddress, d.takeChange
	d.dropAddresses, d.nothing = func() { d.addresses = d.addresses[:0] }, func() {}
	return d, nil
}

// plainSocket opens a socket for ioctl. Any kind works (sock_ioctl in net/socket.c), and Unix
// sockets are in every kernel.
func plainSocket() (int, error) {
	return unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
}

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
	n.buffer.free()
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
	// ErrOverrun: what changed is not known
	if d.events == nil || d.events.Receive(0, d.onChange) != nil {
		d.stale = changes{true, true, true, true, true}
	}
	if err := d.readCounters(o); err != nil {
		return err
	}
	t := &n.tables
	if d.stale.addresses && (t.address != nil || t.uses != nil) {
		d.readAddresses(t)
	}
	if t.bound() || t.info != nil || t.modes != nil || t.ring != nil || t.driver != nil {
		changed, note := d.tools.refresh(d.order, time.Now())
		if changed {
			for _, l := range d.order {
				l.info = l.info[:0]
			}
		}
		if note != "" {
			t.speed.Note(note)
			t.capacity.Note(note)
			t.info.Note(note)
		}
	}
	for _, l := range d.order {
		l.difference(o, n.reads)
	}
	if n.queues.any() || t.capacity != nil || t.wire != nil || t.uses != nil {
		still := d.events != nil && !d.stale.queues && !d.stale.links
		d.stale.queues = false
		if err := d.qdiscs.read(d.routes, d.links, o, n.reads, still); err != nil {
			note := "queueing disciplines could not be read" + d.space.Of() + ": " + err.Error()
			t.capacity.Note(note)
			t.wire.Note(note)
			n.queues.note(note)
		}
	}
	if t.uses != nil {
		d.uses.refresh(d, time.Now())
	}
	d.done = n.reads
	return nil
}
