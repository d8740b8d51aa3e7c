package facts

import (
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/series"
)

// The functions of this file read the table of PipeWaiters.

// PipeReader is the process that holds writers up: those that write to its pipe or socket, and
// those that write to one of these.
type PipeReader struct {
	PID     int             // 0: not known
	Rows    []*diagnose.Row // of all writers
	Direct  []*diagnose.Row // of those that write to it
	Writers []int
	Circle  bool // it waits itself for one of the writers
}

// PipeReaders returns who holds the writers up that wait in all cells of a mask but few. waits
// reports whether a writer does, by its number of waiting threads per cell.
func PipeReaders(t *diagnose.Table, waits func(threads []float64) bool) []*PipeReader {
	rows, next := map[int][]*diagnose.Row{}, map[int]int{}
	var writers []int
	for _, r := range t.Rows {
		pid, _ := strconv.Atoi(r.Word("pid"))
		if rows[pid] == nil {
			writers = append(writers, pid)
		}
		rows[pid] = append(rows[pid], r)
	}
	writers = slices.DeleteFunc(writers, func(pid int) bool { return !waits(t.Sum(rows[pid])) })
	for _, pid := range writers {
		next[pid] = HolderOf(rows[pid], nil, "reader", "readerprocess").PID
	}
	at := map[int]*PipeReader{}
	var all []*PipeReader
	for _, pid := range writers {
		root, circle := lastReader(next, pid)
		x := at[root]
		if x == nil {
			x = &PipeReader{PID: root, Circle: circle}
			at[root] = x
			all = append(all, x)
		}
		x.Writers = append(x.Writers, pid)
		x.Rows = append(x.Rows, rows[pid]...)
		if next[pid] == root {
			x.Direct = append(x.Direct, rows[pid]...)
		}
	}
	return all
}

// lastReader follows the readers from a writer to the one that does not wait to write. In a circle
// it is the one with the least number, and circle is true.
func lastReader(next map[int]int, pid int) (root int, circle bool) {
	seen := []int{pid}
	for {
		reader, waits := next[pid]
		if !waits || reader == 0 {
			if waits {
				return 0, false
			}
			return pid, false
		}
		if i := slices.Index(seen, reader); i >= 0 {
			return slices.Min(seen[i:]), true
		}
		seen, pid = append(seen, reader), reader
	}
}

// WaitsForTerminal reports whether one of the kernel functions waits for what somebody types, as a
// pager does.
func WaitsForTerminal(functions string) bool {
	for f := range strings.SplitSeq(functions, ",") {
		if f == "wait_woken" || strings.HasPrefix(f, "n_tty_") || strings.HasPrefix(f, "tty_") {
			return true
		}
	}
	return false
}

// MovedShare returns the share of the waiting threads that have run since the reading before, 0 to
// 1: something was read.
func MovedShare(rows []*diagnose.Row) float64 {
	moved, all := 0.0, 0.0
	for _, r := range rows {
		n := series.Or(r.Part(nil), 0)
		if all += n; r.Word("moved") == "yes" {
			moved += n
		}
	}
	if all == 0 {
		return 0
	}
	return moved / all
}
