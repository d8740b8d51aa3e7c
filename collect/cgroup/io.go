package cgroup

import (
	"slices"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// parseDeviceNumber parses "254:0" as major<<32 | minor.
func parseDeviceNumber(w []byte) (uint64, bool) {
	major, minor := procfs.CutAt(w, ':')
	a, err := proc.ParseUint(major)
	b, err2 := proc.ParseUint(minor)
	return a<<32 | b, err == nil && err2 == nil && a < 1<<32 && b < 1<<32
}

// parseIOLine2 parses a line of io.stat: "254:0 rbytes=90430464 wbytes=299008000 rios=8950
// wios=1252 dbytes=50331648 dios=3021". A device without I/O may have only its number.
func parseIOLine2(line []byte) (text []byte, device uint64, counts ioCounts, has ioKeys, ok bool) {
	c := proc.Scan(line)
	text = c.Word()
	if device, ok = parseDeviceNumber(text); !ok {
		return nil, 0, counts, has, false
	}
	for w := c.Word(); w != nil; w = c.Word() {
		key, value := procfs.CutAt(w, '=')
		to := -1
		switch string(key) {
		case "rbytes":
			to = 0
		case "wbytes":
			to = 1
		case "dbytes":
			to = 2
		case "rios":
			to = 3
		case "wios":
			to = 4
		case "dios":
			to = 5
		}
		if to >= 0 {
			v, err := proc.ParseUint(value)
			if err != nil {
				return nil, 0, counts, has, false
			}
			counts[to], has[to] = v, true
		}
	}
	return text, device, counts, has, true
}

// ioCounts are the bytes read, written and discarded, and the operations of each.
type ioCounts [6]uint64

// ioKeys is which of ioCounts a line or a group of lines has.
type ioKeys [6]bool

// sawIO records which kinds of I/O a group counts: a file has bytes, operations or both. A device
// without I/O may have only its number.
func (r *cgroupReading) sawIO(has ioKeys, bytes, operations bool) {
	if has == (ioKeys{}) {
		return
	}
	for i, there := range has {
		if i < 3 && bytes {
			r.keyedBy(ckRead+cgroupKey(i), there)
		}
		if i >= 3 && operations {
			r.keyedBy(ckServed+cgroupKey(i-3), there)
		}
	}
}

func (r *cgroupReading) putIO2(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	known := n.states[file].round == r.round-1 && r.round > 1
	r.ioThere = true
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		text, device, counts, has, ok := parseIOLine2(line)
		if !ok {
			continue
		}
		r.sawIO(has, true, true)
		changed = r.putDevice(out, n, &n.devices, known, text, device, counts) || changed
	}
	return true, changed || !known
}

// putIO1 parses blkio.throttle.io_service_bytes_recursive: "254:0 Read 4096\n254:0 Write 0\n254:0
// Sync ..\n ... Total". The lines of a device are adjacent.
func (r *cgroupReading) putIO1(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	return r.putLines1(out, n, &n.devices, 0, file, b)
}

// putServed1 parses blkio.throttle.io_serviced_recursive, which has the same lines.
func (r *cgroupReading) putServed1(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	return r.putLines1(out, n, &n.served, 3, file, b)
}

// putLines1 puts the lines of a file. at is the place of its reads in ioCounts.
func (r *cgroupReading) putLines1(
	out *collect.Out, n *cgroupNode, list *[]cgroupDevice, at, file int, b []byte,
) (had, changed bool) {
	known := n.states[file].round == r.round-1 && r.round > 1
	r.ioThere = true
	var text []byte
	var device uint64
	var counts ioCounts
	var has ioKeys
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		c := proc.Scan(line)
		w := c.Word()
		d, ok := parseDeviceNumber(w)
		if !ok { // the last line, "Total 0"
			continue
		}
		if text != nil && d != device {
			r.sawIO(has, at == 0, at == 3)
			changed = r.putDevice(out, n, list, known, text, device, counts) || changed
			counts, has = ioCounts{}, ioKeys{}
		}
		text, device = w, d
		what := c.Word()
		v := c.Uint()
		if c.Err() != nil {
			continue
		}
		switch string(what) {
		case "Read":
			counts[at], has[at] = v, true
		case "Write":
			counts[at+1], has[at+1] = v, true
		case "Discard":
			counts[at+2], has[at+2] = v, true
		}
	}
	if text != nil {
		r.sawIO(has, at == 0, at == 3)
		changed = r.putDevice(out, n, list, known, text, device, counts) || changed
	}
	return true, changed || !known
}

