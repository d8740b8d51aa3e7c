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

// due compares the samples that came with those that were due.
type due struct {
	hz   float64
	cpus map[string]*dueCPU
	list []string // of CPUs, in the order of OnlineCPUs
	idle idleness
	rate measure.Batch
}

// dueCPU counts the samples of one CPU. Each period of deafOver due samples decides on deaf.
type dueCPU struct {
	// lacks is how many samples were due, did not come and are not reported yet; below 0: more came
	// than were due.
	lacks   float64
	asleep  float64 // the part of lacks that was due while the CPU was idle, as far as known
	due     float64 // in this period
	came    float64 // in this period
	resting bool    // some sample of this period found the CPU idle
	deaf    bool    // in the previous period many samples lacked and none found the CPU idle
}

const (
	// jitter is how many samples may lack only because of the moment of a reading.
	jitter = 3
	// deafOver is how many samples are due in a period. A CPU that lacks more than deafShare of
	// them may have no samples while it is idle.
	deafOver  = 490
	deafShare = 0.2
)

// Reasons why samples that were due did not come.
const (
	lostAsleep = "samples that were due while a CPU was idle and did not come: " +
		"this kernel takes none then, so idle time and interrupts in it are missing"
	lostOther = "samples that were due and did not come: the kernel takes none while a CPU " +
		"sleeps without ticks, a virtual machine does not run, or sampling would cost too much"
)

// account adds missing samples to the losses and notes of a batch, and returns the batch of rates.
func (d *due) account(b *measure.Batch) *measure.Batch {
	d.readOnline()
	d.rate = measure.Batch{Stat: SampledRate, By: []string{"cpu"}, Over: b.Over, Notes: b.Notes}
	if b.Over.Span() <= 0 {
		return &d.rate
	}
	d.count(b)
	idle := d.idle.look()
	lost, asleep, deaf := 0.0, 0.0, []string(nil)
	for n, name := range d.list {
		c := d.cpus[name]
		now := d.hz * b.Over.Seconds()
		c.due += now
		c.lacks = max(c.lacks+now, -jitter)
		c.asleep = min(max(c.asleep+d.hz*idle[name], 0), max(c.lacks, 0))
		if whole := math.Floor(c.lacks); whole > jitter {
			rested := min(math.Round(c.asleep), whole)
			asleep += rested
			lost += whole - rested
			c.lacks -= whole
			c.asleep = 0
			d.idle.looks = idleLooks
		}
		if c.due >= deafOver {
			c.deaf = c.came < (1-deafShare)*c.due && !c.resting
			c.due, c.came, c.resting = 0, 0, false
		}
		if c.deaf {
			deaf = append(deaf, name)
		}
		d.rate.Labels = append(d.rate.Labels, name)
		d.rate.Keys = append(d.rate.Keys, measure.Label(n))
		d.rate.Values = append(d.rate.Values, d.hz)
	}
	// Samples that the program dropped are reported already, and are among the missing ones.
	for _, l := range b.Loss {
		if l.Kind != measure.LostStacks { // those samples came, without their stacks
			reported := min(float64(l.Events), lost)
			lost -= reported
			asleep -= min(float64(l.Events)-reported, asleep)
		}
	}
	b.Loss = append(b.Loss, trace.LossOf(lostAsleep, uint64(asleep))...)
	b.Loss = append(b.Loss, trace.LossOf(lostOther, uint64(lost))...)
	if len(deaf) > 0 {
		const most = 16
		which := "CPU " + strings.Join(deaf[:min(most, len(deaf))], ", ")
		if len(deaf) > most {
			which = fmt.Sprintf("%d CPUs", len(deaf))
		}
		b.Notes = append(
			b.Notes,
			"no samples while idle on "+which+": interrupts at that time are in no stack",
		)
	}
	return &d.rate
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

// count subtracts the samples of a batch from those that lack, and notes which CPUs were idle.
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
		c.came += b.Values[i]
		// Processes outside of this PID namespace have the ID 0 too.
		if b.Labels[key[pid]] == "0" &&
			(process < 0 || strings.HasPrefix(b.Labels[key[process]], "swapper")) {
			c.resting = true
			c.asleep -= b.Values[i]
		}
	}
}
