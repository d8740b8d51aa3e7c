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
		if !ok || s.Share() < threshold.TurnsShare || !waitForOneAnother(l, pid, s.Mask) {
			continue
		}
		number, _ := strconv.Atoi(pid)
		all = append(all, hotThread{process: r.Word("process"), pid: number, values: use, table: t,
			s: s, sure: true, turns: n})
	}
	return all
}

// waitForOneAnother reports whether most threads of the process that sleep do so in futex(2).
func waitForOneAnother(l *diagnose.Look, pid string, mask []bool) bool {
	futex, all := 0.0, 0.0
	for _, r := range l.Table(facts.ProcessSleepers).Where("pid", pid) {
		n := series.Or(r.Part(mask), 0)
		all += n
		if strings.HasPrefix(r.Word("wchan"), "futex") {
			futex += n
		}
	}
	return futex > 0 && futex >= threshold.TurnsFutex*all
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
