package classic

import (
	"math"

	"culprit/measure"
	"culprit/view"
)

// PS returns the tool ps, like prstat -mL and top.
func PS() *view.Tool {
	return &view.Tool{
		Name:  "ps",
		Short: "processes or threads: CPU, waits for CPU and disk, switches, faults, I/O (prstat -mL, top)",
		Long: `One row per process (-L: per thread) that did something, busiest first. %USR and %SYS are shares of
one CPU, so a process with several busy threads may be above 100. %LAT is the time that its threads
were ready to run and waited for a CPU; %DSK is the time that they waited for a disk, which needs
CAP_NET_ADMIN and kernel.task_delayacct=1. Both are sums over threads, as shares of one CPU. VCX and
ICX are voluntary and involuntary context switches per second. rd and wr are bytes read from and
written to storage. With -L, %SLP is the rest of the time: sleeping, waiting for locks, events,
input.
A process that begins and ends between two readings has no row: %KIDS, with --wide, is the CPU time
of such children, shown at their parent when it has waited for them.
"-" means that this user may not read the number; a note says which right is missing.`,
		Examples: []view.Example{
			{Line: "culprit ps 1", Means: "the busiest processes (top)"},
			{Line: "culprit ps -L 1", Means: "threads, with microstates (prstat -mL)"},
			{Line: "culprit ps --sort written_bytes_per_s 5", Means: "which processes write"},
			{Line: "culprit ps -p 1234,1235 1", Means: "only these processes"},
		},
		Flags: []view.Flag{
			{Name: "threads", Letter: "L", Help: "threads instead of processes"},
			{
				Name:       "pid",
				Letter:     "p",
				Value:      "PID",
				Many:       true,
				NamesQuery: "process.state by pid",
				Help:       "only these processes (comma list)",
			},
			{
				Name:       "name",
				Value:      "NAME",
				Many:       true,
				NamesQuery: "process.state by process",
				Help:       "only processes of these names (comma list with * and ?; \\, is a comma in a name)",
			},
			{Name: "all", Letter: "a", Help: "also idle ones"},
		},
		MaxRows: 20,
		Ask: func(o view.Options) []string {
			if o.Has("threads") {
				k := "pid,process,tid,thread"
				return []string{
					"thread.cpu by " + k + ",mode",
					"thread.runwait by " + k,
					"thread.switches by " + k + ",type",
					"thread.faults by " + k + ",type",
				}
			}
			k := "pid,process"
			return []string{
				"process.cpu by " + k + ",mode",
				"process.runwait by " + k,
				"process.delay by " + k + ",reason",
				"process.switches by " + k + ",type",
				"process.faults by " + k + ",type",
				"process.io by " + k + ",direction",
				"process.rss by " + k,
				"process.threads by " + k,
				"process.short by " + k,
				"process.info by " + k + ",user,command",
			}
		},
		Table: psTable,
		Drill: func(t *view.Table, r *view.Row) *view.Drill {
			pid := t.Text(r, "pid")
			if t.Text(r, "tid") != "" {
				return &view.Drill{
					Tool:    "flows",
					Options: view.Options{"pid": {pid}},
					Title:   "connections of process " + pid,
				}
			}
			return &view.Drill{
				Tool:    "ps",
				Options: view.Options{"threads": {""}, "pid": {pid}},
				Title:   "threads of " + t.Text(r, "process") + " (" + pid + ")",
			}
		},
	}
}

