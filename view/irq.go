package view

import (
	"slices"
	"strconv"

	"culprit/measure"
)

// IRQ is intrstat and mdb's ::interrupts.
func IRQ() *Tool {
	return &Tool{
		Name:  "irq",
		Short: "interrupts and softirqs by device and CPU (intrstat, ::interrupts)",
		Long: `One row an interrupt line and one a kind of softirq, with how often each CPU took it per second. The time that they take cannot be had from counters: %tim
needs tracing, which this version does not do for interrupts yet, so the column is "-".
--map shows instead where each line may be and is delivered: IRQ, controller and type, allowed CPUs, the CPU it goes to now, handlers.`,
		Examples: []Example{
			{"culprit irq 1", "what interrupted whom, every second"},
			{"culprit irq --map", "the table of lines, their CPUs and handlers"},
		},
		Flags: []Flag{{Name: "map", Letter: "m", Help: "show lines, affinity and handlers"}, {Name: "all", Letter: "a", Help: "also lines of devices that did not move"}},
		Ask: func(o Options) []string {
			if o.Has("map") {
				return []string{"irq.affinity by irq,device,type,affinity,effective", "irq.count by irq"}
			}
			asked := []string{"irq.count by irq,cpu,device,type", "softirq.count by cpu,vector"}
			if o.Has("all") {
				asked = append(asked, "irq.affinity by irq,device,type") // counts are of lines that moved
			}
			return asked
		},
		Table: irqTable,
	}
}

func irqColumns() []Column {
	return []Column{
		{Name: "irq", Head: "IRQ", Width: 7, Left: true, Help: "line, or the kind of softirq"},
		{Name: "kind", Help: "hard or soft"},
		{Name: "device", Head: "Device", Width: 18, Left: true, Help: "handlers"},
		{Name: "type", Help: "controller and trigger"},
		{Name: "count_per_s", Head: "count/s", Decimals: 0, Width: 8, Help: "all CPUs"},
		{Name: "time_ratio", Head: "%tim", Show: Percent, Decimals: 1, Width: 5, Help: "share of one CPU; needs tracing"},
	}
}

func irqTable(o Options, f *Frame) *Table {
	if o.Has("map") {
		return irqMap(f)
	}
	t := f.table("irq", irqColumns)
	hard, soft := f.Of("irq.count"), f.Of("softirq.count")
	var cpus []string
	for _, a := range []*measure.Answer{soft, hard} {
		for i := range a.Series {
			if c := a.Word(i, "cpu"); !slices.Contains(cpus, c) {
				cpus = append(cpus, c)
			}
		}
	}
	slices.SortFunc(cpus, func(a, b string) int {
		if Natural(a, b) {
			return -1
		}
		return 1
	})
	for n, c := range cpus {
		t.Columns = append(t.Columns, Column{Name: "cpu" + c + "_per_s", Head: "cpu" + c, Decimals: 0, Width: 7, From: 56 + 8*(n+1), Help: "on CPU " + c})
	}
	p := f.pivot("irq", "device", "type", "vector")
	cols := make([][2]int, len(cpus))
	for n, c := range cpus {
		cols[n] = [2]int{p.Add(hard, "cpu", c), p.Add(soft, "cpu", c)}
	}
	if o.Has("all") {
		p.Add(f.Of("irq.affinity"))
	}
	p.Sort()
	var cells []Cell
	for r := range p.Len() {
		name, kind, sum := p.Key(r, "irq"), "hard", 0.0
		if v := p.Key(r, "vector"); v != "" {
			name, kind = v, "soft"
		}
		column := 0
		if kind == "soft" {
			column = 1
		}
		cells = append(cells[:0], T(name), T(kind), T(p.Key(r, "device")), T(p.Key(r, "type")), N(0), N(measure.NaN))
		for n := range cpus {
			v := p.At(r, cols[n][column])
			sum += known(v)
			cells = append(cells, N(v))
		}
		if sum == 0 && !o.Has("all") {
			continue
		}
		cells[4] = N(sum)
		t.Rows = append(t.Rows, Row{Key: p.ID(r), Cells: f.cells(cells...)})
	}
	slices.SortStableFunc(t.Rows, func(a, b Row) int { // lines with numbers, then the CPUs' own, then softirqs
		rank := func(r Row) int {
			if r.Cells[1].Text == "soft" {
				return 2
			}
			if _, err := strconv.Atoi(r.Cells[0].Text); err != nil {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	t.Notes = append(t.Notes, "%tim, the time in interrupt handlers, needs tracing: this version shows counts only")
	return t
}

func irqMap(f *Frame) *Table {
	t := &Table{View: "irq-map", Columns: []Column{
		{Name: "irq", Head: "IRQ", Width: 5, Help: "interrupt line"},
		{Name: "type", Head: "Type", Width: 24, Left: true, Help: "controller, vector and trigger"},
		{Name: "affinity", Head: "Allowed", Width: 8, Left: true, Help: "CPUs that it may go to"},
		{Name: "effective", Head: "Now", Width: 5, Left: true, Help: "CPU that it goes to"},
		{Name: "count_per_s", Head: "count/s", Decimals: 0, Width: 8, Help: "all CPUs"},
		{Name: "device", Head: "Handlers", Width: 10, Left: true, Help: "drivers and queues"},
	}}
	a := f.Of("irq.affinity")
	p := NewPivot("irq")
	col := p.Add(a)
	count := p.Add(f.Of("irq.count"))
	p.Join("map", a)
	p.Sort()
	for r := range p.Len() {
		if v := p.At(r, col); v != v {
			continue
		}
		w := func(field string) Cell { return TOrNull(p.Word(r, "map", field)) }
		t.Rows = append(t.Rows, Row{Key: p.ID(r), Cells: []Cell{T(p.Key(r, "irq")), w("type"), w("affinity"), w("effective"), N(p.At(r, count)), w("device")}})
	}
	return t
}
