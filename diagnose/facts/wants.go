package facts

import (
	"math"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/threshold"
)

// Users returns programs as the users of a resource, in the same order. part returns what the i-th
// program takes, and wants what it would take alone; t is the table that their queries name.
func Users(t *diagnose.Table, programs []Program,
	part, wants func(i int) float64) []attribute.User {
	all := make([]attribute.User, len(programs))
	for i := range programs {
		p := &programs[i]
		all[i] = attribute.User{Name: p.String(), Group: p.Group(), PID: p.PID(), Part: part(i),
			Wants: wants(i), Statistic: p.Query(t)}
	}
	return all
}

// InOrder returns the programs in the order of a division of which they are the first users.
// Programs that take nothing come last.
func InOrder(programs []Program, d *attribute.Result) []Program {
	out := make([]Program, 0, len(programs))
	taken := make([]bool, len(programs))
	for _, i := range d.Order {
		if i < len(programs) {
			out, taken[i] = append(out, programs[i]), true
		}
	}
	for i := range programs {
		if !taken[i] {
			out = append(out, programs[i])
		}
	}
	return out
}

// Together returns the users that are the cause together, as the end of a claim.
func Together(d *attribute.Result) string {
	return "several together: " + d.Names(d.Named)
}

// DiskWants returns which share of the time each program would keep a disk busy alone: parts are
// the shares that it takes now, queue is the mean number of requests at the disk. known is false
// when nothing shows how long programs wait for it.
//
// A thread that waits for a share w of its time, behind queue requests, would wait for
// w / (w + queue * (1 - w)) of the time alone: its own requests take a queue-th of the time, and it
// works in between for as long as now. A thread that the kernel pauses because of dirty pages
// writes as fast as the disk takes it.
func DiskWants(l *diagnose.Look, programs []Program, parts []float64, total, queue float64,
	mask []bool) (wants []float64, known bool) {
	sleepers := l.Table(ProcessSleepers)
	waits, paused := map[string]float64{}, map[string]float64{}
	for _, r := range sleepers.Rows {
		kind := BlockedKind(r.Word("wchan"), "", "", "")
		if v := r.Part(mask); v > 0 && (kind.OnDevice() || r.Word("wchan") == "") {
			waits[r.Word("pid")] += v
			if kind == OnWriteback {
				paused[r.Word("pid")] += v
			}
		}
	}
	delays := map[string]float64{}
	for _, r := range l.Table(ProcessDelay).Where("reason", "blkio") {
		if v := r.Part(mask); v > 0 {
			delays[r.Word("pid")] += v
			known = true
		}
	}
	known = known || sleepers.HasNumbers()
	wants = make([]float64, len(programs))
	for i, p := range programs {
		wants[i] = parts[i]
		for _, pid := range p.pids {
			k := strconv.Itoa(pid)
			if paused[k] >= threshold.DiskPaused {
				wants[i] = total
			}
			wants[i] = max(wants[i], total*busyAlone(max(waits[k], delays[k]), queue))
		}
	}
	return wants, known
}

// busyAlone returns the share of the time for which a process would keep a disk busy if it were
// the only user. waiting is the mean number of its threads that wait for the disk now; queue is the
// mean number of requests before theirs.
func busyAlone(waiting, queue float64) float64 {
	if !(waiting > 0) || !(queue >= 0) {
		return 0
	}
	threads := math.Ceil(waiting)
	w := waiting / threads
	one := w / (w + max(queue, 1)*(1-w))
	return 1 - math.Pow(1-one, threads)
}
