package rules

import (
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// turns returns the processes of which several threads together use one CPU, none of them most of
// it, while other CPUs idle and they wait for no CPU. Those that do not run sleep in futex(2): they
// run one at a time, as under the lock of an interpreter. Threads that pause in another way may add
// up to one CPU too.
func turns(l *diagnose.Look, othersIdle func(int) bool) (all []hotThread) {
	t, threads, waits := l.Table(facts.ProcessCPU), l.Table(facts.ThreadCPU),
		l.Table(facts.ProcessWait)
	if !threads.Have() || !waits.Have() {
		return nil
	}
	busy := map[string]map[string]float64{}
	for _, r := range threads.Rows {
		pid := r.Word("pid")
		if busy[pid] == nil {
			busy[pid] = map[string]float64{}
		}
		busy[pid][r.Word("tid")] += series.Or(r.Part(nil), 0)
	}
	for _, r := range t.Rows {
		pid := r.Word("pid")
		tids := busy[pid]
		delete(busy, pid) // a process has a row for each mode
		rows := t.Where("pid", pid)
		use, waiting := t.Sum(rows), waits.Sum(waits.Where("pid", pid))
		n := sharedBy(tids)
		if n < 2 {
			continue
		}
		s, ok := diagnose.Lasting(t, nil, func(c int) bool {
			return use[c] >= threshold.OneFull && use[c] <= threshold.OneWide && othersIdle(c) &&
				series.AtOrZero(waiting, c) < threshold.TurnsWait
		})
		if !ok || s.Share() < threshold.TurnsShare || !waitForOneAnother(l, pid, n, s.Mask) {
			continue
		}
		number, _ := strconv.Atoi(pid)
		all = append(all, hotThread{process: r.Word("process"), pid: number, values: use, table: t,
			s: s, sure: true, turns: n})
	}
	return all
}

// turnsSampled is how many threads of such a process process.sleepers has at most.
const turnsSampled = 4

// waitForOneAnother reports whether one of n threads runs at a time: at nearly each reading the
// others sleep in futex(2), and not all of them do. One of several may just have woken. Of more
// threads than are sampled all may sleep.
func waitForOneAnother(l *diagnose.Look, pid string, n int, mask []bool) bool {
	t := l.Table(facts.ProcessSleepers)
	futex, all := make([]float64, len(mask)), 0.0
	for _, r := range t.Where("pid", pid) {
		for c := range mask {
			v := series.AtOrZero(r.Values, c)
			if mask[c] && strings.HasPrefix(r.Word("wchan"), "futex") {
				futex[c] += v
			}
			if mask[c] {
				all += v
			}
		}
	}
	most := float64(min(n, turnsSampled)) - 1
	least := most
	if n > 2 {
		least--
	}
	one, cells, sum := 0.0, 0.0, 0.0
	for c := range mask {
		if !mask[c] {
			continue
		}
		cells, sum = cells+1, sum+futex[c]
		if futex[c] > least-0.5 && (n > turnsSampled || futex[c] < most+0.5) {
			one++
		}
	}
	return sum > 0 && sum >= threshold.TurnsFutex*all && one >= threshold.TurnsOne*cells
}

// sharedBy returns how many threads work, 0 if one of them uses most of a CPU.
func sharedBy(tids map[string]float64) (n int) {
	for _, use := range tids {
		switch {
		case use >= threshold.TurnsMost:
			return 0
		case use >= threshold.TurnsLeast:
			n++
		}
	}
	return n
}
