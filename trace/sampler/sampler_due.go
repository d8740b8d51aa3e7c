package sampler

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace"
)

// due compares the samples that came with those that were due, over periods of duePeriod samples.
type due struct {
	hz    float64
	cpus  map[string]*dueCPU
	list  []string // of CPUs, in the order of OnlineCPUs
	times cpuTimes
	whole float64 // samples that were due per CPU in this period
	// dropped is how many samples of this period are reported as lost by the program.
	dropped float64
	deaf    []string // CPUs whose idle time had too few samples in the previous period
	rate    measure.Batch
}

// dueCPU counts the samples of one CPU.
type dueCPU struct {
	// lacks is how many samples were due, did not come and are not reported yet; below 0: more came
	// than were due.
	lacks float64
	busy  float64 // samples of processes that came in this period
	idle  float64 // samples of idleness that came in this period
}

const (
	// jitter is how many samples may lack only because of the moment of a reading.
	jitter = 3
	// duePeriod is how many samples are due in a period: a shorter one could not distinguish
	// samples of idle time that the kernel does not take from others.
	duePeriod = 490
	// sure is how many standard deviations fewer samples than expected are not by chance.
	sure = 3
)

// Reasons why samples that were due did not come. It is no loss that none come while a CPU sleeps
// without ticks, or while a virtual machine does not run: no program runs then.
const (
	lostBusy = "samples that were due while a CPU was busy and did not come: " +
		"the kernel takes fewer if sampling costs too much"
	lostAny = "samples that were due and did not come: how busy the CPUs were is not known"
)

// account adds missing samples to the losses and notes of a batch, and returns the batch of rates.
func (d *due) account(b *measure.Batch) *measure.Batch {
	d.readOnline()
	d.rate = measure.Batch{Stat: SampledRate, By: []string{"cpu"}, Over: b.Over, Notes: b.Notes}
	if b.Over.Span() <= 0 {
		return &d.rate
	}
	now := d.hz * b.Over.Seconds()
	d.whole += now
	for n, name := range d.list {
		d.cpus[name].lacks += now
		d.rate.Labels = append(d.rate.Labels, name)
		d.rate.Keys = append(d.rate.Keys, measure.Label(n))
		d.rate.Values = append(d.rate.Values, d.hz)
	}
	d.count(b)
	// Samples that the program dropped are reported already, and are among the missing ones.
	for _, l := range b.Loss {
		if l.Kind != measure.LostStacks { // those samples came, without their stacks
			d.dropped += float64(l.Events)
		}
	}
	if d.whole >= duePeriod {
		d.settle(b)
	}
	if len(d.deaf) > 0 {
		const most = 16
		which := "CPU " + strings.Join(d.deaf[:min(most, len(d.deaf))], ", ")
		if len(d.deaf) > most {
			which = fmt.Sprintf("%d CPUs", len(d.deaf))
		}
		b.Notes = append(
			b.Notes,
			"few or no samples of idle time on "+which+": interrupts in it are in no stack",
		)
	}
	return &d.rate
}

// settle ends a period: it reports the samples that did not come, and names the CPUs that have too
// few of their idle time.
func (d *due) settle(b *measure.Batch) {
	d.deaf = d.deaf[:0]
	times, known := d.times.look()
	lost, unknown := 0.0, 0.0
	for _, name := range d.list {
		c := d.cpus[name]
		t, ok := times[name]
		switch whole := math.Floor(c.lacks); {
		case whole <= jitter:
			c.lacks = max(c.lacks, -jitter)
		case !known:
			unknown += whole
			c.lacks -= whole
		case !ok: // it went online in this period
			c.lacks = 0
		default:
			n, deaf := c.lost(d.hz, d.whole, t)
			lost += n
			c.lacks = 0
			if deaf {
				d.deaf = append(d.deaf, name)
			}
		}
	}
	lost = max(lost-d.dropped, 0)
	unknown = max(unknown-d.dropped, 0) // one of them is 0
	b.Loss = append(b.Loss, trace.LossOf(lostBusy, uint64(lost))...)
	b.Loss = append(b.Loss, trace.LossOf(lostAny, uint64(unknown))...)
	d.restart()
}

// lost returns how many of the lacking samples of a period are lost, and whether idle time has too
// few samples. whole is how many were due, t what the CPU did.
//
// Which samples meet a process is chance: of n samples of a CPU that is busy for the share p, n*p
// do, give or take the root of n*p*(1-p). So a lack of idle samples, or of busy ones where idle
// samples lack as well, counts only if it is not by chance. Where idle samples do come, what lacks
// was due while the CPU was busy.
func (c *dueCPU) lost(hz, whole float64, t cpuTime) (lost float64, deaf bool) {
	p := min(t.busy*hz/whole, 1)
	chance := jitter + sure*math.Sqrt(whole*p*(1-p))
	if deaf = t.idle*hz-c.idle > chance; deaf {
		if lost = t.busy*hz - c.busy; lost <= chance {
			return 0, true
		}
	} else if lost = c.lacks - t.stolen*hz; lost <= jitter {
		return 0, false
	}
	return math.Floor(min(lost, c.lacks)), deaf
}

// begin begins the first period.
func (d *due) begin() {
	d.times.look()
	d.restart()
}

// restart begins a period.
func (d *due) restart() {
	d.whole, d.dropped = 0, 0
	for _, c := range d.cpus {
		c.busy, c.idle = 0, 0
	}
}

// readOnline updates the list of CPUs when CPUs went online or offline.
func (d *due) readOnline() {
	online, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil || len(online) == len(d.list) {
		return
	}
	d.list = d.list[:0]
	for _, c := range online {
		d.list = append(d.list, strconv.Itoa(int(c)))
	}
	fresh := map[string]*dueCPU{}
	for _, c := range d.list {
		if fresh[c] = d.cpus[c]; fresh[c] == nil {
			fresh[c] = &dueCPU{}
		}
	}
	d.cpus = fresh
}

// count subtracts the samples of a batch from those that lack.
func (d *due) count(b *measure.Batch) {
	process, pid := slices.Index(b.By, "process"), slices.Index(b.By, "pid")
	cpu := slices.Index(b.By, "cpu")
	for i := range b.Rows() {
		key := b.Key(i)
		c := d.cpus[b.Labels[key[cpu]]]
		if c == nil {
			continue // it went offline meanwhile
		}
		c.lacks -= b.Values[i]
		// Processes outside of this PID namespace have the ID 0 too.
		if b.Labels[key[pid]] == "0" &&
			(process < 0 || strings.HasPrefix(b.Labels[key[process]], "swapper")) {
			c.idle += b.Values[i]
		} else {
			c.busy += b.Values[i]
		}
	}
}
