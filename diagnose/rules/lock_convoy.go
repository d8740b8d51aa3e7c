package rules

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// lockConvoy finds programs whose threads wait for one another: more of them wait for a lock of the
// program than use a CPU or wait for one. Threads of an idle pool wait too, but not for a lock: see
// process.lock.waiters.
func lockConvoy() diagnose.Rule {
	return diagnose.Rule{
		ID: "lock-convoy", Checks: "locks of programs",
		Finds: []string{facts.LockWaiters},
		Uses: []string{facts.ProcessCPU, facts.ProcessWait, facts.ProcessSwitches,
			facts.ThreadWait, facts.CPUTime, facts.ProcessWeights, facts.CgroupWeights,
			facts.CgroupThrottledTime, facts.Placement},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.LockWaiters)
			var all []convoy
			for _, pid := range t.Keys("pid") {
				if c, ok := convoyOf(l, pid); ok {
					all = append(all, c)
				}
			}
			sort.SliceStable(all, func(i, j int) bool { return all[i].waiting > all[j].waiting })
			accused := map[string]bool{} // eight workers that do the same are one finding
			for i := range all {
				name := all[i].program.Name
				if !accused[name] {
					accused[name] = true
					all[i].accuse(l)
				}
			}
		},
	}
}

// A convoy is the threads of a process that wait for its locks.
type convoy struct {
	program facts.Program
	rows    []*diagnose.Row
	waiting float64 // threads at any moment
	working float64 // threads that use a CPU, or wait for one
	s       diagnose.Period
}

// convoyOf returns the convoy of a process; false when there is none.
func convoyOf(l *diagnose.Look, pid string) (convoy, bool) {
	t, cpu, ready := l.Table(facts.LockWaiters), l.Table(facts.ProcessCPU),
		l.Table(facts.ProcessWait)
	c := convoy{rows: t.Where("pid", pid)}
	waits := t.Sum(c.rows)
	works := cpu.Sum(cpu.Where("pid", pid))
	readies := ready.Sum(ready.Where("pid", pid))
	working := func(i int) float64 {
		return series.AtOrZero(works, i) + series.AtOrZero(readies, i)
	}
	var ok bool
	c.s, ok = diagnose.Lasting(t, nil, func(i int) bool {
		w := series.AtOrZero(waits, i)
		return w >= threshold.LockWaiting && w >= threshold.LockShare*(w+working(i))
	})
	if !ok || c.takesTurns() {
		return c, false
	}
	c.program = facts.Programs(t, c.rows, c.s.Mask)[0]
	c.waiting = c.program.Rate
	worked := make([]float64, len(t.Seconds))
	for i := range worked {
		worked[i] = working(i)
	}
	c.working = t.Mean(worked, c.s.Mask)
	return c, true
}

// takesTurns reports whether threads that hold a lock wait for requests: the idle ones of a pool in
// which one at a time accepts or polls.
func (c *convoy) takesTurns() bool {
	idle, all := 0.0, 0.0
	for _, r := range c.rows {
		n := series.Or(r.Part(c.s.Mask), 0)
		all += n
		if facts.WaitsForRequests(r.Word("wchan")) {
			idle += n
		}
	}
	return idle >= threshold.LockIdle*all
}

// dead reports whether all threads that hold a lock wait for one themselves, and nothing runs. A
// holder that sleeps in futex(2) waits for a lock: see process.lock.waiters.
func (c *convoy) dead() bool {
	for _, r := range c.rows {
		if r.Part(c.s.Mask) > 0 && !strings.HasPrefix(r.Word("wchan"), "futex") {
			return false
		}
	}
	return c.working < threshold.LockDead
}

func (c *convoy) accuse(l *diagnose.Look) {
	t, s := l.Table(facts.LockWaiters), c.s
	share := c.waiting / (c.waiting + c.working)
	severity := diagnose.Medium
	if c.waiting >= threshold.LockMany {
		severity = diagnose.High
	}
	claim := fmt.Sprintf("Threads of %s wait for one another: %s wait for a lock at any moment "+
		"for %s, while %s use a CPU or wait for one.", c.program, phrase.Digits(c.waiting), s,
		phrase.Digits(c.working))
	if c.dead() {
		severity = diagnose.High
		claim = fmt.Sprintf("%s threads of %s are deadlocked: they wait for locks for %s, and "+
			"those that hold the locks wait for locks too.", phrase.Digits(c.waiting), c.program, s)
	}
	lock, most, heldBy := c.lock()
	waits := starvedHolderOf(l, c, lock)
	if waits != nil {
		claim += " " + waits.claim()
	}
	f := l.Found(c.program.Identity(), severity, 0.85, c.program.Culprit(), claim)
	f.SetEffect(share)
	f.Subject = facts.Waiters{PIDs: []int{c.program.PID()}, On: facts.WaitsOnLock}
	f.AddEvidence(t, s, t.QueryOf(nil, "pid", phrase.Clean(c.rows[0].Word("pid")), "lock", lock),
		most, t.Unit, fmt.Sprintf("%s of them wait for the lock at %s; %s",
			phrase.Digits(most), phrase.Clean(lock), heldBy)).
		CompareTo(c.working, "threads that work")
	waits.explain(l, f)
	pid := c.rows[0].Word("pid")
	cpu, n := l.Table(facts.ProcessCPU), l.Table(facts.ProcessSwitches)
	if used := cpu.Mean(cpu.Sum(cpu.Where("pid", pid)), s.Mask); used >= 0 {
		f.AddEvidence(cpu, s, cpu.QueryOf(nil, "pid", pid), used, cpu.Unit, fmt.Sprintf(
			"all threads together use %s CPUs", phrase.Digits(used)))
	}
	rows := n.Where("pid", pid, "type", "voluntary")
	if rate := n.Mean(n.Sum(rows), s.Mask); rate >= 0 {
		f.AddEvidence(n, s, n.QueryOf(nil, "pid", pid, "type", "voluntary"), rate, n.Unit,
			phrase.Count(rate)+" times per second one of them goes to sleep")
	}
	f.AddCaveat(0, "Threads that wait are counted once per interval, in a sample of the threads.")
	f.Verify = fmt.Sprintf("culprit locks --process %s; for t in /proc/%d/task/*; do cat $t/wchan "+
		"$t/syscall; echo; done | grep -A1 futex", phrase.Shell(c.program.Name),
		c.program.PID())
	f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool { return facts.SameProgram(f, o) })
	f.Cover("switch-storm", func(o *diagnose.Finding) bool { return facts.SameProgram(f, o) })
}

// lock returns the lock for which most threads wait, their number, and what its holder does.
func (c *convoy) lock() (lock string, most float64, heldBy string) {
	threads, does := map[string]float64{}, map[string]map[string]float64{}
	for _, r := range c.rows {
		at, n := r.Word("lock"), series.Or(r.Part(c.s.Mask), 0)
		threads[at] += n
		if does[at] == nil {
			does[at] = map[string]float64{}
		}
		doing := "its holder is not known"
		if tid, _ := strconv.Atoi(r.Word("holder")); tid > 0 {
			doing = "its holder runs or waits for a CPU"
			if in := r.Word("wchan"); in != "" {
				doing = "its holder sleeps in kernel function " + phrase.Clean(in)
			}
		}
		does[at][doing] += n
	}
	lock = facts.Largest(threads)
	heldBy = facts.Largest(does[lock])
	return lock, threads[lock], fmt.Sprintf("%s in %s of the samples", heldBy,
		phrase.Percent(does[lock][heldBy]/threads[lock]))
}
