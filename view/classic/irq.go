package classic

import (
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
)

// IRQ returns the tool irq, like intrstat and mdb's ::interrupts.
func IRQ() *view.Tool {
	return &view.Tool{
		Name:  "irq",
		Short: "interrupts and softirqs by device and CPU (intrstat, ::interrupts)",
		Long: `One row per interrupt line and per kind of softirq: how often each CPU handled it per second, and
%tim, the time of its handlers on all CPUs as a share of one CPU.
The kernel does not measure that time. BPF programs at the tracepoints where handlers begin and end
do, while the tool runs. They need root, or CAP_BPF and CAP_PERFMON; without them the column is "-".
They take about 0.2 microseconds per interrupt; a note says if they take more than 1 % of a CPU. No
time is in two rows: that of a softirq excludes the interrupts that came meanwhile. The rows below
NET_RX show its time for the packets of each network device. %tim is "-" for interrupts without such
a tracepoint.
--map shows where each line may be and is delivered: IRQ, controller and type, allowed CPUs, the
current CPU, handlers.`,
		Examples: []view.Example{
			{Line: "culprit irq 1", Means: "which interrupts each CPU handles, every second"},
			{Line: "culprit irq --map", Means: "interrupt lines, their CPUs and handlers"},
		},
		Flags: []view.Flag{
			{Name: "map", Letter: "m", Help: "show lines, affinity and handlers"},
			{Name: "all", Letter: "a", Help: "also lines without interrupts"},
		},
		Ask: func(o view.Options) []string {
			if o.Has("map") {
				return []string{
					"irq.affinity by irq,device,type,affinity,effective",
					"irq.count by irq",
				}
			}
			asked := []string{
				"irq.count by irq,cpu,device,type",
				"softirq.count by cpu,vector",
				"irq.time by irq,cpu,device,type",
				"softirq.time by cpu,vector,device",
			}
			if o.Has("all") {
				asked = append(
					asked, "irq.affinity by irq,device,type",
				) // lines without interrupts have no counts
			}
			return asked
		},
		Table: irqTable,
	}
}

func irqColumns() []view.Column {
	return []view.Column{
		{Name: "irq", Head: "IRQ", Width: 7, Left: true, Help: "line, or the kind of softirq"},
		{
			Name: "kind",
			Help: "hard; soft; part: the time of a softirq for one device, which the softirq's row includes",
		},
		{Name: "device", Head: "Device", Width: 18, Left: true, Help: "handlers"},
		{Name: "type", Help: "controller and trigger"},
		{Name: "count_per_s", Head: "count/s", Decimals: 0, Width: 8, Help: "all CPUs"},
		{
			Name:     "time_ratio",
			Head:     "%tim",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			Help:     "time of its handlers on all CPUs, as a share of one CPU",
		},
	}
}

