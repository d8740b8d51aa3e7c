package facts

import (
	"culprit/diagnose"
	"culprit/diagnose/series"
)

// Headers of the segments of a super-frame that the device counts once: 6 % of full segments of 1,448 B; and preamble, gap
// and FCS of each frame it counts, in bytes. What a line carries can't be more.
const lineSlack, lineFrame = 1.25, 24.0

// OnLine gives the row of what the device carries on its line. The estimate of net.device.wire may count what the driver was
// given and threw away; where it contradicts the device's own count of bytes and packets, those count.
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

// BothWays adds the other direction to a row of a half-duplex device, whose line carries one at a time.
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

// LimitOf gives the tightest limit of a device's direction that is to be believed, else why there is none.
func LimitOf(l *diagnose.Look, d *Device, direction string) Capacity {
	lim := Capacity{Why: "its speed is unknown"}
	set := l.Table(DeviceModes).One("netns", d.NetNS, "device", d.Name, "list", "supported").Max() > 0
	for _, r := range l.Table(DeviceCapacity).Where("netns", d.NetNS, "device", d.Name, "direction", direction) {
		one := d.capacity(r.Last(), r.Word("from"), set)
		if one.Bits > 0 && (lim.Bits == 0 || one.Bits < lim.Bits) || lim.Bits == 0 && one.Why != "" && r.Word("from") != "unknown" {
			lim = one
		}
	}
	return lim
}
