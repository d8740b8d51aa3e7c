package classic

import (
	"culprit/measure"
	"culprit/view"
)

// cpuModes returns the modes of cpu.time in the order of mpstat.
func cpuModes() []string {
	return []string{
		"usr",
		"nice",
		"sys",
		"iowait",
		"irq",
		"soft",
		"steal",
		"guest",
		"guest_nice",
		"idle",
		"unaccounted",
	}
}

// CPU returns the tool cpu, like mpstat -P ALL.
func CPU() *view.Tool {
	return &view.Tool{
		Name:  "cpu",
		Short: "where each CPU's time goes (mpstat -P ALL)",
		Long: `Shares of each CPU's time by mode, from /proc/stat. The modes mean what they mean in mpstat: guest
time is taken out of %usr and %nice, and the modes of a CPU add up to 100.
The kernel counts most modes by sampling at each timer tick, so short bursts of work between two
ticks may be missed. Work that always falls between two ticks is in no mode. It is shown as %unacc,
in wide terminals and in JSON, so that idle is right; mpstat divides by what was counted and calls
such a CPU idle.
-x adds interrupts, softirqs and context switches per second. The kernel counts context switches for
the whole machine only.`,
		Examples: []view.Example{
			{Line: "culprit cpu 1", Means: "each CPU, every second"},
			{
				Line:  "culprit cpu -x 5 3",
				Means: "three times five seconds, with interrupts, softirqs and context switches",
			},
			{
				Line:  "culprit cpu --json 1 | jq '.rows[] | select(.idle < 0.1) | .cpu'",
				Means: "busy CPUs",
			},
		},
		Flags: []view.Flag{
			{Name: "extended", Letter: "x", Help: "add interrupts, softirqs and context switches"},
			{Name: "summary", Letter: "s", Help: "only the line of all CPUs"},
		},
		Ask: func(view.Options) []string {
			return []string{
				"cpu.time by cpu,mode",
				"cpu.interrupts by cpu",
				"softirq.count by cpu",
				"sched.switches",
			}
		},
		NeedsFlag: map[measure.StatID]string{
			"cpu.interrupts": "extended",
			"softirq.count":  "extended",
			"sched.switches": "extended",
		},
		Table: cpuTable,
		Drill: func(t *view.Table, r *view.Row) *view.Drill {
			if r.Total {
				return &view.Drill{Tool: "ps", Title: "processes"}
			}
			cpu := t.Text(r, "cpu")
			return &view.Drill{
				Tool:  "irq",
				Title: "interrupts of CPU " + cpu,
				Sort:  "cpu" + cpu + "_per_s",
			}
		},
	}
}

func cpuColumns() []view.Column {
	columns := []view.Column{
		{Name: "cpu", Head: "CPU", Width: 4, Left: true, Help: "number, or all"},
	}
	heads := map[string]string{"iowait": "%iowait", "guest_nice": "%gnice", "unaccounted": "%unacc"}
	for _, mode := range cpuModes() {
		head := heads[mode]
		if head == "" {
			head = "%" + mode
		}
		from := 0
		if mode == "guest_nice" || mode == "unaccounted" {
			from = 90
		}
		columns = append(
			columns,
			view.Column{
				Name:     mode,
				Head:     head,
				Show:     view.Percent,
				Decimals: 2,
				Width:    6,
				MinWidth: from,
				Help:     "share of the CPU's time in mode " + mode,
			},
		)
	}
	extended := []view.Column{
		{
			Name:  "interrupts_per_s",
			Head:  "intr/s",
			Width: 7,
			Help:  "interrupts per second: all lines of /proc/interrupts except TLB, which CAL includes",
		},
		{Name: "softirqs_per_s", Head: "soft/s", Width: 7, Help: "softirqs raised per second"},
		{
			Name:  "switches_per_s",
			Head:  "csw/s",
			Width: 7,
			Help:  "context switches per second; only for all CPUs together",
		},
	}
	return append(columns, extended...)
}

func cpuTable(o view.Options, f *view.Frame) *view.Table {
	var t *view.Table
	if o.Has("extended") {
		t = f.NewTable("cpu, extended", func() []view.Column {
			columns := cpuColumns()
			for i, c := range columns {
				if c.Name == "nice" || c.Name == "guest" || c.Name == "steal" {
					columns[i].MinWidth = 105
				}
			}
			return columns
		})
		t.View = "cpu"
	} else {
		t = f.NewTable("cpu", func() []view.Column {
			columns := cpuColumns()
			for i := len(columns) - 3; i < len(columns); i++ {
				columns[i].Head = ""
			}
			return columns
		})
		t.View = "cpu"
	}
	p := f.NewPivot("cpu")
	time := f.Of("cpu.time")
	names := cpuModes()
	var modes [16]int // columns of the pivot
	for k, mode := range names {
		modes[k] = p.Add(time, "mode", mode)
	}
	interrupts, softirqs := p.Add(f.Of("cpu.interrupts")), p.Add(f.Of("softirq.count"))
	p.Sort()

	var totalArray, valueArray [16]float64 // on the stack
	total, values := totalArray[:len(names)], valueArray[:len(names)]
	for k := range total {
		total[k] = measure.NaN
	}
	t.Rows = append(t.Rows, view.Row{}) // the row "all", set below
	sums := [2]float64{measure.NaN, measure.NaN}
	for r := range p.Len() {
		for k := range names {
			values[k] = p.At(r, modes[k])
			total[k] = sum(total[k], values[k])
		}
		sums[0], sums[1] = sum(sums[0], p.At(r, interrupts)), sum(sums[1], p.At(r, softirqs))
		t.Rows = append(
			t.Rows,
			cpuRow(f, p.Key(r, "cpu"), values, p.At(r, interrupts), p.At(r, softirqs), measure.NaN),
		)
	}
	t.Rows[0] = cpuRow(f, "all", total, sums[0], sums[1], f.One("sched.switches"))
	t.Rows[0].Total = true
	if o.Has("summary") {
		t.Rows = t.Rows[:1]
	}
	return t
}

// cpuRow returns the row of a CPU. It divides by the sum of the modes: the CPU's ticks and the
// measured interval differ by up to one tick.
func cpuRow(f *view.Frame, name string, modes []float64, rest ...float64) view.Row {
	whole := sum(modes...)
	if whole <= 0 {
		whole = measure.NaN
	}
	var array [24]view.Cell // on the stack
	cells := append(array[:0], view.T(name))
	for _, v := range modes {
		cells = append(cells, view.N(v/whole))
	}
	for _, v := range rest {
		cells = append(cells, view.N(v))
	}
	return view.Row{Key: name, Cells: f.CopyCells(cells...)}
}
