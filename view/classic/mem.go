package classic

import "culprit/view"

import "culprit/measure"

// Mem returns the tool mem, like vmstat.
func Mem() *view.Tool {
	return &view.Tool{
		Name:  "mem",
		Short: "run queue, memory, paging, reclaim, interrupts and CPU in one line (vmstat)",
		Long: `One line per interval, with vmstat's columns. r is runnable and b blocked tasks at the end of the
interval. Memory is in KiB. si and so are swapped in and out, bi and bo read from and written to
block devices, in KiB per second. sr is KiB of memory scanned per second for pages to reclaim: it is
0 on a machine with enough memory. minf and majf are page faults per second; major ones waited for a
disk. in and cs are interrupts and context switches per second. us, sy, id, wa and st are shares of
all CPUs; us includes nice, sy includes interrupts, as in vmstat.
--wide adds the share of time in which some task waited for memory, where the kernel has pressure
information, and the uses of memory (sar -r ALL, in KiB), which overlap and do not add up.`,
		Examples: []view.Example{
			{Line: "culprit mem 1", Means: "every second"},
			{Line: "culprit mem -w 5", Means: "with reclaim, pressure and the uses of memory"},
		},
		Ask: func(view.Options) []string {
			return []string{
				"sched.runnable",
				"sched.blocked",
				"memory.size by kind",
				"memory.swap by direction",
				"memory.paging by direction",
				"memory.scan",
				"memory.reclaim",
				"memory.stalls",
				"memory.faults by type",
				"system.interrupts",
				"sched.switches",
				"cpu.time by mode",
				"pressure.time by resource,scope",
				"memory.oom",
			}
		},
		MinWidth: map[measure.StatID]int{
			"pressure.time":  130,
			"memory.reclaim": 130,
			"memory.stalls":  130,
		},
		Table: memTable,
		Drill: func(*view.Table, *view.Row) *view.Drill {
			return &view.Drill{
				Tool:    "ps",
				Options: view.Options{"all": {""}},
				Title:   "processes by resident memory",
				Sort:    "rss_bytes",
			}
		},
	}
}

