package cpu

import (
	"slices"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// softirqNames are the softirqs by number, as /proc/softirqs names them (softirq_to_name in kernel/softirq.c). table: never changed
var softirqNames = [...]string{"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"}

const netRX = 3 // of softirqNames

// handlerTimes gives irq.time and softirq.time: kernel.Handlers measures them from the first reading on.
type handlerTimes struct {
	root    kernel.Root
	open    bool
	h       *kernel.Handlers
	why     string                   // h can't be had
	coming  chan *kernel.DeviceTimes // nil: it has come, or will not
	devices *kernel.DeviceTimes      // nil: not yet, or can't be had
	names   map[uint64]string        // of other network namespaces, by inode
	named   time.Time                // when they may be looked for again
	net     uint64                   // inode of our own network namespace
	softly  bool                     // softirqs can be preempted
	cost    time.Duration            // when it was asked last
	gone    time.Duration            // of it, of programs that are not there any more
	asked   time.Time
	round   int
	stopped bool      // devices are not told apart any more, for what it took
	dear    string    // what of a CPU it takes more than, in per cent; "" below one
	softirq []float64 // NET_RX by CPU, in this reading: what no device has had of it; below 0 what devices had of a softirq that goes on
	numbers collect.NumberLabels
	text    []byte
}

// begin opens what measures, which takes some milliseconds. highest is the highest number of an interrupt.
func (t *handlerTimes) begin(highest int, byDevice bool) {
	t.open, t.asked = true, time.Now()
	h, err := t.root.OpenHandlers(highest)
	if err != nil {
		t.why = "the time that interrupts take is measured by programs in the kernel: " + err.Error()
		return
	}
	t.h = h
	if b, err := t.root.ReadSys("kernel/realtime", nil); err == nil && len(b) > 0 && b[0] == '1' {
		t.softly = true
	}
	if !byDevice {
		return
	}
	t.net = t.root.OwnNetNS().Inode
	t.coming = make(chan *kernel.DeviceTimes, 1)
	go func() {
		p, err := h.OpenDevices(t.root.NewTypes())
		if err != nil {
			p = nil // not told apart by device
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

// read puts what was measured since the reading before. r has the interrupts' names.
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
			why = "the time that interrupts take is not known from before it was measured"
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
	for k := range kernel.HandlerKinds {
		if !t.h.Has(k) {
			lines.Note("the time of " + k.String() + " is not known: this kernel has no tracepoint there")
		}
	}
	if t.h.Lost() > 0 {
		lines.Note("interrupts with numbers far beyond those of the start are left out")
	}
	if t.softly {
		soft.Note("on this real-time kernel the time of a softirq has that in it in which it was preempted")
	}
	none := out.Label("")
	// What devices had is read first: then it is within what softirqs had, but for one that goes on.
	if t.devices != nil && soft != nil {
		if err := t.devices.Each(func(p kernel.DeviceTime) {
			*t.rest(p.CPU) -= float64(p.Time)
			t.text = t.text[:0]
			if uint64(p.Net) != t.net {
				t.text = append(append(t.text, t.nameOf(uint64(p.Net))...), '/')
			}
			t.text = append(t.text, p.Device...)
			soft.Put(float64(p.Time), t.numbers.Of(out, p.CPU), out.Label(softirqNames[netRX]), out.LabelBytes(t.text))
		}); err != nil {
			soft.Note(err.Error())
		}
	}
	t.h.Read(func(h kernel.HandlerTime) {
		v, cpu := float64(h.Time), t.numbers.Of(out, h.CPU)
		switch h.What {
		case kernel.HandlerSoftirq:
			if h.Number == netRX {
				*t.rest(h.CPU) += v
			} else if h.Number < len(softirqNames) {
				soft.Put(v, cpu, out.Label(softirqNames[h.Number]), none)
			}
		case kernel.HandlerOther:
			t.line(out, lines, r, kernel.HandlerKind(h.Number).String(), cpu, v)
		case kernel.HandlerLine:
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

// nameOf gives the name of a network namespace by its inode, as --netns all shows it; net:INODE where it has none.
func (t *handlerTimes) nameOf(net uint64) string {
	if name, known := t.names[net]; known {
		return name
	}
	// Looking at thousands of processes takes milliseconds: not at each reading.
	if now := time.Now(); now.After(t.named) {
		t.names = map[uint64]string{}
		all, _ := t.root.NetNamespaces(collect.MaxNamespaces) // the error is of those that are not in it
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

func (t *handlerTimes) line(out *collect.Out, lines *collect.Table, r *interruptsReading, name string, cpu measure.Label, v float64) {
	if line := r.lines[name]; line != nil {
		l := line.label(out)
		lines.Put(v, l[0], cpu, l[1], l[2])
		return
	}
	none := out.Label("") // it has ended
	lines.Put(v, out.Label(name), cpu, none, none)
}

// dearness tells in steps what of a CPU measuring takes more than, in per cent; "" below one.
func dearness(share float64) (percent string) {
	for _, step := range []int{1, 2, 5, 10, 20, 50} {
		if 100*share > float64(step) {
			percent = strconv.Itoa(step)
		}
	}
	return percent
}

// mostForDevices is the share of one CPU that programs may take where they see each packet.
const mostForDevices = 0.2

// costEvery is how many readings are between two questions for the cost, but for the first: each program is asked.
const costEvery = 10

// account tells what measuring took: to the meter, to own, which may be nil, and else who looks where that is much.
func (t *handlerTimes) account(out *collect.Out, own *collect.Table, tables ...*collect.Table) {
	tables = slices.DeleteFunc(tables, func(t *collect.Table) bool { return t == nil })
	if t.round++; own != nil || t.round <= costEvery || t.round%costEvery == 2 { // a short look is bounded too
		cost, known := t.h.Cost()
		switch {
		case known:
			now := time.Now()
			cost += t.gone + t.devices.Cost()
			d, share := cost-t.cost, float64(cost-t.cost)/float64(now.Sub(t.asked))
			t.cost, t.asked, t.dear = cost, now, dearness(share)
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
		out.Table("softirq.time").Note("what of NET_RX is of each device is not measured any more: it took more than 20 % of one CPU")
	}
	for _, table := range tables {
		if t.dear != "" && own == nil {
			table.Note("measuring the time of interrupts takes more than " + t.dear + " % of one CPU here")
		}
	}
}
