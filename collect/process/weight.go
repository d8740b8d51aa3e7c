package process

import (
	"bytes"
	"cmp"
	"slices"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
)

// weightReading reads the share of the CPUs to which processes are entitled.
type weightReading struct {
	sample    []*process // most CPU time and waits first
	autogroup tristate   // whether the kernel groups sessions
}

const (
	// wantsLong is the share of the interval that a process used a CPU or waited for one, in which
	// it is looked at.
	wantsLong = 0.05
	// mostWeights is how many processes have a row, at three files each.
	mostWeights = 64
	// weightIdle is the weight of SCHED_IDLE: WEIGHT_IDLEPRIO in kernel/sched/sched.h.
	weightIdle = 3
	// policies of sched(7)
	schedBatch = 3
	schedIdle  = 5
	schedExt   = 7
)

// weightOf returns the weight of a nice value, -20 to 19: sched_prio_to_weight in
// kernel/sched/core.c. A step is a factor of 1.25.
func weightOf(nice int32) float64 {
	return [40]float64{88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548,
		7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272,
		215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15}[min(max(nice, -20), 19)+20]
}

// putWeights puts how the scheduler weighs each process that used a CPU or waited for one: that of
// its thread that did so longest.
func (r *processReading) putWeights(out *collect.Out) {
	t := out.Table("process.weight")
	if t == nil || out.First {
		return
	}
	w := &r.weights
	w.sample = w.sample[:0]
	least := wantsLong * float64(out.Over().Span())
	for _, p := range r.procs {
		if p.ran && !p.dead && p.wanted() >= least {
			w.sample = append(w.sample, p)
		}
	}
	slices.SortStableFunc(w.sample, func(a, b *process) int {
		return cmp.Compare(b.wanted(), a.wanted())
	})
	for _, p := range w.sample[:min(len(w.sample), mostWeights)] {
		r.putWeight(out, t, p)
	}
	clear(w.sample)
}

// putWeight puts the weight of a process.
func (r *processReading) putWeight(out *collect.Out, t *collect.Table, p *process) {
	stat, base := &p.stat, ""
	if p.split {
		th := mostWanting(p.threads)
		if th == nil {
			return
		}
		stat, base = &th.stat, th.base
	}
	policy, weight := "OTHER", weightOf(stat.nice)
	switch stat.policy {
	case schedBatch:
		policy = "BATCH"
	case schedIdle:
		policy, weight = "IDLE", weightIdle
	case schedExt:
		policy = "EXT"
	case schedFIFO, schedRR, schedDeadline:
		policy, weight = policyName(stat.policy), 0
	}
	group, session, allowed := "", "", ""
	if b, err := r.readOnce(p.pid, base+"cgroup"); err == nil {
		group = string(appendClean(nil, cpuGroup(b)))
	}
	if r.groupsSessions() { // it has no file per thread
		if b, err := r.readOnce(p.pid, "autogroup"); err == nil {
			session = string(parseAutogroup(b))
		}
	}
	if b, err := r.readOnce(p.pid, base+"status"); err == nil {
		allowed = string(parseAllowed(b))
	}
	pid, name := p.name.of(out, p.pid, p.comm)
	t.Put(weight, pid, name, out.Label(policy), out.Number(int64(stat.nice)), out.Label(group),
		out.Label(session), out.Label(allowed))
}

// wanted returns how long a process used a CPU or waited for one within the interval.
func (p *process) wanted() float64 { return known(p.delta.usr, p.delta.sys, p.delta.wait) }

// known returns the sum of the values that are known.
func known(values ...float64) (sum float64) {
	for _, v := range values {
		if v > 0 {
			sum += v
		}
	}
	return sum
}

// mostWanting returns the thread that used a CPU or waited for one longest; nil when none did.
func mostWanting(threads []*thread) (most *thread) {
	wants := func(t *thread) float64 { return known(t.delta.usr, t.delta.sys, t.delta.wait) }
	for _, t := range threads {
		if t.ran && !t.gone && wants(t) > 0 && (most == nil || wants(t) > wants(most)) {
			most = t
		}
	}
	return most
}

// groupsSessions reports whether the kernel puts each session in a group of its own: autogroup, see
// sched(7). It is asked once.
func (r *processReading) groupsSessions() bool {
	w := &r.weights
	if w.autogroup == unknownYet {
		w.autogroup = no
		b, err := proc.ReadProc(r.root, "sys/kernel/sched_autogroup_enabled", nil)
		if err == nil && len(b) > 0 && b[0] == '1' {
			w.autogroup = yes
		}
	}
	return w.autogroup == yes
}

// cpuGroup returns the control group by which CPU time is divided, of /proc/PID/cgroup: the path in
// the version 1 hierarchy of the controller cpu, or else in the unified hierarchy. The path is part
// of b; nil when there is none.
func cpuGroup(b []byte) (path []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		_, rest, _ := bytes.Cut(line, []byte(":"))
		names, at, ok := bytes.Cut(rest, []byte(":"))
		switch {
		case !ok || len(at) == 0:
		case len(names) == 0 && path == nil:
			path = at
		default:
			for name := range bytes.SplitSeq(names, []byte(",")) {
				if string(name) == "cpu" {
					return at
				}
			}
		}
	}
	return path
}

// parseAutogroup returns the number and the nice value of the group in /proc/PID/autogroup: "25:0"
// of "/autogroup-25 nice 0". It is nil for anything else, as the empty text of a task that is in no
// autogroup.
func parseAutogroup(b []byte) []byte {
	rest, ok := bytes.CutPrefix(bytes.TrimSpace(b), []byte("/autogroup-"))
	number, nice, cut := bytes.Cut(rest, []byte(" nice "))
	if !ok || !cut || len(rest) > 32 || len(number) == 0 || len(nice) == 0 ||
		len(bytes.Trim(number, "0123456789")) > 0 || len(bytes.Trim(nice, "-0123456789")) > 0 {
		return nil
	}
	return append(append(append([]byte(nil), number...), ':'), nice...)
}
