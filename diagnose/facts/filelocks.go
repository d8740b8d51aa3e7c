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
	files := map[string][]*diagnose.Row{}
	for _, r := range t.Rows {
		files[r.Word("file")] = append(files[r.Word("file")], r)
	}
	turns := map[string]bool{}
	for file, rows := range files {
		turns[file] = TakesTurns(rows, mask)
	}
	var rows []*diagnose.Row
	for _, r := range t.Rows {
		if !turns[r.Word("file")] {
			rows = append(rows, r)
		}
	}
	return rows
}

// TakesTurns reports whether the rows of a lock are those of an accept lock: the holder is of the
// same pool, and waits for requests. A busy pool hands the lock on while it is looked at. Rows have
// the fields related and wchan.
func TakesTurns(rows []*diagnose.Row, mask []bool) bool {
	idle, all := 0.0, 0.0
	for _, r := range rows {
		n := series.Or(r.Part(mask), 0)
		all += n
		does := r.Word("wchan")
		if r.Word("related") != "" && (does == "released" || sleepsForRequests(does)) {
			idle += n
		}
	}
	return all > 0 && idle >= threshold.FileLockIdle*all
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

// LockHolder is the process that holds a lock for most of the time.
type LockHolder struct {
	PID   int // 0: not known
	Name  string
	Does  string  // in a sentence: "sleeps in kernel function do_wait"
	Share float64 // of the waits that are for this holder
	Count int     // processes that hold it in turn
}

// HolderOf returns the holder in most of the waits of rows. The fields pid and process name it.
func HolderOf(rows []*diagnose.Row, mask []bool, pid, process string) LockHolder {
	waits, all := map[string]float64{}, 0.0
	does := map[string]map[string]float64{}
	names := map[string]string{}
	for _, r := range rows {
		id, n := r.Word(pid), series.Or(r.Part(mask), 0)
		if n == 0 {
			continue
		}
		if does[id] == nil {
			does[id] = map[string]float64{}
		}
		waits[id] += n
		all += n
		does[id][r.Word("wchan")] += n
		if name := r.Word(process); name != "" {
			names[id] = name
		}
	}
	top := Largest(waits)
	h := LockHolder{Name: names[top], Count: len(waits), Share: waits[top] / all}
	h.PID, _ = strconv.Atoi(top)
	in := Largest(does[top])
	switch {
	case in == "released":
		h.Does = "hands it on at once"
	case in == "running":
		h.Does = "runs"
	case in == "stopped":
		h.Does = "is stopped"
	case strings.Contains(in, ","):
		h.Does = "sleeps in kernel functions " + phrase.Clean(strings.ReplaceAll(in, ",", ", "))
	case in != "":
		h.Does = "sleeps in kernel function " + phrase.Clean(in)
	}
	return h
}

// String returns "backup[99]", "process 99", or "a process that is not known".
func (h LockHolder) String() string {
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
