package cgroup

import (
	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// diff compares the counters of a group's file with the previous reading. Without one, ok is false
// and changed is true. A counter that went backwards has the growth NaN.
func (r *cgroupReading) diff(
	out *collect.Out, n *cgroupNode, file int, now ...uint64,
) (delta []float64, ok, changed bool) {
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
			if ok {
				out.MarkReset()
			}
		}
		changed = changed || v != s.last[i]
		s.last[i] = v
	}
	return r.delta[:len(now)], ok, changed || !known
}

// putSome puts a row of a sparse statistic unless it is zero.
func putSome(t *collect.Table, v float64, labels ...measure.Label) {
	if v != 0 {
		t.Put(v, labels...)
	}
}

func (r *cgroupReading) word(i int) measure.Label { return r.words.At(i) }

// holdUsage parses cpuacct.usage: nanoseconds that the scheduler measured. It holds the growth for
// putUsage.
func (r *cgroupReading) holdUsage(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	usage, ok := firstNumber(b)
	if !ok {
		r.keyedBy(ckTime, false)
		return false, true
	}
	var d []float64
	d, r.heldOK, changed = r.diff(out, n, file, usage)
	r.growth = d[0]
	return true, changed
}

// putUsage divides the growth of cpuacct.usage like that of the ticks in cpuacct.stat ("user
// 54845\nsystem 42917\n"). If these did not grow, it uses the last share.
func (r *cgroupReading) putUsage(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	growth, grew := r.growth, r.heldOK
	v, seen := r.parse(b)
	if !seen[cvUser] || !seen[cvSystem] {
		r.keyedBy(ckTime, false)
		return false, true
	}
	if grew {
		r.keyedBy(ckTime, true)
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

// shareOf returns a/(a+b), or otherwise if both are 0.
func shareOf(a, b, otherwise float64) float64 {
	if a >= 0 && b >= 0 && a+b > 0 {
		return a / (a + b)
	}
	return otherwise
}

// putCPU parses cpu.stat of version 2, in microseconds. It has throttling lines only if the cpu
// controller is on. It leaves out what a hierarchy of version 1 has already put for the group.
func (r *cgroupReading) putCPU(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	v, seen := r.parse(b)
	timed := seen[cvUser] && seen[cvSystem]
	r.keyedBy(ckTime, timed)
	if n.limited || seen[cvPeriods] || seen[cvThrottled] {
		r.sawThrottling(seen, cvThrottledMicro)
	}
	d, ok, changed := r.diff(
		out, n, file, v[cvUser], v[cvSystem], v[cvPeriods], v[cvThrottled], v[cvThrottledMicro],
	)
	if !ok {
		return true, changed
	}
	if timed && n.name.done&gotCPU == 0 {
		t := out.Table("cgroup.cpu")
		putSome(t, d[0]*1e3, n.name.label, r.word(cgUsr))
		putSome(t, d[1]*1e3, n.name.label, r.word(cgSys))
	}
	if n.name.done&gotThrottling == 0 {
		r.putPeriods(out, n, d[2], d[3], d[4]*1e3)
	}
	return true, changed
}

// putThrottling parses cpu.stat of version 1, in nanoseconds.
func (r *cgroupReading) putThrottling(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	v, seen := r.parse(b)
	r.sawThrottling(seen, cvThrottledNano)
	d, ok, changed := r.diff(out, n, file, v[cvPeriods], v[cvThrottled], v[cvThrottledNano])
	if ok {
		r.putPeriods(out, n, d[0], d[1], d[2])
	}
	return true, changed
}

// sawThrottling records which throttling counters exist. The name of the time differs between
// versions.
func (r *cgroupReading) sawThrottling(seen *[cgroupValues]bool, time int) {
	r.keyedBy(ckPeriods, seen[cvPeriods])
	r.keyedBy(ckThrottledPeriods, seen[cvThrottled])
	r.keyedBy(ckThrottledTime, seen[time])
}

func (r *cgroupReading) putPeriods(
	out *collect.Out, n *cgroupNode, total, throttled, nanoseconds float64,
) {
	periods := out.Table("cgroup.periods")
	putSome(periods, total, n.name.label, r.word(cgTotal))
	putSome(periods, throttled, n.name.label, r.word(cgThrottled))
	putSome(out.Table("cgroup.throttled"), nanoseconds, n.name.label)
}

// parse parses a file of names and values.
func (r *cgroupReading) parse(b []byte) (*[cgroupValues]uint64, *[cgroupValues]bool) {
	r.layout.Parse(b, r.values[:], r.seen[:])
	return &r.values, &r.seen
}

// firstNumber parses a file that is one number.
func firstNumber(b []byte) (uint64, bool) {
	c := proc.Scan(b)
	v := c.Uint()
	return v, c.Err() == nil
}

func (r *cgroupReading) holdNumber(
	_ *collect.Out, _ *cgroupNode, _ int, b []byte,
) (had, changed bool) {
	r.held, r.heldOK = firstNumber(b)
	return r.heldOK, true
}

// setLevel stores a level of the group; NaN if there is none.
func (n *cgroupNode) setLevel(level int, v float64, there bool) (had, changed bool) {
	if !there {
		v = measure.NaN
	}
	changed = n.levels[level] != v
	n.levels[level] = v
	return true, changed
}

// putQuota1 parses cpu.cfs_quota_us, which is -1 without a quota. The period is held.
func (r *cgroupReading) putQuota1(
	_ *collect.Out, n *cgroupNode, _ int, b []byte,
) (had, changed bool) {
	quota, ok := firstNumber(b)
	r.keyedBy(ckQuota, len(b) > 1 && r.heldOK)
	return n.setLevel(clQuota, float64(quota)/float64(r.held), ok && r.heldOK && r.held > 0)
}

// putQuota2 parses cpu.max: "max 100000" or "50000 100000".
func (r *cgroupReading) putQuota2(
	_ *collect.Out, n *cgroupNode, _ int, b []byte,
) (had, changed bool) {
	c := proc.Scan(b)
	quota, period := c.Uint(), c.Uint()
	n.limited = true
	fields := 0
	for w := proc.Scan(b); w.Word() != nil; {
		fields++
	}
	r.keyedBy(ckQuota, fields == 2)
	return n.setLevel(clQuota, float64(quota)/float64(period), c.Err() == nil && period > 0)
}

// weightReader returns a reader of cpu.shares or cpu.weight, which is 0 in an idle group.
func weightReader(
	level int,
) func(*cgroupReading, *collect.Out, *cgroupNode, int, []byte) (bool, bool) {
	return func(
		r *cgroupReading, _ *collect.Out, n *cgroupNode, _ int, b []byte,
	) (had, changed bool) {
		v, ok := firstNumber(b)
		r.keyedBy(ckWeight, ok)
		return n.setLevel(level, float64(v), ok)
	}
}

// putPidsLimit parses pids.max: a number, or "max" for no limit.
func (r *cgroupReading) putPidsLimit(
	_ *collect.Out, n *cgroupNode, _ int, b []byte,
) (had, changed bool) {
	v, ok := firstNumber(b)
	r.keyedBy(ckPidsLimit, len(b) > 1)
	return n.setLevel(clPidsLimit, float64(v), ok)
}

// putPidsRefused parses pids.events: "max 12", since Linux 4.8.
func (r *cgroupReading) putPidsRefused(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	v, seen := r.parse(b)
	r.keyedBy(ckPidsRefused, seen[cvMax])
	if !seen[cvMax] {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v[cvMax])
	if ok {
		putSome(out.Table("cgroup.pids.refusals"), d[0], n.name.label)
	}
	return true, changed
}

// noLimit and above means that version 1 has no memory limit: LONG_MAX rounded down to a page.
const noLimit = 1 << 62

// levelReader returns a reader of a file with one number. "max" in version 2 means no limit.
func levelReader(
	level int,
) func(*cgroupReading, *collect.Out, *cgroupNode, int, []byte) (bool, bool) {
	return func(
		_ *cgroupReading, _ *collect.Out, n *cgroupNode, _ int, b []byte,
	) (had, changed bool) {
		v, ok := firstNumber(b)
		return n.setLevel(
			level, float64(v), ok && (level != clLimit && level != clHigh || v < noLimit),
		)
	}
}

// putKinds parses memory.stat. Both versions count tmpfs as file. Version 2 has kernel since Linux
// 5.18.
func (r *cgroupReading) putKinds(
	_ *collect.Out, n *cgroupNode, _ int, b []byte,
) (had, changed bool) {
	v, seen := r.parse(b)
	n.setLevel(clAnon, float64(v[cvAnon]), seen[cvAnon])
	n.setLevel(clFile, float64(v[cvFile]), seen[cvFile])
	n.outer = measure.NaN
	if seen[cvOuter] && v[cvOuter] < noLimit {
		n.outer = float64(v[cvOuter])
	}
	if seen[cvKernel] { // version 1 has its own file for it
		n.setLevel(clKernel, float64(v[cvKernel]), true)
	}
	return true, true
}

func (r *cgroupReading) putFailures(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	v, ok := firstNumber(b)
	r.keyedBy(ckMax, ok)
	return r.putEvent(out, n, file, v, ok, cgMax)
}

// putEvent puts the growth of v, the only number of a file; ok is false if the file lacks it.
func (r *cgroupReading) putEvent(
	out *collect.Out, n *cgroupNode, file int, v uint64, ok bool, word int,
) (had, changed bool) {
	if !ok {
		return false, true
	}
	d, ok, changed := r.diff(out, n, file, v)
	if ok {
		putSome(out.Table("cgroup.memory.events"), d[0], n.name.label, r.word(word))
	}
	return true, changed
}

// putKills parses memory.oom_control of version 1, which has "oom_kill N" since Linux 4.13.
func (r *cgroupReading) putKills(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	v, seen := r.parse(b)
	r.keyedBy(ckOOMKill, seen[cvOOMKill])
	return r.putEvent(out, n, file, v[cvOOMKill], seen[cvOOMKill], cgOOMKill)
}

func (r *cgroupReading) putEvents(
	out *collect.Out, n *cgroupNode, file int, b []byte,
) (had, changed bool) {
	v, seen := r.parse(b)
	for i, at := range [4]int{cvHigh, cvMax, cvOOM, cvOOMKill} {
		r.keyedBy(ckHigh+cgroupKey(i), seen[at])
	}
	d, ok, changed := r.diff(out, n, file, v[cvHigh], v[cvMax], v[cvOOM], v[cvOOMKill])
	if ok {
		t := out.Table("cgroup.memory.events")
		for i, event := range [4]int{cgHigh, cgMax, cgOOM, cgOOMKill} {
			putSome(t, d[i], n.name.label, r.word(event))
		}
	}
	return true, changed
}

func pressureReader(
	resource int,
) func(*cgroupReading, *collect.Out, *cgroupNode, int, []byte) (bool, bool) {
	return func(
		r *cgroupReading, out *collect.Out, n *cgroupNode, file int, b []byte,
	) (had, changed bool) {
		some, full, hasSome, hasFull := procfs.ParsePressure(b)
		key := ckPressure + cgroupKey(2*(resource-cgCPU))
		if resource != cgIrq { // irq has no line some
			r.keyedBy(key, hasSome)
		}
		r.keyedBy(key+1, hasFull)
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
