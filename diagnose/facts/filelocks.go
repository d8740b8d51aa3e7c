package facts

import (
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// The functions of this file read the table of FileLockWaiters.

// WaitsForWork returns the rows of file locks that are no accept lock of a pool. In servers that
// fork their workers in advance, one idle worker waits for requests and holds a lock meanwhile, for
// which all other idle workers wait.
func WaitsForWork(t *diagnose.Table, mask []bool) []*diagnose.Row {
	all, idle := map[string]float64{}, map[string]float64{}
	for _, r := range t.Rows {
		n := series.Or(r.Part(mask), 0)
		all[r.Word("file")] += n
		if r.Word("related") != "" && sleepsForRequests(r.Word("wchan")) {
			idle[r.Word("file")] += n
		}
	}
	var rows []*diagnose.Row
	for _, r := range t.Rows {
		if file := r.Word("file"); idle[file] < threshold.FileLockIdle*all[file] || all[file] == 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// sleepsForRequests reports whether one of the kernel functions waits for requests.
func sleepsForRequests(functions string) bool {
	for f := range strings.SplitSeq(functions, ",") {
		if WaitsForRequests(f) {
			return true
		}
	}
	return false
}

// FileLockHolder is the process that holds a file lock for most of the time.
type FileLockHolder struct {
	PID   int // 0: not known
	Name  string
	Does  string // in a sentence: "sleeps in kernel function do_wait"
	Share float64
	Count int // processes that hold it in turn
}

// HolderOf returns the holder in most of the waits of rows.
func HolderOf(rows []*diagnose.Row, mask []bool) FileLockHolder {
	waits, all := map[string]float64{}, 0.0
	does := map[string]map[string]float64{}
	names := map[string]string{}
	for _, r := range rows {
		pid, n := r.Word("holder"), series.Or(r.Part(mask), 0)
		if n == 0 {
			continue
		}
		if does[pid] == nil {
			does[pid] = map[string]float64{}
		}
		waits[pid] += n
		all += n
		does[pid][r.Word("wchan")] += n
		if name := r.Word("holderprocess"); name != "" {
			names[pid] = name
		}
	}
	pid := Largest(waits)
	h := FileLockHolder{Name: names[pid], Count: len(waits)}
	h.PID, _ = strconv.Atoi(pid)
	in := Largest(does[pid])
	h.Share = does[pid][in] / all
	switch {
	case in == "running":
		h.Does = "runs"
	case strings.Contains(in, ","):
		h.Does = "sleeps in kernel functions " + phrase.Clean(strings.ReplaceAll(in, ",", ", "))
	case in != "":
		h.Does = "sleeps in kernel function " + phrase.Clean(in)
	}
	return h
}

// String returns "backup[99]", "process 99", or "a process that is not known".
func (h FileLockHolder) String() string {
	switch {
	case h.Name != "":
		return phrase.ProcessName(h.Name, h.PID)
	case h.PID > 0:
		return "process " + strconv.Itoa(h.PID) + ", which has ended or is hidden,"
	}
	return "a process that is not known"
}

// FileLockCycle returns processes that wait for one another in a circle for all of the time, each
// for a file lock that the next one holds, first the given one. Nil when it is in no circle. A
// process with several threads that do different things is in none.
func FileLockCycle(t *diagnose.Table, pid int, mask []bool) []int {
	circle := []int{pid}
	for at := pid; ; {
		next := heldUpBy(t, at, mask)
		switch {
		case next == 0:
			return nil
		case next == pid:
			return circle
		}
		for _, p := range circle {
			if p == next {
				return nil // pid waits for a circle of others
			}
		}
		circle, at = append(circle, next), next
	}
}

// heldUpBy returns the only process for whose file lock a process waits all of the time, itself
// waiting; 0 when there is none.
func heldUpBy(t *diagnose.Table, pid int, mask []bool) int {
	by := map[string][]*diagnose.Row{}
	for _, r := range t.Where("pid", strconv.Itoa(pid)) {
		by[r.Word("holder")] = append(by[r.Word("holder")], r)
	}
	for holder, rows := range by {
		waits, always := t.Sum(rows), true
		for c, in := range mask {
			always = always && (!in || series.AtOrZero(waits, c) >= 1)
		}
		for _, r := range rows {
			in := r.Word("wchan")
			always = always && in != "" && in != "running" && !strings.Contains(in, ",")
		}
		if n, _ := strconv.Atoi(holder); always && n > 0 {
			return n
		}
	}
	return 0
}
