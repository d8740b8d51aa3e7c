package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// busyPolling finds programs that ask for events again and again in place of sleeping until there
// is one: epoll_wait, poll or select without a timeout, sched_yield, reads that return EAGAIN.
func busyPolling() diagnose.Rule {
	return diagnose.Rule{
		ID: "busy-polling", Checks: "programs that poll",
		Needs: []string{facts.StackSamples, facts.StackRate},
		Finds: []string{facts.ProcessCPU},
		Uses: []string{facts.CPUTime, facts.ProcessSwitches, facts.ProcessCallBytes,
			facts.FlowBytes},
		Traced: []string{facts.FailedCalls},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ProcessCPU)
			k, ok := facts.EnoughSamples(l)
			if !ok {
				return
			}
			for _, p := range facts.Programs(t, t.Rows, nil) {
				if p.Rate < threshold.PollCPU*threshold.LeastShare {
					break
				}
				if o, ok := pollerOf(l, k, p); ok {
					o.accuse(l, k)
				}
			}
		},
	}
}

// A poller is a program that polls.
type poller struct {
	program facts.Program
	s       diagnose.Period
	cpu     float64            // CPUs that it uses
	calls   map[string]float64 // CPUs in calls that poll
	cost    float64            // sum of calls
	traced  float64            // CPUs for tracing its system calls
	empty   map[string]float64 // reads per second that return EAGAIN, by call; empty: not traced
}

// pollerOf returns what a program spends on polling; false when that is little.
func pollerOf(l *diagnose.Look, k *facts.Samples, p facts.Program) (*poller, bool) {
	t := l.Table(facts.ProcessCPU)
	s, ok := diagnose.Lasting(t, nil, func(c int) bool { return p.Series[c] >= threshold.PollCPU })
	if !ok || !k.Enough(s.Mask) {
		return nil, false
	}
	o := &poller{program: p, s: s, cpu: t.Mean(p.Series, s.Mask), calls: map[string]float64{},
		empty: map[string]float64{}}
	for _, r := range l.Table(facts.FailedCalls).Where("process", p.Name, "error", "EAGAIN") {
		if v := r.Mean(s.Mask); v > 0 && readsOrAccepts(r.Word("syscall")) {
			o.empty[r.Word("syscall")] += v
		}
	}
	empty := o.findNothing(l)
	want := k.OfProgram(p)
	named, enters := 0.0, 0.0
	for _, r := range k.Rows {
		if !want(r) || r.Entry.Kind != facts.InCall {
			continue
		}
		v := k.Share(r, s.Mask)
		if facts.EntersOnly(r) {
			if enters += v; len(r.Path) > 1 {
				o.traced += v
			}
			continue
		}
		named += v
		if call := facts.Polls(r, empty); call != "" {
			o.calls[call] += v
		}
	}
	for call, v := range o.calls {
		o.calls[call] += enters * v / named
	}
	o.cost = facts.Total(o.calls)
	return o, o.cost > 0 && o.cost >= threshold.PollShare*o.cpu
}

// findNothing returns the calls that nearly always find nothing. Event loops read until there is
// nothing more, and then sleep: they move data, or sleep about as often.
func (o *poller) findNothing(l *diagnose.Look) map[string]bool {
	n := l.Table(facts.ProcessSwitches)
	sleeps := series.Or(n.Mean(n.Sum(n.Where("process", o.program.Name, "type", "voluntary")),
		o.s.Mask), 0)
	moved := facts.BytesMoved(l, o.program.Name, o.s.Mask)
	empty := map[string]bool{}
	for call, rate := range o.empty {
		empty[call] = rate >= threshold.PollEmpty && rate >= threshold.PollSleeps*sleeps &&
			moved < threshold.PollBytes*rate
	}
	return empty
}

// readsOrAccepts reports whether a call that fails with EAGAIN found nothing to read.
func readsOrAccepts(call string) bool {
	switch call {
	case "read", "readv", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4", "mq_timedreceive",
		"msgrcv":
		return true
	}
	return false
}

func (o *poller) accuse(l *diagnose.Look, k *facts.Samples) {
	t, p, s := l.Table(facts.ProcessCPU), o.program, o.s
	idle := facts.MachineOf(l.Table(facts.CPUTime)).Share(s.Mask, "idle", "iowait")
	severity := diagnose.Low
	if o.cost >= threshold.PollMuch && idle < threshold.CPUNearlyIdle {
		severity = diagnose.Medium
	}
	call := facts.Largest(o.calls)
	f := l.Found(p.Identity(), severity, 0.8, p.Culprit(), fmt.Sprintf(
		"%s polls: it spends %s of its CPU time (%s CPUs) on system call %s for %s, and does "+
			"not sleep there.", p, phrase.Percent(min(o.cost/o.cpu, 1)), phrase.Digits(o.cost),
		phrase.Clean(call), s))
	f.SetEffect(min(o.cost, 1))
	f.AddEvidence(k.Table, s, p.Query(k.Table, "kernel"), o.calls[call], "CPU", fmt.Sprintf(
		"system call %s takes %s of a CPU without sleeping (sampled)", phrase.Clean(call),
		phrase.Percent(o.calls[call])))
	if rate := o.empty[call]; rate > 0 {
		q := l.Table(facts.FailedCalls)
		f.AddEvidence(q, s, q.QueryOf(nil, "process", p.Name, "syscall", call, "error", "EAGAIN"),
			rate, q.Unit, phrase.Count(rate)+" calls of it per second find nothing (EAGAIN)")
	}
	f.AddEvidence(t, s, p.Query(t), o.cpu, t.Unit, fmt.Sprintf(
		"it uses %s of a CPU, %s of that in the kernel", phrase.Percent(o.cpu),
		phrase.Percent(facts.KernelShare(p, s.Mask))))
	n := l.Table(facts.ProcessSwitches)
	rows := n.Where("process", p.Name, "type", "voluntary")
	if rate := n.Mean(n.Sum(rows), s.Mask); rate >= 0 {
		f.AddEvidence(n, s, n.QueryOf(nil, "process", p.Name, "type", "voluntary"), rate, n.Unit,
			"it goes to sleep "+phrase.Count(rate)+" times per second")
	}
	if call == "sched_yield" {
		f.AddCaveat(0.1, "It waits for another thread or for a time. A lock or a condition that "+
			"sleeps (futex) uses no CPU time.")
	} else {
		f.AddCaveat(0.1, "Some programs poll on purpose, for short latency, and a poll or select "+
			"of thousands of files looks the same. A call with a timeout sleeps until an event.")
	}
	if o.traced >= threshold.FunctionLine*o.cost {
		f.AddCaveat(0, "Its system calls are traced, as by this diagnosis: a part of the "+
			"time is for that.")
	}
	f.Verify = fmt.Sprintf("culprit profile --pid %d --kernel --for 10s; strace -c -f -p %[1]d",
		p.PID())
	f.Cover("cpu-one-saturated", func(x *diagnose.Finding) bool { return facts.SameProgram(f, x) })
	f.Cover("kernel-function", func(x *diagnose.Finding) bool {
		on := facts.SubjectFunction(x)
		return on.Process == p.Name && o.calls[on.Entry.Name] > 0
	})
}