// putDevice puts the I/O of a group at one device and reports whether there was any. A device that
// the group had not used before starts at zero if the previous reading has its I/O.
func (r *cgroupReading) putDevice(
	out *collect.Out, n *cgroupNode, list *[]cgroupDevice, known bool, text []byte,
	number uint64, counts ioCounts,
) bool {
	at := slices.IndexFunc(*list, func(d cgroupDevice) bool { return d.number == number })
	ok := out.First && out.SinceBoot
	if at < 0 {
		at = len(*list)
		*list = append(*list, cgroupDevice{number: number})
		ok = ok || !out.First && (known || n.born == r.round)
	} else {
		ok = ok || !out.First && (*list)[at].round == r.round-1
	}
	d := &(*list)[at]
	d.round = r.round
	changed := d.last != counts
	if ok && changed {
		name := out.Label(r.deviceName(text, number))
		for i := range counts {
			t := out.Table([2]measure.StatID{"cgroup.io", "cgroup.io.operations"}[i/3])
			if t == nil {
				continue
			}
			v := float64(counts[i] - d.last[i])
			if counts[i] < d.last[i] {
				v = measure.NaN
				out.MarkReset()
			}
			putSome(t, v, n.name.label, name, r.word([3]int{cgRead, cgWrite, cgDiscard}[i%3]))
		}
	}
	d.last = counts
	return changed
}

// ioLimitReader returns a reader of blkio.throttle.read_bps_device or write_bps_device: "254:0
// 1048576" for each device with a limit.
func ioLimitReader(
	direction int,
) func(*cgroupReading, *collect.Out, *cgroupNode, int, []byte) (bool, bool) {
	return func(
		r *cgroupReading, _ *collect.Out, n *cgroupNode, _ int, b []byte,
	) (had, changed bool) {
		r.keyedBy(ckIOLimit, true)
		n.ioLimits[direction] = n.ioLimits[direction][:0]
		for len(b) > 0 {
			var line []byte
			line, b = procfs.CutLine(b)
			c := proc.Scan(line)
			text := c.Word()
			number, ok := parseDeviceNumber(text)
			if rate := c.Uint(); ok && c.Err() == nil {
				n.addIOLimit(direction, text, number, rate)
			}
		}
		return true, true
	}
}

// addIOLimit adds a limit of at most noLimit.
func (n *cgroupNode) addIOLimit(direction int, text []byte, number, rate uint64) {
	if rate > 0 && rate < noLimit {
		n.ioLimits[direction] = append(n.ioLimits[direction],
			ioLimit{number, string(text), float64(rate)})
	}
}

// putIOMax parses io.max: "8:16 rbps=2097152 wbps=max riops=max wiops=120" for each device with a
// limit.
func (r *cgroupReading) putIOMax(
	_ *collect.Out, n *cgroupNode, _ int, b []byte,
) (had, changed bool) {
	r.keyedBy(ckIOLimit, true)
	for i := range n.ioLimits {
		n.ioLimits[i] = n.ioLimits[i][:0]
	}
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		c := proc.Scan(line)
		text := c.Word()
		number, ok := parseDeviceNumber(text)
		if !ok {
			continue
		}
		for w := c.Word(); w != nil; w = c.Word() {
			key, value := procfs.CutAt(w, '=')
			rate, err := proc.ParseUint(value) // "max" is not a number
			switch {
			case err != nil:
			case string(key) == "rbps":
				n.addIOLimit(0, text, number, rate)
			case string(key) == "wbps":
				n.addIOLimit(1, text, number, rate)
			case string(key) == "riops":
				n.addIOLimit(2, text, number, rate)
			case string(key) == "wiops":
				n.addIOLimit(3, text, number, rate)
			}
		}
	}
	return true, true
}

// putIOLimits puts the limits of the files in got and of those that are unchanged.
func (r *cgroupReading) putIOLimits(out *collect.Out, n *cgroupNode, got uint32) {
	for i, bit := range [4]uint32{gotReadLimit, gotWriteLimit, gotReadOpsLimit, gotWriteOpsLimit} {
		t, factor := out.Table("cgroup.io.limit"), 8.0
		if i >= 2 {
			t, factor = out.Table("cgroup.io.operations.limit"), 1
		}
		if t == nil || got&bit == 0 {
			continue
		}
		for _, l := range n.ioLimits[i] {
			t.Put(factor*l.rate, n.name.label, out.Label(r.deviceName([]byte(l.text), l.number)),
				r.word([2]int{cgRead, cgWrite}[i%2]))
		}
	}
}
