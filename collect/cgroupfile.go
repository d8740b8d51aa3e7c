package collect

import (
	"slices"

	"culprit/kernel"
	"culprit/measure"
)

// cgroupFile is a file that each group of a hierarchy may have.
type cgroupFile struct {
	name       string
	v2         bool
	controller string // version 1: the hierarchy that has it
	stats      []measure.StatID
	bit        uint32 // of what it gives: where two hierarchies have it, the first counts
	when       cgroupWhen
	pulse      bool // its growth says that the group used CPU
	// read takes in the text. had: it says what it should. changed: it says something else than at the reading before, or that is not known.
	read func(r *cgroupReading, out *Out, n *cgroupNode, file int, b []byte) (had, changed bool)
}

// cgroupWhen says when a file need not be read.
type cgroupWhen uint8

const (
	whenParent cgroupWhen = iota // its counters are within the parent's: when those stood still
	whenBefore                   // when the file before it in the list stood still
	whenActive                   // when the group is quiet, but each eighth time
	whenMemory                   // when the memory in use is the same, but each eighth time
	whenTurn                     // but each sixteenth time: a setting
)

// What files give, for cgroupFile.bit.
const (
	gotCPU = 1 << iota
	gotThrottling
	gotQuota
	gotCurrent
	gotLimit
	gotHigh
	gotKinds
	gotKernel
	gotEvents
	gotKills
	gotIO
	gotPids
	gotPressureCPU
	gotPressureMemory
	gotPressureIO
	gotPressureIrq
)

// allCgroupFiles lists what is read. Files that complete one another stand together, the one that is only held first.
func allCgroupFiles() []cgroupFile {
	stats := func(ids ...measure.StatID) []measure.StatID { return ids }
	memory := stats("cgroup.memory")
	pressure := stats("cgroup.pressure.time")
	return []cgroupFile{
		{"cpuacct.usage", false, "cpuacct", stats("cgroup.cpu"), 0, whenParent, true, (*cgroupReading).holdUsage},
		{"cpuacct.stat", false, "cpuacct", stats("cgroup.cpu"), gotCPU, whenBefore, false, (*cgroupReading).putUsage},
		{"cpu.stat", false, "cpu", stats("cgroup.periods", "cgroup.throttled"), gotThrottling, whenActive, false, (*cgroupReading).putThrottling},
		{"cpu.cfs_period_us", false, "cpu", stats("cgroup.quota"), 0, whenTurn, false, (*cgroupReading).holdNumber},
		{"cpu.cfs_quota_us", false, "cpu", stats("cgroup.quota"), gotQuota, whenTurn, false, (*cgroupReading).putQuota1},
		{"memory.usage_in_bytes", false, "memory", memory, gotCurrent, whenActive, false, levelReader(clCurrent)},
		{"memory.limit_in_bytes", false, "memory", memory, gotLimit, whenTurn, false, levelReader(clLimit)},
		{"memory.stat", false, "memory", memory, gotKinds, whenMemory, false, (*cgroupReading).putKinds},
		{"memory.kmem.usage_in_bytes", false, "memory", memory, gotKernel, whenMemory, false, levelReader(clKernel)},
		{"memory.failcnt", false, "memory", stats("cgroup.memory.events"), gotEvents, whenActive, false, (*cgroupReading).putFailures},
		{"memory.oom_control", false, "memory", stats("cgroup.memory.events"), gotKills, whenActive, false, (*cgroupReading).putKills},
		{"blkio.throttle.io_service_bytes_recursive", false, "blkio", stats("cgroup.io"), gotIO, whenParent, false, (*cgroupReading).putIO1},
		{"pids.current", false, "pids", stats("cgroup.pids"), gotPids, whenActive, false, levelReader(clPids)},

		{"cpu.stat", true, "", stats("cgroup.cpu", "cgroup.periods", "cgroup.throttled"), gotCPU | gotThrottling, whenParent, true, (*cgroupReading).putCPU},
		{"cpu.max", true, "", stats("cgroup.quota"), gotQuota, whenTurn, false, (*cgroupReading).putQuota2},
		{"memory.current", true, "", memory, gotCurrent, whenActive, false, levelReader(clCurrent)},
		{"memory.max", true, "", memory, gotLimit, whenTurn, false, levelReader(clLimit)},
		{"memory.high", true, "", memory, gotHigh, whenTurn, false, levelReader(clHigh)},
		{"memory.stat", true, "", memory, gotKinds | gotKernel, whenMemory, false, (*cgroupReading).putKinds},
		{"memory.events", true, "", stats("cgroup.memory.events"), gotEvents | gotKills, whenParent, false, (*cgroupReading).putEvents},
		{"io.stat", true, "", stats("cgroup.io"), gotIO, whenParent, false, (*cgroupReading).putIO2},
		{"pids.current", true, "", stats("cgroup.pids"), gotPids, whenActive, false, levelReader(clPids)},
		// Who is held up in a child is so in its parent: a "some" that stood still there stood still here.
		{"cpu.pressure", true, "", pressure, gotPressureCPU, whenParent, false, pressureReader(cgCPU)},
		{"memory.pressure", true, "", pressure, gotPressureMemory, whenParent, false, pressureReader(cgMemory)},
		{"io.pressure", true, "", pressure, gotPressureIO, whenParent, false, pressureReader(cgIO)},
		{"irq.pressure", true, "", pressure, gotPressureIrq, whenParent, false, pressureReader(cgIrq)},
	}
}

