package network

import (
	"errors"
	"fmt"
	"strconv"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// changes are the kinds of facts that the kernel announced as changed since they were read.
// Queueing disciplines have two readers: qdiscs is that of uses, queues that of devices.qdiscs.
type changes struct{ links, addresses, routes, qdiscs, queues bool }

// rtextFilterSkipStats omits IPv6's counters of each device from RTM_GETLINK's answers
// (RTEXT_FILTER_SKIP_STATS, since Linux 4.5).
const rtextFilterSkipStats = 1 << 3

// readCounters reads the counters of all devices, and the devices themselves if they changed.
func (d *devices) readCounters(o *collect.Out) error {
	if d.noStats {
		return d.readLinksAndText(o)
	}
	if d.stale.links {
		if err := d.readLinks(); err != nil {
			return err
		}
	}
	err := d.readStats()
	if err == nil && d.strays { // created between the two dumps
		if err = d.readLinks(); err == nil {
			err = d.readStats()
		}
	}
	if errors.Is(err, measure.ErrUnsupported) {
		d.withoutStats()
		return d.readLinksAndText(o)
	}
	return err
}

func (d *devices) readLinksAndText(o *collect.Out) error {
	if err := d.readLinks(); err != nil {
		return err
	}
	return d.readText(o)
}

// readAddresses reads the addresses of all devices.
func (d *devices) readAddresses(t *deviceTables) {
	d.addresses = d.addresses[:0]
	switch err := d.routes.DumpRetry(&d.askAddresses, 3, d.dropAddresses, d.onAddress); {
	case err == nil:
		d.stale.addresses, d.usesStale = false, true
	case errors.Is(err, netlink.ErrInterrupted):
	default:
		t.address.Note("addresses could not be read: " + err.Error())
	}
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
func (t *linkTable) index() {
	t.order = t.order[:0]
	for _, l := range t.links {
		t.order = append(t.order, l)
	}
	sortLinks(t.order)
	t.strays = false
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

// nameOf returns the name of a device of this namespace, "" if there is none.
func (t *linkTable) nameOf(index int32) string {
	if index == 0 {
		return ""
	}
	if l := t.links[index]; l != nil {
		return l.name
	}
	return "if" + strconv.Itoa(int(index))
}
