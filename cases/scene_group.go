package cases

import (
	"fmt"
	"path/filepath"
)

// groupStories are limits of control groups that only some hierarchies have, with twins in the
// same groups that have enough.
func groupStories() []Story {
	return []Story{
		{
			Name: "memory-nested", Twin: "memory-nested-wide", Needs: needNested,
			Help: "programs that want 100 MB each second are killed: the group above theirs may " +
				"have 64 MiB",
			build: nestedScene(64 << 20),
		},
		{
			Name: "memory-nested-wide", Needs: needNested,
			Help:  "the same where the group above may have 1 GiB",
			build: nestedScene(1 << 30),
		},
		{
			Name: "memory-high", Twin: "memory-high-roomy", Needs: needHigh,
			Help: "a process in a control group with memory.high of 48 MiB reads a file of " +
				"128 MiB over and over",
			build: highScene(48<<20, 0),
		},
		{
			Name: "memory-high-roomy", Needs: needHigh,
			Help: "the same with memory.high of 400 MiB, and 30 MB/s: after the first round it " +
				"reads no disk",
			build: highScene(400<<20, 30e6),
		},
	}
}

func needNested() string {
	if why := needController("memory")(); why != "" {
		return why
	}
	return needTool("perl")
}

// needHigh returns why a control group here has no memory.high.
func needHigh() string {
	if _, v2, err := hierarchy("memory"); err != nil || !v2 {
		return "kernel feature cgroup-2-memory"
	}
	return ""
}

// nestedScene has a limit at a group whose processes are all in a group below it.
func nestedScene(limit int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		pod := l.Cgroup("memory", "pod")
		pod.LimitMemory(limit)
		box := pod.Child("memory", "box")
		d := sc.load(Program{Name: "batch", Args: []string{"sh", "-c", "echo $$ > " +
			box.procs() + `; while :; do perl -e '$x = "x" x 100e6'; sleep 1; done`}})
		killed := Range{What: "killed", Low: 0.3, High: 1.1, Unit: "1/s",
			Read: keyed("/proc/vmstat", "oom_kill")}
		sc.Truth = Truth{Never: []string{"memory-pressure", "kernel-events", "crash-loop"}}
		if limit < 100e6 {
			sc.Truth = Truth{Rule: "memory-pressure", Kind: []string{"cgroup"},
				Names: []string{pod.Name}, Also: []string{"crash-loop"},
				Never: []string{"disk-saturated", "cpu-saturated"}}
		} else {
			killed.Low, killed.High = 0, 0
		}
		sc.Truth.Expect = []Range{killed}
		sc.try("dmesg | grep -i 'killed process' | tail -3; cat /proc/%d/cgroup", d.PID)
	}
}

// highScene has a process that reads a file at a rate in byte/s, 0: as fast as it goes.
func highScene(limit int64, rate float64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		g := l.Cgroup("memory", "app")
		g.Set("memory.high", fmt.Sprint(limit))
		sc.load(Program{Name: "reread", Act: "reread", Into: []*Cgroup{g}, Patient: true,
			Args: []string{"-file", filepath.Join(l.dir, "reread.data"), "-threads", "8", "-rate",
				fmt.Sprint(rate)}})
		held := Range{What: "allocations above memory.high", Low: 5, High: 1e7, Unit: "1/s",
			Read: keyed(filepath.Join(g.Path, "memory.events"), "high")}
		sc.Truth = Truth{Never: []string{"memory-pressure", "disk-saturated"}}
		if limit < 128<<20 {
			sc.Truth = Truth{Rule: "memory-pressure", Kind: []string{"cgroup"},
				Names: []string{g.Name}, Also: []string{"disk-saturated", "cpu-saturated"}}
		} else {
			held.Low, held.High = 0, 0
		}
		sc.Truth.Expect = []Range{held}
		sc.try("cat %s/memory.events %s/memory.pressure", g.Path, g.Path)
	}
}