// diff compares the counters of a file of a group with the reading before. ok is false when there is nothing to compare with; changed is true
// then too. A counter that went backwards gives NaN.
func (r *cgroupReading) diff(out *Out, n *cgroupNode, file int, now ...uint64) (delta []float64, ok, changed bool) {
	s := &n.states[file]
	known := s.round == r.round-1 && s.round > 0
	if !known {
		s.last = [5]uint64{}
	}
	ok = known && !out.First || n.born == r.round && !out.First || out.First && out.SinceBoot
	for i, v := range now {
		r.delta[i] = float64(v - s.last[i])
		if v < s.last[i] {
			r.delta[i] = measure.NaN
			out.reset = out.reset || ok
		}
		changed = changed || v != s.last[i]
		s.last[i] = v
	}
	return r.delta[:len(now)], ok, changed || !known
}

// putSome puts a row of a sparse statistic unless it is zero.
func putSome(t *Table, v float64, labels ...measure.Label) {
	if v != 0 {
		t.Put(v, labels...)
	}
}

func (r *cgroupReading) word(i int) measure.Label { return r.words.labels[i] }

// holdUsage reads cpuacct.usage, which is exact: nanoseconds that the scheduler measured. It keeps the growth for putUsage.
func (r *cgroupReading) holdUsage(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	usage, ok := firstNumber(b)
	if !ok {
		return false, true
	}
	var d []float64
	d, r.heldOK, changed = r.diff(out, n, file, usage)
	r.growth = d[0]
	return true, changed
}

// putUsage divides the growth of cpuacct.usage as the ticks of cpuacct.stat grew ("user 54845\nsystem 42917\n"); while those stand
// still, as they did last.
func (r *cgroupReading) putUsage(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	growth, grew := r.growth, r.heldOK
	v, seen := r.parse(b)
	if !seen[cvUser] || !seen[cvSystem] {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v[cvUser], v[cvSystem])
	switch {
	case !ok:
		n.share = shareOf(float64(v[cvUser]), float64(v[cvSystem]), 1)
	default:
		n.share = shareOf(d[0], d[1], n.share)
	}
	if grew {
		t := out.Table("cgroup.cpu")
		putSome(t, growth*n.share, n.name.label, r.word(cgUsr))
		putSome(t, growth*(1-n.share), n.name.label, r.word(cgSys))
	}
	return true, changed
}

// shareOf gives a/(a+b), or otherwise when there is nothing to divide.
func shareOf(a, b, otherwise float64) float64 {
	if a >= 0 && b >= 0 && a+b > 0 {
		return a / (a + b)
	}
	return otherwise
}

// putCPU reads cpu.stat of version 2, in microseconds. It has the lines on throttling only where the cpu controller is on. What a hierarchy of
// version 1 has given of the group already is left out.
func (r *cgroupReading) putCPU(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	v, seen := r.parse(b)
	if !seen[cvUser] || !seen[cvSystem] {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v[cvUser], v[cvSystem], v[cvPeriods], v[cvThrottled], v[cvThrottledMicro])
	if !ok {
		return true, changed
	}
	if n.name.done&gotCPU == 0 {
		t := out.Table("cgroup.cpu")
		putSome(t, d[0]*1e3, n.name.label, r.word(cgUsr))
		putSome(t, d[1]*1e3, n.name.label, r.word(cgSys))
	}
	if n.name.done&gotThrottling == 0 {
		r.putPeriods(out, n, d[2], d[3], d[4]*1e3)
	}
	return true, changed
}

// putThrottling reads cpu.stat of version 1, in nanoseconds.
func (r *cgroupReading) putThrottling(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	v, seen := r.parse(b)
	if !seen[cvPeriods] || !seen[cvThrottled] {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v[cvPeriods], v[cvThrottled], v[cvThrottledNano])
	if ok {
		r.putPeriods(out, n, d[0], d[1], d[2])
	}
	return true, changed
}

