package network

import (
	"culprit/measure"
)

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
	delta, level := deltaStat, levelStat
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

// deltaStat returns a statistic of amounts.
func deltaStat(
	id measure.StatID, unit measure.Unit, fields []measure.Field, help string,
) measure.Stat {
	return measure.Stat{ID: id, Kind: measure.Delta, Unit: unit, Fields: fields, Help: help}
}

// levelStat returns a statistic of states.
func levelStat(
	id measure.StatID, unit measure.Unit, fold measure.Fold, fields []measure.Field, help string,
) measure.Stat {
	return measure.Stat{
		ID:     id,
		Kind:   measure.Level,
		Unit:   unit,
		Fold:   fold,
		Fields: fields,
		Help:   help,
	}
}
