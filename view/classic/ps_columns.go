package classic

import "culprit/view"

// psColumns returns the columns of processes or threads. One of the other kind has no head.
func psColumns(threads bool) []view.Column {
	head := func(show bool, h string) string {
		if show {
			return h
		}
		return ""
	}
	share := func(name, h string, help string) view.Column {
		return view.Column{
			Name:     name,
			Head:     h,
			Show:     view.Percent,
			Decimals: 1,
			Width:    5,
			Help:     help,
		}
	}
	rate := func(name, h string, from int, help string) view.Column {
		return view.Column{Name: name, Head: h, Decimals: 0, Width: 5, MinWidth: from, Help: help}
	}
	slp := share("sleep", head(threads, "%SLP"), "the rest of a thread's time")
	cpu := share("cpu", "%CPU", "user and kernel time")
	cpu.MinWidth = 90
	dsk := share("disk_wait", head(!threads, "%DSK"), "waiting for a disk")
	return []view.Column{
		{Name: "pid", Head: "PID", Width: 7, Help: "process id"},
		{Name: "tid", Head: head(threads, "TID"), Width: 7, Help: "thread id"},
		{
			Name:     "user",
			Head:     head(!threads, "User"),
			Width:    8,
			Left:     true,
			MinWidth: 90,
			Help:     "effective user",
		},
		{
			Name:  "process",
			Head:  head(!threads, "Process"),
			Width: 11,
			Left:  true,
			Cut:   true,
			Help:  "name",
		},
		{
			Name:  "thread",
			Head:  head(threads, "Process/Thread"),
			Width: 14,
			Left:  true,
			Cut:   true,
			Help:  "thread's name",
		},
		{
			Name:  "state",
			Head:  head(!threads, "S"),
			Width: 1,
			Left:  true,
			Help:  "R running or ready, S sleeping, D uninterruptible, Z zombie, T stopped, I idle",
		},
		cpu,
		share("usr", "%USR", "user time"),
		share("sys", "%SYS", "kernel time"),
		share("run_wait", "%LAT", "ready, waiting for a CPU"),
		dsk,
		slp,
		rate("voluntary_switches_per_s", "VCX", 0, "voluntary context switches"),
		rate("involuntary_switches_per_s", "ICX", 0, "involuntary context switches"),
		rate(
			"minor_faults_per_s", "MINF", 110, "page faults served from memory",
		), rate("major_faults_per_s", "MAJF", 100, "page faults that read a disk"),
		{
			Name:  "read_bytes_per_s",
			Head:  head(!threads, "rdKB/s"),
			Show:  view.KiB,
			Width: 6,
			Help:  "read from storage",
		},
		{
			Name:  "written_bytes_per_s",
			Head:  head(!threads, "wrKB/s"),
			Show:  view.KiB,
			Width: 6,
			Help:  "written to storage",
		},
		{
			Name:     "rss_bytes",
			Head:     head(!threads, "RSS"),
			Show:     view.HumanBytes,
			Width:    6,
			MinWidth: 90,
			Help:     "resident memory",
		},
		{Name: "threads", Head: head(!threads, "Thr"), Width: 4, MinWidth: 100, Help: "threads"},
		{
			Name:     "children",
			Head:     head(!threads, "%KIDS"),
			Show:     view.Percent,
			Decimals: 1,
			Width:    5,
			MinWidth: 100,
			Help:     "CPU time of children that ended between two readings",
		},
		{
			Name:     "container",
			Head:     head(!threads, "Container"),
			Left:     true,
			Cut:      true,
			Width:    24,
			MinWidth: 170,
			Help:     "container with its pod, or systemd unit, from the control group",
		},
		{
			Name:     "command",
			Head:     head(!threads, "Command"),
			Left:     true,
			Cut:      true,
			Width:    20,
			MinWidth: 140,
			Help:     "command line",
		},
	}
}

// longColumn is the place of the columns of -l: behind the state.
const longColumn = 6

// longColumns returns the columns of -l.
func longColumns() []view.Column {
	return []view.Column{
		{Name: "priority", Head: "PR", Width: 3, Help: "priority, as in top"},
		{Name: "nice", Head: "NI", Width: 3, Help: "nice value, -20 to 19"},
		{
			Name: "virtual_bytes", Head: "VIRT", Show: view.HumanBytes, Width: 6,
			Help: "size of the address space",
		},
		{
			Name: "cpu_seconds", Head: "TIME", Decimals: 2, Width: 8,
			Help: "CPU time since the start in seconds, as TIME+ of top",
		},
	}
}
