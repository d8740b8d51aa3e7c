package classic

import (
	"math"

	"culprit/measure"
	"culprit/view"
)

// Use returns the tool use, like sysperfstat: utilization, saturation and errors of every resource
// in one line.
func Use() *view.Tool {
	return &view.Tool{
		Name:  "use",
		Short: "utilization, saturation and errors of CPU, memory, disk, network in one line (sysperfstat)",
		Long: `One line for all resources.
Utilization: %CPU of all CPUs; %Mem, memory that is not available to programs; %Disk and %Net of the
busiest single disk and interface, since a full one must not hide among idle ones. --wide names
them. Interfaces of unknown capacity are left out of %Net.
Saturation, what waits: cpu, runnable tasks beyond the number of CPUs; mem, MiB scanned and swapped
out per second; disk, the mean number of requests in the queue of the busiest disk or at it; net,
drops, fifo overruns and full queues per second.
Err: errors of interfaces and disks and out-of-memory kills per second. load is the kernel's
1-minute average. Where the kernel has pressure information, the last columns are the shares of time
in which some task waited for CPU, memory, I/O.`,
		Examples: []view.Example{
			{Line: "culprit use 1", Means: "every second"},
			{Line: "culprit use -w 10 6", Means: "a minute, with names"},
		},
		Ask: func(view.Options) []string {
			return []string{
				"cpu.time by cpu,mode",
				"memory.size by kind",
				"disk.busy by device",
				"disk.queue by device",
				"disk.info by device,kind",
				"net.device.bytes by netns,device,direction",
				"net.device.capacity by netns,device,direction",
				"net.device.info by netns,device,kind,duplex",
				"net.device.drops by netns,device",
				"net.device.fifo by netns,device",
				"net.qdisc.drops by netns,device" + wholeQueue,
				"net.device.errors by netns,device",
				"disk.errors by device",
				"memory.oom",
				"memory.scan",
				"memory.swap by direction",
				"sched.runnable",
				"sched.load by window",
				"pressure.time by resource,scope",
			}
		},
		Table: UseTable,
		Sums: []measure.StatID{
			"net.device.drops",
			"net.device.fifo",
			"net.device.errors",
			"net.qdisc.drops",
			"disk.errors",
		},
		Drill: func(t *view.Table, r *view.Row) *view.Drill {
			busiest, most := "ps", measure.NaN // of equal ones the first
			for _, of := range [...]struct{ column, tool string }{
				{"cpu_util", "ps"}, {"memory_util", "mem"}, {"disk_util", "disk"}, {"network_util", "nic"},
			} {
				if v := r.Cells[t.Column(of.column)].Num; v == v && !(v <= most) {
					busiest, most = of.tool, v
				}
			}
			return &view.Drill{Tool: busiest, Title: "the resource with the highest utilization"}
		},
	}
}

