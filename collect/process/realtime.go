package process

import (
	"culprit/collect"
)

// Policies of sched(7) that precede all others, include/uapi/linux/sched.h.
const (
	schedFIFO     = 1
	schedRR       = 2
	schedDeadline = 6
)

// policyName returns the name of a real-time policy as chrt(1) prints it, "" for another policy.
func policyName(policy uint64) string {
	switch policy {
	case schedFIFO:
		return "FIFO"
	case schedRR:
		return "RR"
	case schedDeadline:
		return "DEADLINE"
	}
	return ""
}

// putRealtime puts the threads with a real-time policy that ran within the interval.
func (r *processReading) putRealtime(out *collect.Out) {
	t := out.Table("thread.realtime")
	if t == nil {
		return
	}
	for _, p := range r.procs {
		if !p.ran || p.dead {
			continue
		}
		pid, name := p.name.of(out, p.pid, p.comm)
		if policy := policyName(p.stat.policy); policy != "" && !p.split {
			t.Put(float64(p.stat.realtime), pid, name, pid, name, out.Label(policy),
				out.Number(int64(p.stat.cpu)))
		}
		for _, th := range p.threads {
			if policy := policyName(th.stat.policy); policy != "" && p.split && th.ran && !th.gone {
				tid, its := th.name.of(out, th.tid, th.comm)
				t.Put(float64(th.stat.realtime), pid, name, tid, its, out.Label(policy),
					out.Number(int64(th.stat.cpu)))
			}
		}
	}
}