func (r *cgroupReading) putPeriods(out *Out, n *cgroupNode, total, throttled, nanoseconds float64) {
	periods := out.Table("cgroup.periods")
	putSome(periods, total, n.name.label, r.word(cgTotal))
	putSome(periods, throttled, n.name.label, r.word(cgThrottled))
	putSome(out.Table("cgroup.throttled"), nanoseconds, n.name.label)
}

// parse reads a file of names and values.
func (r *cgroupReading) parse(b []byte) (*[cgroupValues]uint64, *[cgroupValues]bool) {
	r.layout.parse(b, r.values[:], r.seen[:])
	return &r.values, &r.seen
}

// firstNumber reads a file that is one number.
func firstNumber(b []byte) (uint64, bool) {
	c := kernel.Scan(b)
	v := c.Uint()
	return v, c.Err() == nil
}

func (r *cgroupReading) holdNumber(_ *Out, _ *cgroupNode, _ int, b []byte) (had, changed bool) {
	r.held, r.heldOK = firstNumber(b)
	return r.heldOK, true
}

// setLevel keeps a state of the group; NaN where there is none.
func (n *cgroupNode) setLevel(level int, v float64, there bool) (had, changed bool) {
	if !there {
		v = measure.NaN
	}
	changed = n.levels[level] != v
	n.levels[level] = v
	return true, changed
}

// putQuota1 reads cpu.cfs_quota_us, -1 where there is none; the period is held.
func (r *cgroupReading) putQuota1(_ *Out, n *cgroupNode, _ int, b []byte) (had, changed bool) {
	quota, ok := firstNumber(b)
	return n.setLevel(clQuota, float64(quota)/float64(r.held), ok && r.heldOK && r.held > 0)
}

// putQuota2 reads cpu.max: "max 100000" or "50000 100000".
func (r *cgroupReading) putQuota2(_ *Out, n *cgroupNode, _ int, b []byte) (had, changed bool) {
	c := kernel.Scan(b)
	quota, period := c.Uint(), c.Uint()
	return n.setLevel(clQuota, float64(quota)/float64(period), c.Err() == nil && period > 0)
}

// noLimit and above is how version 1 writes that memory has no limit: LONG_MAX rounded down to a page.
const noLimit = 1 << 62

// levelReader reads a file of one number; "max" in version 2 is no limit.
func levelReader(level int) func(*cgroupReading, *Out, *cgroupNode, int, []byte) (bool, bool) {
	return func(_ *cgroupReading, _ *Out, n *cgroupNode, _ int, b []byte) (had, changed bool) {
		v, ok := firstNumber(b)
		return n.setLevel(level, float64(v), ok && (level != clLimit && level != clHigh || v < noLimit))
	}
}

// putKinds reads memory.stat. Both versions count tmpfs as file; kernel is there in version 2 since 5.18.
func (r *cgroupReading) putKinds(_ *Out, n *cgroupNode, _ int, b []byte) (had, changed bool) {
	v, seen := r.parse(b)
	n.setLevel(clAnon, float64(v[cvAnon]), seen[cvAnon])
	n.setLevel(clFile, float64(v[cvFile]), seen[cvFile])
	n.outer = measure.NaN
	if seen[cvOuter] && v[cvOuter] < noLimit {
		n.outer = float64(v[cvOuter])
	}
	if seen[cvKernel] { // version 1 has a file of its own for it
		n.setLevel(clKernel, float64(v[cvKernel]), true)
	}
	return true, true
}

func (r *cgroupReading) putFailures(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	v, ok := firstNumber(b)
	if !ok {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v)
	if ok {
		putSome(out.Table("cgroup.memory.events"), d[0], n.name.label, r.word(cgMax))
	}
	return true, changed
}

// putKills reads memory.oom_control of version 1, which has "oom_kill N" since 4.13.
func (r *cgroupReading) putKills(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	v, seen := r.parse(b)
	if !seen[cvOOMKill] {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v[cvOOMKill])
	if ok {
		putSome(out.Table("cgroup.memory.events"), d[0], n.name.label, r.word(cgOOMKill))
	}
	return true, changed
}

func (r *cgroupReading) putEvents(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	v, _ := r.parse(b)
	d, ok, changed := r.diff(out, n, file, v[cvHigh], v[cvMax], v[cvOOM], v[cvOOMKill])
	if ok {
		t := out.Table("cgroup.memory.events")
		for i, event := range [4]int{cgHigh, cgMax, cgOOM, cgOOMKill} {
			putSome(t, d[i], n.name.label, r.word(event))
		}
	}
	return true, changed
}

