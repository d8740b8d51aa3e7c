package classic

import (
	"math"
	"slices"

	"culprit/container"
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
S is the state at the end of the interval; in an average, the state that lasted longest. The line
above the table counts the processes in each state; with -p or --name there is none. With -a, those
in D and Z come first. -l adds the columns of top: PR is 20 + nice, and below 0 of real-time threads,
-1 minus their priority; TIME is the CPU time since the start in seconds. A server records them on request.
"-" means that this user may not read the number; a note says which right is missing.`,
		Examples: []view.Example{
			{Line: "culprit ps 1", Means: "the busiest processes (top)"},
			{Line: "culprit ps -L 1", Means: "threads, with microstates (prstat -mL)"},
			{Line: "culprit ps --sort written_bytes_per_s 5", Means: "which processes write"},
			{Line: "culprit ps -p 1234,1235 1", Means: "only these processes"},
			{Line: "culprit ps -l", Means: "with PR, NI, VIRT and TIME, as in top"},
		},
		Operand: "name",
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
			{
				Name: "long", Letter: "l",
				Help: "priority, nice value, virtual size and CPU time since the start",
			},
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
					"process.count by state",
				}
			}
			k := "pid,process"
			var long []string
			if o.Has("long") {
				long = []string{
					"process.priority by " + k, "process.nice by " + k, "process.virtual by " + k,
					"process.time by " + k,
				}
			}
			return append(long, []string{
				"process.cpu by " + k + ",mode",
				"process.runwait by " + k,
				"process.delay by " + k + ",reason",
				"process.switches by " + k + ",type",
				"process.faults by " + k + ",type",
				"process.io by " + k + ",direction",
				"process.rss by " + k,
				"process.threads by " + k,
				"process.short by " + k,
				"process.info by " + k + ",user,cgroup,command",
				"process.state by " + k + ",state",
				"process.count by state",
			}...)
		},
		Sums:  []measure.StatID{"process.state", "process.count"},
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
	if len(o["pid"]) == 0 && len(o["name"]) == 0 { // the line is of all processes
		t.Title = stateLine(f.Of("process.count"))
	}
	t.Columns = psColumns(threads)
	long := o.Has("long") && !threads
	if long {
		t.Columns = slices.Insert(t.Columns, longColumn, longColumns()...)
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
	priority, nice := p.Add(f.Of("process.priority")), p.Add(f.Of("process.nice"))
	virtual, total := p.Add(f.Of("process.virtual")), p.Add(f.Of("process.time"))
	p.Join("info", f.Of("process.info"))
	p.Join("state", longestLast(f.Of("process.state")))
	state := func(r int) string { return p.Word(r, "state", "state") }
	busy := func(r int) float64 { return sum(p.At(r, usr), p.At(r, sys)) }
	p.SortBy(func(r int) float64 {
		v := psOrder(busy(r), p.At(r, wait), p.At(r, vcx))
		if o.Has("all") {
			v = sum(v, stateOrder(state(r)))
		}
		return v
	}, 0)
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
		row := view.Row{
			Key: p.ID(r),
			Cells: []view.Cell{
				view.I(p.Key(r, "pid")),
				view.I(p.Key(r, "tid")),
				view.TOrNull(p.Word(r, "info", "user")),
				view.T(p.Key(r, "process")),
				view.T(name),
				view.TOrNull(state(r)),
				view.N(busy(r)),
				view.N(p.At(r, usr)),
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
				view.TOrNull(container.Parse(p.Word(r, "info", "cgroup")).String()),
				view.TOrNull(p.Word(r, "info", "command")),
			},
		}
		if long {
			row.Cells = slices.Insert(row.Cells, longColumn, view.N(p.At(r, priority)),
				view.N(p.At(r, nice)), view.N(p.At(r, virtual)), view.N(p.At(r, total)/1e9))
		}
		t.Rows = append(t.Rows, row)
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
