package network

import (
	"strconv"

	"culprit/collect"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// linkCounter is an index in struct rtnl_link_stats64 of include/uapi/linux/if_link.h, which
// explains each counter.
const (
	rxPackets = iota
	txPackets
	rxBytes
	txBytes
	rxErrors
	txErrors
	rxDropped
	txDropped
	multicast
	collisions
	rxLengthErrors
	rxOverErrors
	rxCRCErrors
	rxFrameErrors
	rxFIFOErrors
	rxMissedErrors
	txAbortedErrors
	txCarrierErrors
	txFIFOErrors
	txHeartbeatErrors
	txWindowErrors
	rxCompressed
	txCompressed
	rxNoHandler        // since Linux 4.6
	rxOtherHostDropped // since Linux 5.19
	linkCounters
)

// copyStats copies struct rtnl_link_stats64, which grows at its end from kernel to kernel. Missing
// counters are 0.
func copyStats(stats *[linkCounters]uint64, b []byte) {
	if len(b) >= 8*linkCounters {
		b = b[:8*linkCounters]
		for i := range stats {
			stats[i] = native.Uint64(b[8*i:])
		}
		return
	}
	for i := range stats {
		if len(b) < 8 {
			stats[i] = 0
			continue
		}
		stats[i] = native.Uint64(b)
		b = b[8:]
	}
}

// linkGrowth has the counters of a device and their growth since the previous reading.
type linkGrowth struct {
	counters      [linkCounters]uint64 // of this reading, by linkCounter
	counted       uint32               // the reading of counters
	moved         bool                 // counters may differ from last
	narrow        bool                 // the kernel counts nothing after txCompressed
	last          [linkCounters]uint64
	compared      uint32 // the reading of last; 0: none
	lastCarrier   uint64
	carrierBefore bool

	delta [linkCounters]float64 // growth in this reading; NaN if a counter went backwards
	fresh bool                  // delta is of this reading
	idle  bool                  // all of delta is 0
}

// parseLinkStats parses the payload of an RTM_NEWSTATS message: struct if_stats_msg (u8 family, 3
// bytes, u32 index, u32 mask) and IFLA_STATS_LINK_64. ok is false if it has no counters.
func parseLinkStats(payload []byte, stats *[linkCounters]uint64) (index int32, ok bool) {
	index, v := linkStats(payload)
	if v == nil {
		return index, false
	}
	copyStats(stats, v)
	return index, index > 0
}

// linkStats returns the counters of such a message unparsed, nil if it has none.
func linkStats(payload []byte) (index int32, stats []byte) {
	if len(payload) < sizeofStatsMsg {
		return 0, nil
	}
	index = int32(native.Uint32(payload[4:]))
	for a := netlink.AttrsOf(payload[sizeofStatsMsg:]); a.Next(); {
		if a.Type() == unix.IFLA_STATS_LINK_64 {
			return index, a.Value()
		}
	}
	return index, nil
}

// follow stores the counters of a message. Those of most devices are unchanged, and then nothing is
// written.
func (l *linkGrowth) follow(b []byte) {
	n := min(len(b)/8, linkCounters)
	l.narrow = n <= rxNoHandler
	for i := range l.counters[:n] {
		if v := native.Uint64(b[8*i:]); v != l.counters[i] {
			l.counters[i], l.moved = v, true
		}
	}
	for i := n; i < linkCounters; i++ {
		l.moved = l.moved || l.counters[i] != 0
		l.counters[i] = 0
	}
}

// parseDev parses /proc/net/dev and calls f with each device. Both directions have bytes packets
// errs drop fifo, then different columns (dev_seq_printf_stats in net/core/net-procfs.c). drop
// includes missed. Malformed lines are skipped. stats is valid during the call.
func parseDev(b []byte, f func(name []byte, stats *[linkCounters]uint64)) {
	for c := proc.Scan(b); !c.End(); c.NextLine() {
		name := c.Until(':')
		if name == nil {
			continue
		}
		var s [linkCounters]uint64
		c.Clear()
		for _, counter := range [...]int{
			rxBytes, rxPackets, rxErrors, rxDropped, rxFIFOErrors,
			rxFrameErrors, rxCompressed, multicast,
			txBytes, txPackets, txErrors, txDropped, txFIFOErrors,
			collisions, txCarrierErrors, txCompressed,
		} {
			s[counter] = c.Uint()
		}
		if c.Err() == nil {
			f(name, &s)
		}
	}
}

const sizeofStatsMsg = 12 // struct if_stats_msg, include/uapi/linux/if_link.h

// difference sets l.delta and l.fresh from the counters of this reading and the previous one.
func (l *linkGrowth) difference(o *collect.Out, read uint32) {
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
