package process

import (
	"culprit/collect"
	"culprit/collect/procfs"
)

// lostClock compares the CPU time of the machine with that of its processes.
type lostClock struct {
	text  procfs.Stat
	last  uint64
	known bool
	left  float64 // the difference that was not yet put
}

// putLost puts the CPU time that is in no process. The machine's time is sampled at each tick, so
// less than two ticks for each CPU prove nothing and are kept for the next reading.
func (r *processReading) putLost(out *collect.Out, sum float64) {
	t, l := out.Table("process.lost"), &r.busy
	if t == nil || r.stat == nil {
		return
	}
	b, err := r.stat.ReadOne()
	if err == nil {
		err = l.text.Parse(b, true)
	}
	if err != nil || l.text.BadCPU || l.text.Has&procfs.HasAll == 0 {
		t.Unmeasured("/proc/stat could not be read, or has no sum of the CPUs")
		l.known = false
		return
	}
	all := &l.text.All
	now := (all[procfs.CPUUser] + all[procfs.CPUNice] + all[procfs.CPUSystem]) * r.tick
	if l.known && now >= l.last {
		l.left += float64(now-l.last) - sum
	}
	l.last, l.known = now, true
	noise := 2 * float64(r.tick) * float64(max(1, len(l.text.CPUs)))
	lost := 0.0
	if l.left > noise {
		lost, l.left = l.left, 0
	}
	l.left = max(l.left, -noise)
	t.Put(lost)
}