func irqTable(o view.Options, f *view.Frame) *view.Table {
	if o.Has("map") {
		return irqMap(f)
	}
	t := f.NewTable("irq", irqColumns)
	hard, soft := f.Of("irq.count"), f.Of("softirq.count")
	var cpus []string
	for _, a := range []*measure.Answer{soft, hard} {
		for i := range a.Series {
			if c := a.LabelOf(i, "cpu"); !slices.Contains(cpus, c) {
				cpus = append(cpus, c)
			}
		}
	}
	slices.SortFunc(cpus, func(a, b string) int {
		if view.NaturalLess(a, b) {
			return -1
		}
		return 1
	})
	for n, c := range cpus {
		t.Columns = append(
			t.Columns,
			view.Column{
				Name:     "cpu" + c + "_per_s",
				Head:     "cpu" + c,
				Decimals: 0,
				Width:    7,
				MinWidth: 57 + 8*(n+1),
				Help:     "on CPU " + c,
			},
		)
	}
	for _, c := range cpus {
		t.Columns = append(
			t.Columns,
			view.Column{
				Name:     "cpu" + c + "_time_ratio",
				Head:     "%cpu" + c,
				Show:     view.Percent,
				Decimals: 2,
				Width:    6,
				MinWidth: 57 + 15*len(cpus),
				Help:     "time of its handlers on CPU " + c + ", as a share of it",
			},
		)
	}
	hardTime, softTime := f.Of("irq.time"), f.Of("softirq.time")
	p := f.NewPivot("irq", "device", "type", "vector")
	type columns struct{ hard, soft, hardTime, softTime int }
	cols := make([]columns, len(cpus))
	for n, c := range cpus {
		cols[n] = columns{
			p.Add(hard, "cpu", c),
			p.Add(soft, "cpu", c),
			p.Add(hardTime, "cpu", c),
			p.Add(softTime, "cpu", c),
		}
	}
	if o.Has("all") {
		p.Add(f.Of("irq.affinity"))
	}
	p.Sort()
	parts := map[string][]float64{} // softirq -> per CPU the time for devices
	for r := range p.Len() {
		if v := p.Key(r, "vector"); v != "" && p.Key(r, "device") != "" {
			if parts[v] == nil {
				parts[v] = make([]float64, len(cpus))
			}
			for n := range cpus {
				parts[v][n] += orZero(p.At(r, cols[n].softTime))
			}
		}
	}
	var cells []view.Cell
	for r := range p.Len() {
		name, device, vector := p.Key(r, "irq"), p.Key(r, "device"), p.Key(r, "vector")
		kind := "hard"
		switch {
		case vector != "" && device != "":
			name, kind = vector, "part"
		case vector != "":
			name, kind = vector, "soft"
		}
		count, taken, moved := measure.NaN, measure.NaN, false
		cells = append(
			cells[:0], view.T(name), view.T(kind), view.T(device), view.T(p.Key(r, "type")),
			view.N(0), view.N(0),
		)
		for n := range cpus {
			v := p.At(r, cols[n].hard)
			switch kind {
			case "soft":
				v = p.At(r, cols[n].soft)
			case "part":
				v = measure.NaN
			}
			count = sum(count, v)
			moved = moved || v > 0
			cells = append(cells, view.N(v))
		}
		for n := range cpus {
			v := measure.NaN
			switch {
			case kind != "hard":
				v = p.At(r, cols[n].softTime)
				if more := parts[vector]; kind == "soft" && more != nil {
					v += more[n]
				}
			case timed(name):
				v = p.At(r, cols[n].hardTime)
			}
			taken = sum(taken, v)
			moved = moved || v > 0
			cells = append(cells, view.N(v))
		}
		if !moved && !o.Has("all") {
			continue
		}
		cells[4], cells[5] = view.N(count), view.N(taken)
		t.Rows = append(t.Rows, view.Row{Key: p.ID(r), Cells: f.CopyCells(cells...)})
	}
	slices.SortStableFunc(
		t.Rows,
		// Numbered lines, then the CPUs' own interrupts, then softirqs, each with its parts.
		func(a, b view.Row) int {
			rank := func(r view.Row) int {
				if r.Cells[1].Text != "hard" {
					return 2
				}
				if !isNumber(r.Cells[0].Text) {
					return 1
				}
				return 0
			}
			if d := rank(a) - rank(b); d != 0 || rank(a) < 2 {
				return d
			}
			return strings.Compare(a.Cells[0].Text, b.Cells[0].Text)
		},
	)
	return t
}

// timed reports whether the time of an interrupt is measured, given its name in /proc/interrupts.
func timed(name string) bool {
	switch name {
	case "LOC", "RES", "CAL", "IWI":
		return true
	}
	return isNumber(name)
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func irqMap(f *view.Frame) *view.Table {
	t := &view.Table{View: "irq-map", Columns: []view.Column{
		{Name: "irq", Head: "IRQ", Width: 5, Help: "interrupt line"},
		{Name: "type", Head: "Type", Width: 24, Left: true, Help: "controller, vector and trigger"},
		{Name: "affinity", Head: "Allowed", Width: 8, Left: true, Help: "CPUs that may handle it"},
		{Name: "effective", Head: "Now", Width: 5, Left: true, Help: "CPU that handles it"},
		{Name: "count_per_s", Head: "count/s", Decimals: 0, Width: 8, Help: "all CPUs"},
		{Name: "device", Head: "Handlers", Width: 10, Left: true, Help: "drivers and queues"},
	}}
	a := f.Of("irq.affinity")
	p := view.NewPivot("irq")
	col := p.Add(a)
	count := p.Add(f.Of("irq.count"))
	p.Join("map", a)
	p.Sort()
	for r := range p.Len() {
		if v := p.At(r, col); v != v {
			continue
		}
		w := func(field string) view.Cell { return view.TOrNull(p.Word(r, "map", field)) }
		t.Rows = append(
			t.Rows,
			view.Row{
				Key: p.ID(r),
				Cells: []view.Cell{
					view.T(p.Key(r, "irq")),
					w("type"),
					w("affinity"),
					w("effective"),
					view.N(p.At(r, count)),
					w("device"),
				},
			},
		)
	}
	return t
}
