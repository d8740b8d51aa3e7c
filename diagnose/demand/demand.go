package demand

import "math"

// Range is the CPU time that a task would use, in CPUs: Least <= Likely <= Most.
type Range struct{ Least, Likely, Most float64 }

// Shares of the time.
const (
	// awake is the share that a thread runs or waits from which on it is taken for one that never
	// sleeps. The kernel adds a wait to its counter when the wait ends, so the last is left out.
	awake = 0.95
	// unwaited is the share that a thread waits up to which it would use no more than it does.
	unwaited = 0.005
)

// OfThread returns what a thread would use if it never had to wait for a CPU. used and waited are
// the shares of the time, 0..1, in which it ran, and in which it was ready and waited.
//
//   - Likely: it would run and sleep in the same proportion as now, used / (1 - waited). That is
//     exact when each sleep begins when the work before it ends.
//   - Least: its work comes at fixed times, and waits shorten its sleeps: what it uses now.
//   - Most: it sleeps until other threads have done their work, and they wait too: used + waited.
//
// A thread that never sleeps would use a whole CPU, and all three are the same. (With work that
// comes at fixed times, and faster than it is done, it would use less: counters do not show that.)
//
// Used 0.25, waited 0.25: 0.25, 0.33, 0.5.
func OfThread(used, waited float64) Range {
	used = share(used)
	ready := used + math.Min(share(waited), 1-used)
	switch {
	case ready-used < unwaited:
		return Range{used, used, used}
	case ready >= awake:
		return Range{ready, ready, ready}
	}
	return Range{used, used / (1 - (ready - used)), ready}
}

// OfProcess returns what a process would use of which only the sums over all threads are known:
// used and waited are numbers of threads that run, and that wait, at any moment. sleepless reports
// that its threads hardly ever sleep.
//
// For Likely the fewest threads that can do this are assumed, equal ones: 1.9 running and 2.6
// waiting are at least five.
func OfProcess(used, waited float64, sleepless bool) Range {
	used, waited = math.Max(used, 0), math.Max(waited, 0) // NaN stays
	ready := used + waited
	if !(ready > 0) || math.IsInf(ready, 0) {
		return Range{}
	}
	if waited < unwaited {
		return Range{used, used, used}
	}
	threads := math.Ceil(ready)
	one := OfThread(used/threads, waited/threads)
	r := Range{one.Least * threads, one.Likely * threads, one.Most * threads}
	if whole := math.Floor(ready + 1 - awake); sleepless && whole >= 1 {
		r.Least = math.Max(r.Least, math.Min(whole, ready))
		r.Likely = math.Max(r.Likely, r.Least)
	}
	return r
}

func share(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return math.Min(v, 1)
}

// Expected returns how many CPUs of a number are busy on average: constant CPUs always, and tasks
// that are awake independently of each other, each for a share of the time. Two tasks that are
// awake half of the time are often awake together, so one CPU is busy for 75 % of the time.
//
//	constant + sum over k of min(cpus - constant, k) * P(k tasks are awake)
func Expected(cpus, constant float64, tasks []float64) float64 {
	free := cpus - constant
	if !(free > 0) {
		return math.Max(cpus, 0)
	}
	sum := 0.0
	for _, t := range tasks {
		sum += share(t)
	}
	if float64(len(tasks)) <= free {
		return constant + sum
	}
	// at[k] is the probability that k tasks are awake; the last has all that are more than free.
	at := make([]float64, int(math.Ceil(free))+1)
	at[0] = 1
	for _, t := range tasks {
		p, last := share(t), len(at)-1
		at[last] += at[last-1] * p
		for k := last - 1; k >= 0; k-- {
			at[k] *= 1 - p
			if k > 0 {
				at[k] += at[k-1] * p
			}
		}
	}
	busy := 0.0
	for k, p := range at {
		busy += p * math.Min(free, float64(k))
	}
	return constant + busy
}
