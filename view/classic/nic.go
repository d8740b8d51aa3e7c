package classic

import (
	"math"

	"culprit/measure"
	"culprit/view"
)

// NIC returns the tool nic, like nicstat.
func NIC() *view.Tool {
	return &view.Tool{
		Name:  "nic",
		Short: "traffic, utilization and saturation of network interfaces (nicstat)",
		Long: `One row per interface. Interfaces that are down are hidden unless they carry traffic or are named
with -i. Numbers come from the kernel's 64-bit counters over netlink. KB are 1024 bytes, as in
nicstat.
%Util is bytes x 8 / capacity of the busier direction; at half duplex, of both directions together.
The capacity is the negotiated speed, or the rate of the root qdisc (tbf, htb) if that is lower. If
neither is known, %Util is "-"; it is never an estimate. Bytes are those that the driver counts,
without preamble, gap and checksum: a full Ethernet link shows about 94 to 97 %. %Wire adds them and
is 100 then.
Sat counts packets that could not be taken: drops, fifo overruns and full queues per second. --wide
shows each of them (nicstat -x).`,
		Examples: []view.Example{
			{Line: "culprit nic 1", Means: "every interface, every second"},
			{Line: "culprit nic -i eth0 5 3", Means: "one interface, three times five seconds"},
			{Line: "culprit nic --netns all 1", Means: "the interfaces of every network namespace"},
			{
				Line:  "culprit nic --from -10m --to -5m 60",
				Means: "a line per minute, as culprit serve recorded them",
			},
		},
		Operand: "interface",
		Flags: []view.Flag{
			{
				Name:       "interface",
				Letter:     "i",
				Value:      "NAME",
				Many:       true,
				NamesQuery: "net.device.info by device",
				Help:       "only these interfaces (comma list with * and ?)",
			},
			{Name: "idle", Letter: "z", Help: "hide interfaces without traffic"},
		},
		Ask: func(view.Options) []string {
			return []string{
				"net.device.bytes by netns,device,direction",
				"net.device.packets by netns,device,direction",
				"net.device.errors by netns,device,direction",
				"net.device.drops by netns,device,direction",
				"net.device.fifo by netns,device",
				"net.device.wire by netns,device,direction",
				"net.device.capacity by netns,device,direction,from",
				"net.device.info by netns,device,admin,duplex",
				"net.qdisc.drops by netns,device" + wholeQueue,
				"net.qdisc.requeues by netns,device" + wholeQueue,
				"net.qdisc.queue by netns,device" + wholeQueue,
				"net.device.collisions by netns,device",
				"net.device.multicast by netns,device",
			}
		},
		MinWidth: map[measure.StatID]int{
			"net.device.wire":       90,
			"net.device.errors":     100,
			"net.qdisc.requeues":    180,
			"net.qdisc.queue":       180,
			"net.device.collisions": 200,
			"net.device.multicast":  200,
		},
		Table: nicTable,
		Drill: func(t *view.Table, r *view.Row) *view.Drill {
			device := t.Text(r, "device")
			return &view.Drill{
				Tool:    "flows",
				Options: view.Options{"interface": {device}},
				Title:   "connections on " + device,
			}
		},
	}
}

// wholeQueue selects the queueing discipline at the root. A classful one also counts the packets of
// the disciplines below it and of its classes. The sum of all would count a packet that a pfifo
// below an HTB drops three times.
const wholeQueue = ` where parent = "root"`

