package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// tlbShootdowns finds programs with threads on several CPUs that unmap or protect memory so often
// that most CPUs are interrupted for it: each must forget its translations of the addresses.
func tlbShootdowns() diagnose.Rule {
	return diagnose.Rule{
		ID: "tlb-shootdowns", Checks: "TLB shootdowns",
		Needs: []string{facts.StackSamples, facts.StackRate},
		Finds: []string{facts.Interrupts, facts.ProcessCPU},
		Uses:  []string{facts.CPUTime},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.Interrupts)
			k, ok := facts.EnoughSamples(l)
			if !ok {
				return
			}
			rate := t.Sum(t.Where("irq", "TLB"))
			s, ok := diagnose.Lasting(t, nil, func(c int) bool {
				return series.AtOrZero(rate, c) >= threshold.ShootdownRate
			})
			if !ok || !k.Enough(s.Mask) {
				return
			}
			for _, u := range unmappersOf(l, k, s) {
				u.rate = t.Mean(rate, s.Mask)
				u.accuse(l, k, s)
			}
		},
	}
}

// An unmapper is a program that waits for TLB shootdowns.
type unmapper struct {
	program facts.Program
	rate    float64                 // interrupts per second, of all programs
	cost    float64                 // CPUs that wait for the others
	entries map[facts.Entry]float64 // the same by entry into the kernel
	own     map[string]bool         // functions in which it waits
	cpus    map[string]bool         // on which it runs
}

// unmappersOf returns the programs that spend much of their CPU time on waiting for other CPUs, the
// largest user of CPU time first.
func unmappersOf(l *diagnose.Look, k *facts.Samples, s diagnose.Period) (out []*unmapper) {
	pc := l.Table(facts.ProcessCPU)
	for _, p := range facts.Programs(pc, pc.Rows, s.Mask) {
		u := &unmapper{program: p, entries: map[facts.Entry]float64{}, own: map[string]bool{},
			cpus: map[string]bool{}}
		want := k.OfProgram(p)
		for _, r := range k.Rows {
			v := k.Share(r, s.Mask)
			if !want(r) || v <= 0 {
				continue
			}
			u.cpus[r.CPU] = true
			if facts.Shootdown(r) {
				u.cost += v
				u.entries[r.Entry] += v
				u.own[facts.OwnFunction(r.Path)] = true
			}
		}
		if u.cost >= threshold.ShootdownCost && u.cost >= threshold.ShootdownShare*p.Rate {
			out = append(out, u)
		}
	}
	return out
}

func (u *unmapper) accuse(l *diagnose.Look, k *facts.Samples, s diagnose.Period) {
	t, pc, p := l.Table(facts.Interrupts), l.Table(facts.ProcessCPU), u.program
	severity, machine := diagnose.Low, facts.MachineOf(l.Table(facts.CPUTime))
	if facts.CostFelt(machine, u.cost, p.First, s.Mask) {
		severity = diagnose.Medium
	}
	in := facts.Entry{}
	for e, v := range u.entries {
		if v > u.entries[in] || v == u.entries[in] && e.String() < in.String() {
			in = e
		}
	}
	f := l.Found(p.Identity(), severity, 0.85, p.Culprit(), fmt.Sprintf("%s spends %s of its CPU "+
		"time (%s CPUs) on TLB shootdowns for %s, %s: the CPUs on which its threads run are "+
		"interrupted to forget addresses, and it waits for them.", p,
		phrase.Percent(min(u.cost/p.Rate, 1)), phrase.Digits(u.cost), s, in))
	f.SetEffect(min(u.cost, 1))
	f.Subject = facts.MemoryCost(u.cost)
	f.AddEvidence(t, s, t.QueryOf([]string{"cpu"}, "irq", "TLB"), u.rate, t.Unit,
		phrase.Count(u.rate)+" interrupts per second for TLB shootdowns, on all CPUs")
	f.AddEvidence(k.Table, s, p.Query(k.Table, "kernel"), u.cost, "CPU", fmt.Sprintf(
		"waiting for other CPUs takes %s of a CPU (sampled), %s of that %s",
		phrase.Percent(u.cost), phrase.Percent(u.entries[in]/u.cost), in))
	f.AddEvidence(pc, s, p.Query(pc), p.Rate, pc.Unit, fmt.Sprintf(
		"it uses %s of a CPU, on %s, %s of that in the kernel", phrase.Percent(p.Rate),
		phrase.Plural(len(u.cpus), "CPU", "CPUs"),
		phrase.Percent(facts.KernelShare(p, s.Mask))))
	f.AddCaveat(0, "Fewer and larger calls, or memory that is kept, need fewer shootdowns; "+
		"threads on one CPU, or processes in place of threads, need none.")
	f.Verify = fmt.Sprintf("grep TLB /proc/interrupts; culprit profile --pid %d --kernel --for "+
		"10s; strace -c -f -p %[1]d", p.PID())
	f.Cover("page-faults", func(o *diagnose.Finding) bool {
		return facts.SameProgram(f, o) && u.cost >= threshold.FaultMain*facts.MemoryCostOf(o)
	})
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		on := facts.SubjectFunction(o)
		return on.Process == p.Name && u.own[on.Name]
	})
	if severity == diagnose.Medium {
		f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool {
			return u.cost >= threshold.FaultMain*p.Rate && facts.SameProgram(f, o)
		})
	}
}
