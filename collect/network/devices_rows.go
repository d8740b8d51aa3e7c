package network

import (
	"culprit/collect"
)

// deviceTables are the tables of the statistics of devices; nil: not wanted.
type deviceTables struct {
	amountTables
	factTables
}

type amountTables struct {
	bytes, packets, errors, drops, fifo       *collect.Table
	nohandler, collisions, multicast, carrier *collect.Table
	detail, wire                              *collect.Table
}

type factTables struct {
	speed, capacity, info, address, modes, ring, uses, driver *collect.Table
}

func tablesOf(o *collect.Out) deviceTables {
	return deviceTables{
		amountTables{
			bytes:      o.Table("net.device.bytes"),
			packets:    o.Table("net.device.packets"),
			errors:     o.Table("net.device.errors"),
			drops:      o.Table("net.device.drops"),
			fifo:       o.Table("net.device.fifo"),
			nohandler:  o.Table("net.device.nohandler"),
			collisions: o.Table("net.device.collisions"),
			multicast:  o.Table("net.device.multicast"),
			carrier:    o.Table("net.device.carrier"),
			detail:     o.Table("net.device.errors.detail"),
			wire:       o.Table("net.device.wire"),
		},
		factTables{
			speed:    o.Table("net.device.speed"),
			capacity: o.Table("net.device.capacity"),
			info:     o.Table("net.device.info"),
			address:  o.Table("net.device.address"),
			modes:    o.Table("net.device.modes"),
			ring:     o.Table("net.ring.size"),
			uses:     o.Table("net.device.uses"),
			driver:   o.Table("net.driver.count"),
		},
	}
}

// bound reports whether speed or capacity is wanted.
func (t *deviceTables) bound() bool { return t.speed != nil || t.capacity != nil || t.wire != nil }

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
		t.amounts(n, o, l)
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
		d.tools.drivers(o, t.driver, d.order, n.reads, n.buffer.get())
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

// amounts puts the growth of the counters of a device.
func (t *deviceTables) amounts(n *netDevices, o *collect.Out, l *link) {
	if l.fresh {
		v := &l.delta
		t.both(t.bytes, n, l, v[rxBytes], v[txBytes])
		t.both(t.packets, n, l, v[rxPackets], v[txPackets])
		t.both(t.errors, n, l, v[rxErrors], v[txErrors])
		t.both(t.drops, n, l, v[rxDropped]+v[rxMissedErrors], v[txDropped])
		t.both(t.fifo, n, l, v[rxFIFOErrors], v[txFIFOErrors])
		if l.narrow {
			t.nohandler.Lacks("this kernel, before 4.6, does not count packets to inactive ports")
		} else {
			t.nohandler.Put(v[rxNoHandler], l.ns, l.device)
		}
		t.collisions.Put(v[collisions], l.ns, l.device)
		t.multicast.Put(v[multicast], l.ns, l.device)
		t.reasons(n, o, l)
	}
	if l.hasCarrier {
		if l.fresh && (l.carrierBefore || o.First && o.SinceBoot) {
			t.carrier.Put(grown(o, l.lastCarrier, l.carrier), l.ns, l.device)
		}
		l.lastCarrier, l.carrierBefore = l.carrier, true
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
		{rxLengthErrors, true, "length"},
		{rxOverErrors, true, "over"},
		{rxCRCErrors, true, "crc"},
		{rxFrameErrors, true, "frame"},
		{rxFIFOErrors, true, "fifo"},
		{rxMissedErrors, true, "missed"},
		{rxDropped, true, "dropped"},
		{rxNoHandler, true, "nohandler"},
		{rxOtherHostDropped, true, "otherhost"},
		{txAbortedErrors, false, "aborted"},
		{txCarrierErrors, false, "carrier"},
		{txFIFOErrors, false, "fifo"},
		{txHeartbeatErrors, false, "heartbeat"},
		{txWindowErrors, false, "window"},
		{txDropped, false, "dropped"},
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
