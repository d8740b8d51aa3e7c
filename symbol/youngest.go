package symbol

import (
	"bytes"
	"slices"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
)

const (
	// mostYoung is how many processes OpenYoungest reads.
	mostYoung = 256
	// userTicks is the number of ticks per second in /proc/PID/stat (USER_HZ).
	userTicks = 100
	// pidsMost is above the greatest pid_max.
	pidsMost = 1 << 22
)

// OpenYoungest calls OpenMappedFiles for the processes that began within the last while: they may
// end soon, and a History does not know them. It reads the newest processes first, and stops at the
// first older one.
func (ps *Processes) OpenYoungest(while time.Duration) {
	dir, err := proc.OpenProcDir(ps.root, "")
	if err != nil {
		return
	}
	defer dir.Close() //nolint:errcheck // only read
	pids, err := dir.ListPIDs(nil)
	if err != nil {
		return
	}
	// /proc/loadavg ends with the number of the newest process. Numbers begin again at the end.
	text, _ := dir.ReadFile("loadavg", nil) // without it the greatest is the newest
	last := uint64(pidsMost - 1)
	if words := bytes.Fields(text); len(words) > 0 {
		if n, err := proc.ParseUint(words[len(words)-1]); err == nil {
			last = n
		}
	}
	before := func(pid int32) int { return int((last - uint64(pid)) % pidsMost) }
	slices.SortFunc(pids, func(a, b int32) int { return before(a) - before(b) })
	oldest := time.Duration(kernel.Uptime()) - while
	for _, pid := range pids[:min(mostYoung, len(pids))] {
		start, _, err := ps.stat(int(pid))
		if err != nil {
			continue
		}
		if time.Duration(start)*time.Second/userTicks < oldest {
			return
		}
		//nolint:errcheck // addresses of a process that can't be read have no names, as reported
		ps.OpenMappedFiles(int(pid))
	}
}