func pressureReader(resource int) func(*cgroupReading, *Out, *cgroupNode, int, []byte) (bool, bool) {
	return func(r *cgroupReading, out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
		some, full, hasSome, hasFull := parsePressure(b)
		if !hasSome && !hasFull {
			return false, true
		}
		d, ok, changed := r.diff(out, n, file, some, full)
		if ok {
			t := out.Table("cgroup.pressure.time")
			if hasSome {
				putSome(t, d[0]*1e3, n.name.label, r.word(resource), r.word(cgSome))
			}
			if hasFull {
				putSome(t, d[1]*1e3, n.name.label, r.word(resource), r.word(cgFull))
			}
		}
		return true, changed
	}
}

// parseDeviceNumber reads "254:0" as major<<32 | minor.
func parseDeviceNumber(w []byte) (uint64, bool) {
	major, minor := cutAt(w, ':')
	a, err := kernel.ParseUint(major)
	b, err2 := kernel.ParseUint(minor)
	return a<<32 | b, err == nil && err2 == nil && a < 1<<32 && b < 1<<32
}

// parseIOLine2 reads a line of io.stat: "254:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021".
// A device without I/O may stand there alone.
func parseIOLine2(line []byte) (text []byte, device uint64, bytes [3]uint64, ok bool) {
	c := kernel.Scan(line)
	text = c.Word()
	if device, ok = parseDeviceNumber(text); !ok {
		return nil, 0, bytes, false
	}
	for w := c.Word(); w != nil; w = c.Word() {
		key, value := cutAt(w, '=')
		to := -1
		switch string(key) {
		case "rbytes":
			to = 0
		case "wbytes":
			to = 1
		case "dbytes":
			to = 2
		}
		if to >= 0 {
			v, err := kernel.ParseUint(value)
			if err != nil {
				return nil, 0, bytes, false
			}
			bytes[to] = v
		}
	}
	return text, device, bytes, true
}

func (r *cgroupReading) putIO2(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	known := n.states[file].round == r.round-1 && r.round > 1
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		if text, device, bytes, ok := parseIOLine2(line); ok && r.putDevice(out, n, known, text, device, bytes) {
			changed = true
		}
	}
	return true, changed || !known
}

// putIO1 reads blkio.throttle.io_service_bytes_recursive: "254:0 Read 4096\n254:0 Write 0\n254:0 Sync ..\n ... Total", lines of a
// device together.
func (r *cgroupReading) putIO1(out *Out, n *cgroupNode, file int, b []byte) (had, changed bool) {
	known := n.states[file].round == r.round-1 && r.round > 1
	var text []byte
	var device uint64
	var bytes [3]uint64
	for len(b) > 0 {
		var line []byte
		line, b = cutLine(b)
		c := kernel.Scan(line)
		w := c.Word()
		d, ok := parseDeviceNumber(w)
		if !ok { // the last line, "Total 0"
			continue
		}
		if text != nil && d != device {
			changed = r.putDevice(out, n, known, text, device, bytes) || changed
			bytes = [3]uint64{}
		}
		text, device = w, d
		what := c.Word()
		v := c.Uint()
		if c.Err() != nil {
			continue
		}
		switch string(what) {
		case "Read":
			bytes[0] = v
		case "Write":
			bytes[1] = v
		case "Discard":
			bytes[2] = v
		}
	}
	if text != nil {
		changed = r.putDevice(out, n, known, text, device, bytes) || changed
	}
	return true, changed || !known
}

// putDevice puts the I/O of a group at one device. A device that the group had never used before starts at zero, if the reading before
// knew of its I/O. It says whether there was any.
func (r *cgroupReading) putDevice(out *Out, n *cgroupNode, known bool, text []byte, number uint64, bytes [3]uint64) bool {
	at := slices.IndexFunc(n.devices, func(d cgroupDevice) bool { return d.number == number })
	ok := out.First && out.SinceBoot
	if at < 0 {
		at = len(n.devices)
		n.devices = append(n.devices, cgroupDevice{number: number})
		ok = ok || !out.First && (known || n.born == r.round)
	} else {
		ok = ok || !out.First && n.devices[at].round == r.round-1
	}
	d := &n.devices[at]
	d.round = r.round
	changed := d.last != bytes
	if ok && changed {
		t, name := out.Table("cgroup.io"), out.Label(r.deviceName(text, number))
		for i, direction := range [3]int{cgRead, cgWrite, cgDiscard} {
			v := float64(bytes[i] - d.last[i])
			if bytes[i] < d.last[i] {
				v, out.reset = measure.NaN, true
			}
			putSome(t, v, n.name.label, name, r.word(direction))
		}
	}
	d.last = bytes
	return changed
}
