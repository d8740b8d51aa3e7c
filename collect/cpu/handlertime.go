package cpu

import (
	"slices"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// softirqNames are the softirqs by number, named as in /proc/softirqs (softirq_to_name in
// kernel/softirq.c).
// table: never changed
var softirqNames = [...]string{
	"HI",
	"TIMER",
	"NET_TX",
	"NET_RX",
	"BLOCK",
	"IRQ_POLL",
	"TASKLET",
	"SCHED",
	"HRTIMER",
	"RCU",
}

const netRX = 3 // index in softirqNames

// handlerTimes measures irq.time and softirq.time by bpf.Handlers, from the first reading on.
type handlerTimes struct {
	root          kernel.Root
	open          bool
	h             *bpf.Handlers
	why           string                // why h could not be opened
	coming        chan *bpf.DeviceTimes // nil: received, or will not come
	devices       *bpf.DeviceTimes      // nil: not yet opened, or not available
	names         map[uint64]string     // of other network namespaces, by inode
	named         time.Time             // when names may be listed again
	net           uint64                // inode of the tool's own network namespace
	preemptible   bool                  // real-time kernel: softirqs can be preempted
	cost          time.Duration         // CPU time of the programs when last read
	gone          time.Duration         // part of cost by programs that are closed
	asked         time.Time
	round         int
	stopped       bool   // devices are no longer measured because of the cost
	exceededShare string // exceeded share of a CPU in percent, by costBucket
	// NET_RX time in this reading by CPU, without that of devices; below 0 if devices have time of
	// a softirq that still runs
	softirq []float64
	numbers collect.NumberLabels
	text    []byte
}

// begin opens the programs, which takes some milliseconds. highest is the highest interrupt number.
func (t *handlerTimes) begin(highest int, byDevice bool) {
	t.open, t.asked = true, time.Now()
	h, err := bpf.OpenHandlers(t.root, highest)
	if err != nil {
		t.why = "the time of interrupts is measured by programs in the kernel: " + err.Error()
		return
	}
	t.h = h
	if b, err := proc.ReadSys(t.root, "kernel/realtime", nil); err == nil && len(b) > 0 &&
		b[0] == '1' {
		t.preemptible = true
	}
	if !byDevice {
		return
	}
	t.net = netlink.OwnNamespace(t.root).Inode
	t.coming = make(chan *bpf.DeviceTimes, 1)
	go func() {
		p, err := h.OpenDevices(bpf.NewTypes(t.root))
		if err != nil {
			p = nil // softirq.time is then without devices
		}
		t.coming <- p
	}()
}

func (t *handlerTimes) close() {
	if t.coming != nil {
		t.devices = <-t.coming
		t.coming = nil
	}
	t.devices.Close()
	t.h.Close()
	t.h = nil
}

// read puts the times since the previous reading. r has the names of the interrupts.
func (t *handlerTimes) read(out *collect.Out, r *interruptsReading) {
	lines, soft, own := out.Table("irq.time"), out.Table("softirq.time"), out.Table("irq.time.cost")
	if lines == nil && soft == nil && own == nil {
		return
	}
	if !t.open {
		highest := 0
		for _, line := range r.order {
			if n, err := strconv.Atoi(line.name); err == nil {
				highest = max(highest, n)
			}
		}
		t.begin(highest, soft != nil)
	}
	if t.h == nil || out.First && out.SinceBoot {
		why := t.why
		if t.h != nil {
			why = "the time of interrupts before the first reading is not known"
		}
		for _, table := range []*collect.Table{lines, soft, own} {
			table.Unmeasured(why)
		}
		return
	}
	if t.coming != nil {
		select {
		case t.devices = <-t.coming:
			t.coming = nil
		default:
		}
	}
	for k := range bpf.HandlerKinds {
		if !t.h.Has(k) {
			lines.Note("the time of " + k.String() + " is not known: this kernel has no " +
				"tracepoint for it")
		}
	}
	if t.h.Lost() > 0 {
		lines.Note("interrupts with numbers far above those at the start are left out")
	}
	if t.preemptible {
		soft.Note("on this real-time kernel the time of a softirq includes the time in which " +
			"it was preempted")
	}
	none := out.Label("")
	// Devices are read first. Their time is then within that of softirqs, except for one that still
	// runs.
	if t.devices != nil && soft != nil {
		if err := t.devices.Each(func(p bpf.DeviceTime) {
			*t.rest(p.CPU) -= float64(p.Time)
			t.text = t.text[:0]
			if uint64(p.Net) != t.net {
				t.text = append(append(t.text, t.nameOf(uint64(p.Net))...), '/')
			}
			t.text = append(t.text, p.Device...)
			soft.Put(
				float64(p.Time), t.numbers.Of(out, p.CPU), out.Label(softirqNames[netRX]),
				out.LabelBytes(t.text),
			)
		}); err != nil {
			soft.Note(err.Error())
		}
	}
	t.h.Read(func(h bpf.HandlerTime) {
		v, cpu := float64(h.Time), t.numbers.Of(out, h.CPU)
		switch h.What {
		case bpf.HandlerSoftirq:
			if h.Number == netRX {
				*t.rest(h.CPU) += v
			} else if h.Number < len(softirqNames) {
				soft.Put(v, cpu, out.Label(softirqNames[h.Number]), none)
			}
		case bpf.HandlerOther:
			t.line(out, lines, r, bpf.HandlerKind(h.Number).String(), cpu, v)
		case bpf.HandlerLine:
			t.line(out, lines, r, strconv.Itoa(h.Number), cpu, v)
		}
	})
	for cpu, v := range t.softirq {
		if v > 0 {
			soft.Put(v, t.numbers.Of(out, cpu), out.Label(softirqNames[netRX]), none)
			t.softirq[cpu] = 0
		}
	}
	t.account(out, own, lines, soft)
}

// nameOf returns the name of a network namespace by its inode, as --netns all shows it; net:INODE
// if it has no name.
func (t *handlerTimes) nameOf(net uint64) string {
	if name, known := t.names[net]; known {
		return name
	}
	// To look at thousands of processes takes milliseconds: not at each reading.
	if now := time.Now(); now.After(t.named) {
		t.names = map[uint64]string{}
		// an error says what is missing; the rest is good
		all, _ := netlink.Namespaces(t.root, collect.MaxNamespaces)
		for _, ns := range all {
			t.names[ns.Inode] = ns.Name
		}
		t.named = now.Add(collect.ListEvery)
		if name, known := t.names[net]; known {
			return name
		}
	}
	return "net:" + strconv.FormatUint(net, 10)
}

func (t *handlerTimes) rest(cpu int) *float64 {
	for cpu >= len(t.softirq) {
		t.softirq = append(t.softirq, 0)
	}
	return &t.softirq[cpu]
}

func (t *handlerTimes) line(
	out *collect.Out, lines *collect.Table, r *interruptsReading, name string, cpu measure.Label,
	v float64,
) {
	if line := r.lines[name]; line != nil {
		l := line.label(out)
		lines.Put(v, l[0], cpu, l[1], l[2])
		return
	}
	none := out.Label("") // the namespace is gone
	lines.Put(v, out.Label(name), cpu, none, none)
}

// costBucket returns the largest of 1, 2, 5, 10 ... percent that the share of a CPU exceeds, ""
// below one percent. So the note changes rarely.
func costBucket(share float64) (percent string) {
	for _, step := range []int{1, 2, 5, 10, 20, 50} {
		if 100*share > float64(step) {
			percent = strconv.Itoa(step)
		}
	}
	return percent
}

// mostForDevices is the share of one CPU that the programs of each packet may use.
const mostForDevices = 0.2

// costEvery is how many readings pass before the cost is read again, which asks for each program.
const costEvery = 10

// account reads the CPU time of the programs. It adds it to the cost of the tables, puts it into
// own, which may be nil, and notes it if it is high.
func (t *handlerTimes) account(out *collect.Out, own *collect.Table, tables ...*collect.Table) {
	tables = slices.DeleteFunc(tables, func(t *collect.Table) bool { return t == nil })
	// the first readings count too, so that a short run is bounded
	if t.round++; own != nil || t.round <= costEvery || t.round%costEvery == 2 {
		cost, known := t.h.Cost()
		switch {
		case known:
			now := time.Now()
			cost += t.gone + t.devices.Cost()
			d, share := cost-t.cost, float64(cost-t.cost)/float64(now.Sub(t.asked))
			t.cost, t.asked, t.exceededShare = cost, now, costBucket(share)
			if t.devices != nil && share > mostForDevices {
				t.gone += t.devices.Cost()
				t.devices.Close()
				t.devices, t.stopped = nil, true
			}
			for _, table := range tables {
				table.AddCost(measure.Span(d) / measure.Span(len(tables)))
			}
			own.Put(float64(d))
		default:
			own.Unmeasured(kernel.RefusedNote("the CPU time of BPF programs needs CAP_SYS_ADMIN",
				"read the CPU time of BPF programs", unix.CAP_SYS_ADMIN))
		}
	}
	if t.stopped {
		out.Table("softirq.time").Note("the time of NET_RX by device is no longer measured: it " +
			"took more than 20 % of one CPU")
	}
	for _, table := range tables {
		if t.exceededShare != "" && own == nil {
			table.Note("to measure the time of interrupts takes more than " + t.exceededShare +
				" % of one CPU here")
		}
	}
}