func nicColumns() []view.Column {
	return []view.Column{
		{Name: "netns", Help: "network namespace, empty for the tool's own"},
		{Name: "device", Head: "Int", Width: 8, Help: "interface"},
		{
			Name:     "rx_bytes_per_s",
			Head:     "rKB/s",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			Help:     "received",
		},
		{
			Name:     "tx_bytes_per_s",
			Head:     "wKB/s",
			Show:     view.KiB,
			Decimals: 2,
			Width:    8,
			Help:     "sent",
		},
		{Name: "rx_packets_per_s", Head: "rPk/s", Decimals: 1, Width: 7, Help: "packets received"},
		{Name: "tx_packets_per_s", Head: "wPk/s", Decimals: 1, Width: 7, Help: "packets sent"},
		{
			Name:     "rx_avg_bytes",
			Head:     "rAvs",
			Decimals: 1,
			Width:    7,
			Help:     "mean size of a received packet",
		},
		{
			Name:     "tx_avg_bytes",
			Head:     "wAvs",
			Decimals: 1,
			Width:    7,
			Help:     "mean size of a sent packet",
		},
		{
			Name:     "util",
			Head:     "%Util",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			Help:     "share of the capacity, by counted bytes",
		},
		{
			Name:     "saturation_per_s",
			Head:     "Sat",
			Decimals: 2,
			Width:    5,
			Help:     "drops, fifo overruns, full queues",
		},
		{
			Name:     "wire_util",
			Head:     "%Wire",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			MinWidth: 90,
			Help:     "share of the capacity, by estimated bytes on the wire",
		},
		{
			Name:     "errors_per_s",
			Head:     "Err/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 100,
			Help:     "receive and transmit errors",
		},
		{
			Name:     "capacity_bits_per_s",
			Head:     "Mbit/s",
			Show:     view.Mbit,
			Width:    7,
			MinWidth: 110,
			Help:     "capacity that %Util refers to",
		},
		{
			Name:     "capacity_from",
			Head:     "from",
			Width:    7,
			MinWidth: 120,
			Left:     true,
			Help:     "ethtool (negotiated), qdisc (shaped), unknown",
		},
		{
			Name:     "rx_errors_per_s",
			Head:     "rErr/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 150,
			Help:     "receive errors",
		},
		{
			Name:     "tx_errors_per_s",
			Head:     "wErr/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 150,
			Help:     "transmit errors",
		},
		{
			Name:     "rx_drops_per_s",
			Head:     "rDrop/s",
			Decimals: 2,
			Width:    7,
			MinWidth: 160,
			Help:     "received and dropped, or missed because a buffer was full",
		},
		{
			Name:     "tx_drops_per_s",
			Head:     "wDrop/s",
			Decimals: 2,
			Width:    7,
			MinWidth: 160,
			Help:     "dropped by the driver before sending",
		},
		{
			Name:     "fifo_per_s",
			Head:     "Fifo/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 180,
			Help:     "fifo overruns, both directions",
		},
		{
			Name:     "queue_drops_per_s",
			Head:     "QDrop/s",
			Decimals: 2,
			Width:    7,
			MinWidth: 180,
			Help:     "dropped by the queueing discipline",
		},
		{
			Name:     "requeues_per_s",
			Head:     "Requ/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 180,
			Help:     "put back into the queue because the device was busy (nicstat's Defer)",
		},
		{
			Name:     "queue_packets",
			Head:     "Queue",
			Width:    5,
			MinWidth: 180,
			Help:     "packets in the queueing discipline at the end of the interval",
		},
		{
			Name:     "collisions_per_s",
			Head:     "Coll/s",
			Decimals: 2,
			Width:    6,
			MinWidth: 200,
			Help:     "collisions",
		},
		{
			Name:     "multicast_per_s",
			Head:     "Mcast/s",
			Decimals: 2,
			Width:    7,
			MinWidth: 200,
			Help:     "multicast packets received",
		},
	}
}

