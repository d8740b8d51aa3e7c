package facts

import (
	"culprit/diagnose"
	"culprit/diagnose/series"
)

// The most that a line carries per byte and per frame that the device counts. The headers of the
// segments of a super-frame, which the device counts once, are 6 % of segments of 1,448 B.
// Preamble, gap and FCS are bytes per frame.
const lineSlack, lineFrame = 1.25, 24.0

// OnLine returns the row of what the device carries on its line. The estimate in net.device.wire
// may include packets that the driver received and dropped. Where it contradicts the bytes and
// packets of the device, those count.
func OnLine(l *diagnose.Look, d *Device, direction string) *diagnose.Row {
	wire := l.Table(DeviceWire).One("netns", d.NetNS, "device", d.Name, "direction", direction)
	b := l.Table(DeviceBytes).One("netns", d.NetNS, "device", d.Name, "direction", direction)
	p := l.Table(DevicePackets).One("netns", d.NetNS, "device", d.Name, "direction", direction)
	if wire == nil || b == nil {
		return wire
	}
	out := wire.With(append([]float64(nil), wire.Values...))
	for c, v := range out.Values {
		if most := b.At(c) + lineFrame*series.Or(p.At(c), 0); v > lineSlack*most {
			out.Values[c] = most
		}
	}
	return out
}

// BothWays adds the other direction to a row of a half-duplex device, whose line carries one
// direction at a time.
func BothWays(l *diagnose.Look, d *Device, direction string, row *diagnose.Row) *diagnose.Row {
	if d.Duplex != "half" || row == nil {
		return row
	}
	other := OnLine(l, d, map[string]string{"tx": "rx", "rx": "tx"}[direction])
	out := row.With(append([]float64(nil), row.Values...))
	for c := range out.Values {
		out.Values[c] += series.Or(other.At(c), 0)
	}
	return out
}

// LimitOf returns the lowest real limit of a device in one direction, else the reason why there is
// none.
func LimitOf(l *diagnose.Look, d *Device, direction string) Capacity {
	lim := Capacity{Why: "its speed is unknown"}
	set := l.Table(DeviceModes).One("netns", d.NetNS, "device", d.Name, "list",
		"supported").Max() > 0
	for _, r := range l.Table(DeviceCapacity).Where("netns", d.NetNS, "device", d.Name, "direction",
		direction) {
		one := d.capacity(r.Last(), r.Word("from"), set)
		if one.Bits > 0 && (lim.Bits == 0 || one.Bits < lim.Bits) || lim.Bits == 0 &&
			one.Why != "" && r.Word("from") != "unknown" {
			lim = one
		}
	}
	return lim
}

// FullDirection is the subject of a finding about a full link: "rx" or "tx".
type FullDirection string
