package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// watcher measures the memory of the processes in the control group while an attack runs.
type watcher struct {
	group  string
	done   chan struct{}
	wg     sync.WaitGroup
	most   map[string]int64 // resident bytes by name of the process
	kills  int              // of the kernel, at the start
	killed int              // of the kernel, for lack of memory
}

// watch starts to measure.
func (b *bench) watch() *watcher {
	w := &watcher{group: b.group, done: make(chan struct{}), most: map[string]int64{}}
	w.kills = w.oomKills()
	w.wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-w.done:
				return
			case <-tick.C:
			}
		}
	})
	return w
}

// stop ends the measurement and returns one line with the highest memory of each process.
func (w *watcher) stop() string {
	close(w.done)
	w.wg.Wait()
	w.killed = w.oomKills() - w.kills
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(w.most)) {
		parts = append(parts, fmt.Sprintf("%s %d MB", name, w.most[name]/1e6))
	}
	return strings.Join(parts, ", ")
}

// largest returns the highest memory of a process.
func (w *watcher) largest() (most int64) {
	for _, n := range w.most {
		most = max(most, n)
	}
	return most
}

// look reads the resident memory of each process.
func (w *watcher) look() {
	for _, pid := range members(w.group) {
		name, resident := nameOf(pid), statusBytes(pid, "VmRSS:")
		if strings.HasPrefix(name, "culprit") {
			w.most[name] = max(w.most[name], resident)
		}
	}
}

// oomKills returns how many processes of the group the kernel has ended for lack of memory.
func (w *watcher) oomKills() int {
	for _, file := range []string{"memory.oom_control", "memory.events"} {
		text, err := os.ReadFile(filepath.Join(w.group, file))
		if err != nil {
			continue // of the other version of control groups
		}
		for line := range strings.Lines(string(text)) {
			if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(count)) // the kernel's number
				return n
			}
		}
	}
	return 0
}

// members returns the processes of a control group.
func members(group string) (pids []int) {
	text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs")) // it is there until the end
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// nameOf returns the name of a process, "" when it has ended.
func nameOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // the doc comment
	return strings.TrimSpace(string(text))
}

// statusBytes returns a size of /proc/PID/status, 0 when it has ended.
func statusBytes(pid int, field string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // the doc comment
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// processes returns the processes of a server by name: the supervisor is "culprit".
func (s *server) processes() map[string][]int {
	all := map[string][]int{}
	for _, pid := range descendants(s.cmd.Process.Pid) {
		name := nameOf(pid)
		all[name] = append(all[name], pid)
	}
	return all
}

// descendants returns a process and all that it and its children have started.
func descendants(pid int) []int {
	all := []int{pid}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // none: it has ended
	for _, path := range threads {
		text, _ := os.ReadFile(path) // the thread may have ended
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				all = append(all, descendants(child)...)
			}
		}
	}
	return all
}
