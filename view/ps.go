package view

import (
	"math"

	"culprit/measure"
)

// PS is prstat -mL and top.
func PS() *Tool {
	return &Tool{
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
		Examples: []Example{
			{"culprit ps 1", "the busiest processes (top)"},
			{"culprit ps -L 1", "threads, with microstates (prstat -mL)"},
			{"culprit ps --sort written_bytes_per_s 5", "which processes write"},
			{"culprit ps -p 1234,1235 1", "only these processes"},
		},
		Flags: []Flag{
			{Name: "threads", Letter: "L", Help: "threads instead of processes"},
			{
				Name:   "pid",
				Letter: "p",
				Value:  "PID",
				Many:   true,
				Names:  "process.state by pid",
				Help:   "only these processes (comma list)",
			},
			{
				Name:  "name",
				Value: "NAME",
				Many:  true,
				Names: "process.state by process",
				Help:  "only processes of these names (comma list with * and ?; \\, is a comma in a name)",
			},
			{Name: "all", Letter: "a", Help: "also idle ones"},
		},
		Most: 20,
		Ask: func(o Options) []string {
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
		Drill: func(t *Table, r *Row) *Drill {
			pid := t.Text(r, "pid")
			if t.Text(r, "tid") != "" {
				return &Drill{
					Tool:    "flows",
					Options: Options{"pid": {pid}},
					Title:   "connections of process " + pid,
				}
			}
			return &Drill{
				Tool:    "ps",
				Options: Options{"threads": {""}, "pid": {pid}},
				Title:   "threads of " + t.Text(r, "process") + " (" + pid + ")",
			}
		},
	}
}

func psTable(o Options, f *Frame) *Table {
	threads := o.Has("threads")
	t := &Table{View: "ps"}
	head := func(show bool, h string) string {
		if show {
			return h
		}
		return ""
	}
	share := func(name, h string, help string) Column {
		return Column{Name: name, Head: h, Show: Percent, Decimals: 1, Width: 5, Help: help}
	}
	rate := func(name, h string, from int, help string) Column {
		return Column{Name: name, Head: h, Decimals: 0, Width: 5, From: from, Help: help}
	}
	slp := share("sleep", head(threads, "%SLP"), "the rest of a thread's time")
	dsk := share("disk_wait", head(!threads, "%DSK"), "waiting for a disk")
	t.Columns = []Column{
		{Name: "pid", Head: "PID", Width: 7, Help: "process id"},
		{Name: "tid", Head: head(threads, "TID"), Width: 7, Help: "thread id"},
		{
			Name:  "user",
			Head:  head(!threads, "User"),
			Width: 8,
			Left:  true,
			From:  90,
			Help:  "effective user",
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
		share(
			"usr", "%USR", "user time",
		), share("sys", "%SYS", "kernel time"), share("run_wait", "%LAT", "ready, waiting for a CPU"), dsk, slp,
		rate(
			"voluntary_switches_per_s", "VCX", 0, "voluntary context switches",
		), rate("involuntary_switches_per_s", "ICX", 0, "involuntary context switches"),
		rate(
			"minor_faults_per_s", "MINF", 110, "page faults served from memory",
		), rate("major_faults_per_s", "MAJF", 100, "page faults that read a disk"),
		{
			Name:  "read_bytes_per_s",
			Head:  head(!threads, "rdKB/s"),
			Show:  KiB,
			Width: 6,
			Help:  "read from storage",
		},
		{
			Name:  "written_bytes_per_s",
			Head:  head(!threads, "wrKB/s"),
			Show:  KiB,
			Width: 6,
			Help:  "written to storage",
		},
		{
			Name:  "rss_bytes",
			Head:  head(!threads, "RSS"),
			Show:  Humane,
			Width: 6,
			From:  90,
			Help:  "resident memory",
		},
		{Name: "threads", Head: head(!threads, "Thr"), Width: 4, From: 100, Help: "threads"},
		{
			Name:     "children",
			Head:     head(!threads, "%KIDS"),
			Show:     Percent,
			Decimals: 1,
			Width:    5,
			From:     100,
			Help:     "CPU time of children that ended between two readings",
		},
		{
			Name:  "command",
			Head:  head(!threads, "Command"),
			Left:  true,
			Cut:   true,
			Width: 20,
			From:  140,
			Help:  "command line",
		},
	}
	k, prefix := []string{"pid", "process"}, measure.StatID("process.")
	if threads {
		k, prefix = []string{"pid", "process", "tid", "thread"}, "thread."
	}
	p := f.pivot(k...)
	usr, sys := p.Add(f.Of(prefix+"cpu"), "mode", "usr"), p.Add(f.Of(prefix+"cpu"), "mode", "sys")
	wait := p.Add(f.Of(prefix + "runwait"))
	disk := p.Add(f.Of("process.delay"), "reason", "blkio")
	vcx, icx := p.Add(f.Of(prefix+"switches"), "type", "voluntary"), p.Add(f.Of(prefix+"switches"), "type", "involuntary")
	minor, major := p.Add(f.Of(prefix+"faults"), "type", "minor"), p.Add(f.Of(prefix+"faults"), "type", "major")
	read, written := p.Add(f.Of("process.io"), "direction", "read"), p.Add(f.Of("process.io"), "direction", "write")
	rss, count, short := p.Add(
		f.Of("process.rss"),
	), p.Add(
		f.Of("process.threads"),
	), p.Add(
		f.Of("process.short"),
	)
	p.Join("info", f.Of("process.info"))
	busy := func(r int) float64 { return sum(p.At(r, usr), p.At(r, sys)) }
	p.SortBy(func(r int) float64 { return psOrder(busy(r), p.At(r, wait), p.At(r, vcx)) }, 0)
	unseen := 0.0
	for r := range p.Len() {
		if len(o["pid"]) > 0 && !anyMatch(o["pid"], p.Key(r, "pid")) ||
			len(o["name"]) > 0 && !anyMatch(o["name"], p.Key(r, "process")) {
			continue
		}
		did := known(
			busy(r),
		) + known(
			p.At(r, wait),
		) + known(
			p.At(r, disk),
		) + known(
			p.At(r, vcx),
		) + known(
			p.At(r, icx),
		) + known(
			p.At(r, minor),
		) + known(
			p.At(r, major),
		) + known(
			p.At(r, read),
		) + known(
			p.At(r, written),
		) + known(
			p.At(r, short),
		)
		idle := did == 0 && busy(r) == busy(r) // of unknown CPU time it may be the busiest
		if idle && !o.Has("all") && len(o["pid"]) == 0 {
			continue
		}
		unseen += known(p.At(r, short))
		sleep := measure.NaN
		if threads {
			sleep = max(
				0, 1-p.At(r, usr)-p.At(r, sys)-p.At(r, wait),
			) // unknown where one of them is
		}
		name := p.Key(r, "process")
		if threads && p.Key(r, "thread") != name {
			name += "/" + p.Key(r, "thread")
		}
		t.Rows = append(
			t.Rows,
			Row{
				Key: p.ID(r),
				Cells: []Cell{
					I(p.Key(r, "pid")),
					I(p.Key(r, "tid")),
					TOrNull(p.Word(r, "info", "user")),
					T(p.Key(r, "process")),
					T(name),
					N(
						p.At(r, usr),
					),
					N(p.At(r, sys)),
					N(p.At(r, wait)),
					N(p.At(r, disk)),
					N(sleep),
					N(p.At(r, vcx)),
					N(p.At(r, icx)),
					N(p.At(r, minor)),
					N(p.At(r, major)),
					N(
						p.At(r, read),
					),
					N(p.At(r, written)),
					N(p.At(r, rss)),
					N(p.At(r, count)),
					N(p.At(r, short)),
					TOrNull(p.Word(r, "info", "command")),
				},
			},
		)
	}
	if unseen > mostUnseen {
		t.Notes = append(
			t.Notes,
			"the CPU time of processes too short-lived to have a row is %KIDS of their parent (-w shows it)",
		)
	}
	return t
}

// psOrder returns the number that rows of processes or threads are ordered by, the largest first:
// the share of a CPU that they used, then the share that they waited for one, then switches per
// second. A row whose CPU time is unknown stands after all rows whose CPU time is known, at 0 too.
// NaN where all three are unknown.
func psOrder(busy, wait, switches float64) float64 {
	if math.IsNaN(sum(busy, wait, switches)) {
		return measure.NaN
	}
	less := known(wait)*1e3 + known(switches)
	if math.IsNaN(busy) {
		return less - afterAll
	}
	return busy*1e6 + less
}

// afterAll is more than any machine's switches per second and shares of waiting come to in psOrder.
const afterAll = 1e15

// mostUnseen is how much of a CPU processes without a row may take before a note says where that
// is: less is what is left of any shell's commands.
const mostUnseen = 0.1