func psTable(o view.Options, f *view.Frame) *view.Table {
	threads := o.Has("threads")
	t := &view.Table{View: "ps"}
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
	dsk := share("disk_wait", head(!threads, "%DSK"), "waiting for a disk")
	t.Columns = []view.Column{
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
			Width: 13,
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
			Name:     "command",
			Head:     head(!threads, "Command"),
			Left:     true,
			Cut:      true,
			Width:    20,
			MinWidth: 140,
			Help:     "command line",
		},
	}
	k, prefix := []string{"pid", "process"}, measure.StatID("process.")
	if threads {
		k, prefix = []string{"pid", "process", "tid", "thread"}, "thread."
	}
	p := f.NewPivot(k...)
	usr, sys := p.Add(f.Of(prefix+"cpu"), "mode", "usr"), p.Add(f.Of(prefix+"cpu"), "mode", "sys")
	wait := p.Add(f.Of(prefix + "runwait"))
	disk := p.Add(f.Of("process.delay"), "reason", "blkio")
	switches, faults, io := f.Of(prefix+"switches"), f.Of(prefix+"faults"), f.Of("process.io")
	vcx, icx := p.Add(switches, "type", "voluntary"), p.Add(switches, "type", "involuntary")
	minor, major := p.Add(faults, "type", "minor"), p.Add(faults, "type", "major")
	read, written := p.Add(io, "direction", "read"), p.Add(io, "direction", "write")
	rss, count := p.Add(f.Of("process.rss")), p.Add(f.Of("process.threads"))
	short := p.Add(f.Of("process.short"))
	p.Join("info", f.Of("process.info"))
	busy := func(r int) float64 { return sum(p.At(r, usr), p.At(r, sys)) }
	p.SortBy(func(r int) float64 { return psOrder(busy(r), p.At(r, wait), p.At(r, vcx)) }, 0)
	unseen := 0.0
	for r := range p.Len() {
		if len(o["pid"]) > 0 && !view.MatchAny(o["pid"], p.Key(r, "pid")) ||
			len(o["name"]) > 0 && !view.MatchAny(o["name"], p.Key(r, "process")) {
			continue
		}
		did := orZero(busy(r))
		for _, column := range []int{wait, disk, vcx, icx, minor, major, read, written, short} {
			did += orZero(p.At(r, column))
		}
		idle := did == 0 && busy(r) == busy(r) // with unknown CPU time it may be busy
		if idle && !o.Has("all") && len(o["pid"]) == 0 {
			continue
		}
		unseen += orZero(p.At(r, short))
		sleep := measure.NaN
		if threads {
			sleep = max(0, 1-p.At(r, usr)-p.At(r, sys)-p.At(r, wait)) // NaN if one of them is
		}
		name := p.Key(r, "process")
		if threads && p.Key(r, "thread") != name {
			name += "/" + p.Key(r, "thread")
		}
		t.Rows = append(
			t.Rows,
			view.Row{
				Key: p.ID(r),
				Cells: []view.Cell{
					view.I(p.Key(r, "pid")),
					view.I(p.Key(r, "tid")),
					view.TOrNull(p.Word(r, "info", "user")),
					view.T(p.Key(r, "process")),
					view.T(name),
					view.N(
						p.At(r, usr),
					),
					view.N(p.At(r, sys)),
					view.N(p.At(r, wait)),
					view.N(p.At(r, disk)),
					view.N(sleep),
					view.N(p.At(r, vcx)),
					view.N(p.At(r, icx)),
					view.N(p.At(r, minor)),
					view.N(p.At(r, major)),
					view.N(
						p.At(r, read),
					),
					view.N(p.At(r, written)),
					view.N(p.At(r, rss)),
					view.N(p.At(r, count)),
					view.N(p.At(r, short)),
					view.TOrNull(p.Word(r, "info", "command")),
				},
			},
		)
	}
	if unseen > maxShortLived {
		t.Notes = append(
			t.Notes,
			"the CPU time of processes too short-lived to have a row is %KIDS of their parent "+
				"(-w shows it)",
		)
	}
	return t
}

// psOrder returns the sort value of a process or thread, largest first: its share of a CPU, then
// its share of time waiting for a CPU, then its switches per second. Rows with unknown CPU time
// come after all others. The result is NaN if all three are unknown.
func psOrder(busy, wait, switches float64) float64 {
	if math.IsNaN(sum(busy, wait, switches)) {
		return measure.NaN
	}
	less := orZero(wait)*1e3 + orZero(switches)
	if math.IsNaN(busy) {
		return less - unknownPenalty
	}
	return busy*1e6 + less
}

// unknownPenalty is more than the share of waiting and the switches per second add up to in
// psOrder.
const unknownPenalty = 1e15

// maxShortLived is the share of a CPU that processes without a row may use before a note is shown.
// The commands of a shell use less.
const maxShortLived = 0.1