// UseTable returns the table of the tool use, which has one row.
func UseTable(_ view.Options, f *view.Frame) *view.Table {
	t := &view.Table{View: "use"}
	var row view.Row
	add := func(c view.Cell, col view.Column) {
		t.Columns = append(t.Columns, col)
		row.Cells = append(row.Cells, c)
	}
	percent := func(name, head, help string) view.Column {
		return view.Column{
			Name:     name,
			Head:     head,
			Show:     view.Percent,
			Decimals: 1,
			Width:    5,
			Help:     help,
		}
	}
	usage := cpuShares(f.Of("cpu.time"))
	add(
		view.N(measure.Difference(1, usage("idle"), usage("iowait"))),
		percent("cpu_util", "%CPU", "all CPUs, not idle"),
	)
	total := f.One("memory.size", "kind", "total")
	add(
		view.N(measure.Difference(total, f.One("memory.size", "kind", "available"))/total),
		percent("memory_util", "%Mem", "memory not available to programs"),
	)

	disks := view.NewPivot("device")
	busy, queue := disks.Add(f.Of("disk.busy")), disks.Add(f.Of("disk.queue"))
	failed := disks.Add(f.Of("disk.errors"))
	disks.Join("info", f.Of("disk.info"))
	real, made := busiest{
		busy:    measure.NaN,
		waiting: measure.NaN,
		failed:  measure.NaN,
	}, busiest{
		busy:    measure.NaN,
		waiting: measure.NaN,
		failed:  measure.NaN,
	}
	for r := range disks.Len() {
		switch disks.Word(r, "info", "kind") {
		case "partition":
		case "virtual":
			made.take(
				disks.Key(r, "device"), disks.At(r, busy), disks.At(r, queue), disks.At(r, failed),
			)
		default:
			real.take(
				disks.Key(r, "device"), disks.At(r, busy), disks.At(r, queue), disks.At(r, failed),
			)
		}
	}
	// A virtual device counts the I/O of its disks. It is used if the disks count nothing.
	disk, diskName, waiting, failures := real.busy, real.name, real.waiting, real.failed
	if disk != disk {
		disk, diskName = made.busy, made.name
	}
	if waiting != waiting {
		waiting = made.waiting
	}
	if failures != failures {
		failures = made.failed
	}
	add(view.N(disk), percent("disk_util", "%Disk", "busiest disk"))

	nets := view.NewPivot("netns", "device")
	rxb, txb := nets.AddTwo(f.Of("net.device.bytes"), "direction", "rx", "tx")
	rxc, txc := nets.AddTwo(f.Of("net.device.capacity"), "direction", "rx", "tx")
	unfit := []int{
		nets.Add(f.Of("net.device.drops")),
		nets.Add(f.Of("net.device.fifo")),
		nets.Add(f.Of("net.qdisc.drops")),
	}
	wrong := nets.Add(f.Of("net.device.errors"))
	nets.Join("info", f.Of("net.device.info"))
	net, netName, lost, errors := measure.NaN, "", measure.NaN, measure.NaN
	for r := range nets.Len() {
		if nets.Word(r, "info", "kind") != "bond" { // it counts the traffic of its members
			for _, c := range unfit {
				lost = sum(lost, nets.At(r, c))
			}
			errors = sum(errors, nets.At(r, wrong))
		}
		if nets.Word(r, "info", "kind") == "loopback" {
			continue
		}
		u, _, _ := share(
			nets.At(r, rxb), nets.At(r, txb), nets.At(r, rxc), nets.At(r, txc),
			nets.Word(r, "info", "duplex") == "half", "", "",
		)
		if !(u <= net) && u == u {
			net, netName = u, nets.Key(r, "device")
		}
	}
	add(view.N(net), percent("network_util", "%Net", "busiest interface of known capacity"))

	number := func(
		name, head string, show view.Show, decimals, width int, help string,
	) view.Column {
		return view.Column{
			Name:     name,
			Head:     head,
			Show:     show,
			Decimals: decimals,
			Width:    width,
			Help:     help,
		}
	}
	cpus := map[string]bool{}
	time := f.Of("cpu.time")
	for i := range time.Series {
		cpus[time.LabelOf(i, "cpu")] = true
	}
	add(
		view.N(math.Max(0, f.One("sched.runnable")-float64(len(cpus)))),
		number("cpu_saturation", "cpu", view.Plain, 1, 5, "runnable tasks beyond the CPUs"),
	)
	add(
		view.N(sum(f.One("memory.scan"), f.One("memory.swap", "direction", "out"))),
		number(
			"memory_saturation_bytes_per_s", "mem", view.MiB, 1, 5, "MiB/s scanned and swapped out",
		),
	)
	add(
		view.N(waiting),
		number("disk_saturation", "disk", view.Plain, 1, 5, "mean queue of the busiest disk"),
	)
	add(
		view.N(lost),
		number(
			"network_saturation_per_s", "net", view.Plain, 1, 6,
			"drops, overruns, full queues per second",
		),
	)
	add(
		view.N(sum(errors, failures, f.One("memory.oom"))),
		number("errors_per_s", "Err", view.Plain, 1, 5, "errors per second"),
	)
	add(
		view.N(f.One("sched.load", "window", "1m")),
		number("load_1m", "load", view.Plain, 2, 6, "load average of one minute"),
	)
	for _, resource := range []string{"cpu", "memory", "io"} {
		v := f.One("pressure.time", "resource", resource, "scope", "some")
		c := percent(
			"pressure_"+resource, "p"+resource[:min(3, len(resource))],
			"share of the time in which some task waited for "+resource,
		)
		c.MinWidth = 90
		if v != v {
			c.MinWidth = 130
		}
		add(view.N(v), c)
	}
	names := func(name, head, v, help string) {
		c := view.Column{Name: name, Head: head, Left: true, Width: 8, MinWidth: 110, Help: help}
		add(view.TOrNull(v), c)
	}
	names("disk", "disk", diskName, "the busiest disk")
	names("interface", "interface", netName, "the busiest interface")
	t.Rows = []view.Row{row}
	return t
}

// busiest holds the maximum of each quantity over several devices, NaN if unknown, and the sum of
// their errors.
type busiest struct {
	busy, waiting, failed float64
	name                  string // of the device with the highest busy
}

func (b *busiest) take(name string, busy, waiting, failed float64) {
	if v := min(busy, 1); !(v <= b.busy) && v == v {
		b.busy, b.name = v, name
	}
	if !(waiting <= b.waiting) && waiting == waiting {
		b.waiting = waiting
	}
	b.failed = sum(b.failed, failed)
}