func nicTable(o view.Options, f *view.Frame) *view.Table {
	t := f.NewTable("nic", nicColumns)
	p := f.NewPivot("netns", "device")
	both := func(id measure.StatID) (rx, tx int) {
		return p.AddTwo(f.Of(id), "direction", "rx", "tx")
	}
	rxb, txb := both("net.device.bytes")
	rxp, txp := both("net.device.packets")
	rxw, txw := both("net.device.wire")
	rxc, txc := both("net.device.capacity")
	rxe, txe := both("net.device.errors")
	rxd, txd := both("net.device.drops")
	fifo, queue := p.Add(f.Of("net.device.fifo")), p.Add(f.Of("net.qdisc.drops"))
	requeues, waiting := p.Add(f.Of("net.qdisc.requeues")), p.Add(f.Of("net.qdisc.queue"))
	collisions := p.Add(f.Of("net.device.collisions"))
	multicast := p.Add(f.Of("net.device.multicast"))
	p.Join("info", f.Of("net.device.info"))
	p.Join("rx", f.Of("net.device.capacity"), "direction", "rx")
	p.Join("tx", f.Of("net.device.capacity"), "direction", "tx")
	p.Sort()
	admin, duplex := p.Words("info", "admin"), p.Words("info", "duplex")
	rxFrom, txFrom := p.Words("rx", "from"), p.Words("tx", "from")
	only, moving := o["interface"], o.Has("idle")
	for r := range p.Len() {
		device := p.Key(r, "device")
		if len(only) > 0 && !view.MatchAny(only, device) {
			continue
		}
		rx, tx, rxPackets, txPackets := p.At(r, rxb), p.At(r, txb), p.At(r, rxp), p.At(r, txp)
		moved := rxPackets > 0 || txPackets > 0
		if !moved &&
			(moving || p.WordAt(r, admin) == "down" && len(only) == 0) {
			continue
		}
		half := p.WordAt(r, duplex) == "half"
		util, capacity, from := share(
			rx, tx, p.At(r, rxc), p.At(r, txc), half, p.WordAt(r, rxFrom), p.WordAt(r, txFrom),
		)
		wire, _, _ := share(p.At(r, rxw), p.At(r, txw), p.At(r, rxc), p.At(r, txc), half, "", "")
		ns, name := p.Key(r, "netns"), device
		if ns != "" {
			name = ns + "/" + device
		}
		c := f.RowCells(len(t.Columns))
		c[0], c[1] = view.T(ns), view.T(device)
		rxDrops, txDrops := p.At(r, rxd), p.At(r, txd)
		overruns, queueDrops := p.At(r, fifo), p.At(r, queue)
		rxErrors, txErrors := p.At(r, rxe), p.At(r, txe)
		for k, v := range [...]float64{
			rx, tx, rxPackets, txPackets, average(rx, rxPackets), average(tx, txPackets), util,
			sum(rxDrops, txDrops, overruns, queueDrops), wire, sum(rxErrors, txErrors), capacity,
		} {
			c[2+k] = view.N(v)
		}
		c[13] = view.T(from)
		for k, v := range [...]float64{
			rxErrors, txErrors, rxDrops, txDrops, overruns, queueDrops,
			p.At(r, requeues), p.At(r, waiting), p.At(r, collisions), p.At(r, multicast),
		} {
			c[14+k] = view.N(v)
		}
		t.Rows = append(t.Rows, view.Row{Key: p.ID(r), Cells: c, Label: name})
	}
	return t
}

// share returns the utilization of the busier direction, its capacity in bit/s and the source of
// that capacity. rx and tx are in bytes per second. In half duplex both directions share the
// capacity.
func share(
	rx, tx, rxCapacity, txCapacity float64, half bool, rxFrom, txFrom string,
) (util, capacity float64, from string) {
	if half {
		rx, tx = rx+tx, rx+tx
	}
	a, b := rx*8/rxCapacity, tx*8/txCapacity
	if rxCapacity > 0 && !(b > a) {
		return a, rxCapacity, rxFrom
	}
	if txCapacity > 0 {
		return b, txCapacity, txFrom
	}
	return measure.NaN, measure.NaN, "unknown"
}

// average returns bytes per packet; NaN without packets (nicstat and iostat print 0).
func average(bytes, packets float64) float64 {
	if packets == 0 {
		return measure.NaN
	}
	return bytes / packets
}

// sum adds the known values; NaN if none is known.
func sum(values ...float64) float64 {
	s := measure.NaN
	for _, v := range values {
		if v == v {
			s = orZero(s) + v
		}
	}
	return s
}

// orZero returns v, or 0 for NaN.
func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}