func memTable(_ view.Options, f *view.Frame) *view.Table {
	size := func(kind string) float64 { return f.One("memory.size", "kind", kind) }
	t := f.NewTable("mem", func() []view.Column { return nil })
	var array [48]view.Cell // on the stack
	cells := array[:0]
	add := func(v float64, c view.Column) {
		t.Columns = append(t.Columns, c)
		cells = append(cells, view.N(v))
	}
	k := func(name, head string, width, from int, help string) view.Column {
		return view.Column{
			Name:     name,
			Head:     head,
			Show:     view.KiB,
			Width:    width,
			MinWidth: from,
			Help:     help,
		}
	}
	n := func(name, head string, width, from int, help string) view.Column {
		return view.Column{Name: name, Head: head, Width: width, MinWidth: from, Help: help}
	}
	add(f.One("sched.runnable"), n("runnable", "r", 2, 0, "tasks running or waiting for a CPU"))
	add(
		f.One("sched.blocked"),
		n("blocked", "b", 2, 0, "tasks in uninterruptible sleep, mostly waiting for a disk"),
	)
	add(
		measure.Difference(size("swap_total"), size("swap_free")),
		k("swap_used_bytes", "swpd", 7, 90, "swap in use"),
	)
	add(size("free"), k("free_bytes", "free", 8, 0, "unused memory"))
	add(size("buffers"), k("buffers_bytes", "buff", 6, 90, "buffers of block devices"))
	add(
		sum(size("cached"), size("slab_reclaimable")),
		k("cache_bytes", "cache", 8, 0, "page cache and reclaimable slabs"),
	)
	add(
		size("available"),
		k("available_bytes", "avail", 8, 100, "memory that programs can get without swapping"),
	)
	add(
		f.One("memory.swap", "direction", "in"),
		k("swap_in_bytes_per_s", "si", 3, 0, "read from swap"),
	)
	add(
		f.One("memory.swap", "direction", "out"),
		k("swap_out_bytes_per_s", "so", 3, 0, "written to swap"),
	)
	add(
		f.One("memory.paging", "direction", "in"),
		k("read_bytes_per_s", "bi", 6, 110, "read from block devices"),
	)
	add(
		f.One("memory.paging", "direction", "out"),
		k("written_bytes_per_s", "bo", 6, 110, "written to block devices"),
	)
	add(f.One("memory.scan"), k("scan_bytes_per_s", "sr", 3, 0, "memory scanned for reclaim"))
	add(f.One("memory.reclaim"), k("reclaim_bytes_per_s", "reclm", 5, 130, "memory reclaimed"))
	add(
		f.One("memory.stalls"),
		n("stalls_per_s", "stall", 5, 130, "times that a task reclaimed memory itself"),
	)
	add(
		f.One("memory.faults", "type", "minor"),
		n("minor_faults_per_s", "minf", 5, 0, "page faults served from memory"),
	)
	add(
		f.One("memory.faults", "type", "major"),
		n("major_faults_per_s", "majf", 4, 0, "page faults that read a disk"),
	)
	add(f.One("system.interrupts"), n("interrupts_per_s", "in", 5, 0, "interrupts"))
	add(f.One("sched.switches"), n("switches_per_s", "cs", 5, 0, "context switches"))
	usage := cpuShares(f.Of("cpu.time"))
	p := func(name, head, help string) view.Column {
		return view.Column{Name: name, Head: head, Show: view.Percent, Width: 2, Help: help}
	}
	add(
		usage("usr")+usage("nice")+usage("guest")+usage("guest_nice"),
		p("user", "us", "user time, all CPUs"),
	)
	add(usage("sys")+usage("irq")+usage("soft"), p("system", "sy", "kernel time, all CPUs"))
	id := p("idle", "id", "idle time")
	id.Width = 3
	add(usage("idle"), id)
	add(usage("iowait"), p("iowait", "wa", "idle while a task waited for a disk"))
	st := p("steal", "st", "taken by the hypervisor")
	st.MinWidth = 90
	add(usage("steal"), st)
	psi := p("pressure_some", "psi%", "share of the time in which some task waited for memory")
	psi.Width, psi.MinWidth, psi.Decimals = 4, 130, 1
	add(f.One("pressure.time", "resource", "memory", "scope", "some"), psi)
	for _, c := range [...]struct{ kind, name, head, help string }{
		{"anon", "anon_bytes", "anon", "memory of programs not backed by a file"},
		{"mapped", "mapped_bytes", "mapped", "pages of files that programs have mapped"},
		{"shmem", "shared_bytes", "shmem", "shared memory and tmpfs, within cache"},
		{"active", "active_bytes", "active", "used recently: the last to be reclaimed"},
		{"inactive", "inactive_bytes", "inact", "not used recently: the first to be reclaimed"},
		{"dirty", "dirty_bytes", "dirty", "to be written to disks"},
		{"writeback", "writeback_bytes", "wback", "being written to disks"},
		{"slab_unreclaimable", "slab_bytes", "slab", "objects of the kernel that can't be reclaimed"},
		{"kernel_stack", "kernel_stack_bytes", "kstack", "kernel stacks, one per thread"},
		{"page_tables", "page_table_bytes", "pgtbl", "page tables"},
		{"vmalloc", "vmalloc_bytes", "vmall", "memory that the kernel maps for itself"},
		{"committed", "committed_bytes", "commit", "memory promised to programs"},
	} {
		add(size(c.kind), k(c.name, c.head, 7, 240, c.help))
	}
	promised := p(
		"committed_ratio", "%com", "memory promised to programs, as a share of memory and swap",
	)
	promised.Width, promised.MinWidth = 4, 240
	add(size("committed")/(size("total")+size("swap_total")), promised)
	t.Rows = append(t.Rows, view.Row{Cells: f.CopyCells(cells...)})
	return t
}

// cpuShares returns a function from a mode to its share of the time of all CPUs.
func cpuShares(time *measure.Answer) func(mode string) float64 {
	whole, column := 0.0, time.FieldIndex("mode")
	for i := range time.Series {
		if v := time.Series[i].Values[0]; v == v {
			whole += v
		}
	}
	return func(mode string) float64 {
		if whole <= 0 {
			return measure.NaN
		}
		var sum float64
		for i := range time.Series {
			if v := time.Series[i].Values[0]; column >= 0 && v == v &&
				time.Label(i, column) == mode {
				sum += v
			}
		}
		return sum / whole
	}
}
