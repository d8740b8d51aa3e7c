package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// switchStorm finds programs that go to sleep and are woken so often that most of their CPU time
// is for that: threads or processes that hand small messages to one another. The kernel's time per
// switch differs by machine: 2 us on hardware, up to 30 us in a virtual machine, which must exit to
// wake another CPU. The program's own time between two switches does not.
func switchStorm() diagnose.Rule {
	return diagnose.Rule{
		ID: "switch-storm", Checks: "context switches",
		Finds: []string{facts.ProcessSwitches, facts.ProcessCPU},
		Uses:  []string{facts.ProcessSleepers, facts.ProcessCallBytes, facts.FlowBytes},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ProcessSwitches)
			var storm []switcher
			for _, p := range facts.Programs(t, t.Where("type", "voluntary"), nil) {
				if w, ok := switcherOf(l, p); ok {
					storm = append(storm, w)
				}
			}
			if len(storm) > 0 {
				accuseStorm(l, storm)
			}
		},
	}
}

// A switcher is a program with little CPU time between two switches.
type switcher struct {
	program facts.Program
	rate    float64 // voluntary switches per second
	cpu     float64 // CPUs
	kernel  float64 // share of them in the kernel
	sleeps  string  // kernel function in which its threads sleep; "": not known
	s       diagnose.Period
}

// switcherOf returns what a program that switches very often does; false for others, for programs
// that wait for a device each time, and for those that move much data with each switch.
func switcherOf(l *diagnose.Look, p facts.Program) (switcher, bool) {
	t, cpu := l.Table(facts.ProcessSwitches), l.Table(facts.ProcessCPU)
	rows := cpu.Where("process", p.Name)
	used, own := cpu.Sum(rows), cpu.Sum(ownCode(rows))
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		rate, busy := series.AtOrZero(p.Series, c), series.AtOrZero(used, c)
		return rate >= threshold.SwitchRate && busy >= threshold.SwitchCPU &&
			busy <= threshold.SwitchCost*rate &&
			series.AtOrZero(own, c) <= threshold.SwitchOwn*rate
	})
	if !ok {
		return switcher{}, false
	}
	w := switcher{program: p, s: s, rate: t.Mean(p.Series, s.Mask), cpu: cpu.Mean(used, s.Mask),
		kernel: facts.KernelShare(facts.Program{Rows: rows}, s.Mask),
		sleeps: sleepsIn(l, p.Name, s.Mask)}
	return w, !facts.BlockedKind(w.sleeps, "", "", "").OnDevice() &&
		facts.BytesMoved(l, p.Name, s.Mask) < threshold.SwitchBytes*w.rate
}

// ownCode returns the rows of CPU time outside the kernel.
func ownCode(rows []*diagnose.Row) (own []*diagnose.Row) {
	for _, r := range rows {
		if r.Word("mode") != "sys" {
			own = append(own, r)
		}
	}
	return own
}

// sleepsIn returns the kernel function in which most threads of a program sleep; "" when none was
// seen.
func sleepsIn(l *diagnose.Look, program string, mask []bool) string {
	functions := map[string]float64{}
	for _, r := range l.Table(facts.ProcessSleepers).Where("process", program) {
		functions[r.Word("wchan")] += series.Or(r.Part(mask), 0)
	}
	return facts.Largest(functions)
}

// accuseStorm adds one finding: the program that switches most often, and those that switch about
// as often, which wake it and are woken by it.
func accuseStorm(l *diagnose.Look, storm []switcher) {
	top := storm[0]
	partners, cpu, rate := []facts.Program{}, 0.0, 0.0
	for _, w := range storm {
		if w.rate < threshold.SwitchPartner*top.rate {
			continue
		}
		partners = append(partners, w.program)
		cpu, rate = cpu+w.cpu, rate+w.rate
	}
	severity := diagnose.Low
	if cpu >= threshold.SwitchMuch {
		severity = diagnose.Medium
	}
	verb, use := "go", "use"
	if len(partners) == 1 {
		verb, use = "goes", "uses"
	}
	t, pc := l.Table(facts.ProcessSwitches), l.Table(facts.ProcessCPU)
	f := l.Found(top.program.Identity(), severity, 0.8, top.program.Culprit(), fmt.Sprintf(
		"%s %s to sleep %s times per second for %s, after %s of CPU time on average, and "+
			"%s %s CPUs.", facts.ShortNames(partners), verb, phrase.Count(rate), top.s,
		phrase.Duration(cpu/rate*1e9), use, phrase.Digits(cpu)))
	f.AddEvidence(t, top.s, top.program.Query(t)+` and type = "voluntary"`, top.rate, t.Unit,
		fmt.Sprintf("%s sleeps %s times per second%s", top.program, phrase.Count(top.rate),
			top.where()))
	f.AddEvidence(pc, top.s, top.program.Query(pc), top.cpu, pc.Unit, fmt.Sprintf(
		"it uses %s of a CPU, %s of that in the kernel", phrase.Percent(top.cpu),
		phrase.Percent(top.kernel)))
	if strings.Contains(top.sleeps, "nanosleep") {
		f.AddCaveat(0, "Timers with a longer period, or one that serves several threads, need "+
			"fewer wake-ups.")
	} else {
		f.AddCaveat(0.1, "A server with many small requests looks the same, when each request is "+
			"waited for alone. Larger messages, or several at once, need fewer switches.")
	}
	f.Verify = fmt.Sprintf("pidstat -w -p %d 1 3; cat /proc/%d/wchan", top.program.PID(),
		top.program.PID())
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		for _, p := range partners {
			if facts.SubjectFunction(o).Process == p.Name {
				return true
			}
		}
		return false
	})
}

// where returns what the threads sleep for, as the end of a line.
func (w *switcher) where() string {
	for _, k := range []struct{ part, what string }{
		{"pipe", "for the other end of a pipe"}, {"futex", "for another thread (futex)"},
		{"eventfd", "for an eventfd"}, {"do_wait_intr", "for an eventfd"},
		{"unix_stream", "for data of an AF_UNIX socket"}, {"wait_woken", "for data of a socket"},
		{"sk_wait", "for data of a socket"}, {"ep_poll", "for events (epoll)"},
		{"epoll", "for events (epoll)"}, {"poll", "for events (poll)"},
		{"nanosleep", "until a timer ends"},
	} {
		if strings.Contains(w.sleeps, k.part) {
			return ", " + k.what
		}
	}
	if w.sleeps == "" {
		return ""
	}
	return ", in kernel function " + phrase.Clean(w.sleeps)
}
