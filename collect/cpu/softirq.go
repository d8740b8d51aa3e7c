package cpu

import (
	"errors"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Softirqs reads /proc/softirqs: how often each kind of softirq ran on each CPU. The kernel's
// counters have 32 bits and wrap.
type Softirqs struct{}

// Stats returns softirq.count.
func (Softirqs) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID:     "softirq.count",
			Kind:   measure.Delta,
			Unit:   measure.Events,
			Sparse: true,
			Help:   "softirqs run (/proc/softirqs)",
			Fields: []measure.Field{
				{Name: "cpu", Type: measure.Number, Help: "CPU number"},
				{
					Name: "vector",
					Type: measure.Word,
					Help: "NET_RX NET_TX BLOCK TIMER SCHED RCU TASKLET HI ...",
				},
			},
		},
	}
}

// Open opens /proc/softirqs. An error means that nothing can be measured. The caller closes the
// Reading.
func (Softirqs) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "softirqs")
	if err != nil {
		return nil, err
	}
	return &softirqReading{file: f}, nil
}

type softirqReading struct {
	file    *proc.File
	header  string
	cpus    []int
	row     []uint32
	last    []softirqLine
	numbers collect.NumberLabels
}

type softirqLine struct {
	name   string
	counts []uint32 // by column: every possible CPU, online or not
}

var errNoSoftirqs = errors.New("read /proc/softirqs: no line of CPUs at its start")

func (r *softirqReading) Read(out *collect.Out) error {
	b, err := r.file.ReadOne()
	if err != nil {
		return err
	}
	header, b := procfs.CutLine(b)
	if string(header) != r.header || r.cpus == nil {
		cpus, ok := parseCPUHeader(nil, header)
		if !ok {
			return errNoSoftirqs
		}
		r.header, r.cpus, r.row, r.last = string(header), cpus, make([]uint32, len(cpus)), nil
	}
	table := out.Table("softirq.count")
	for i := 0; len(b) > 0; {
		var text []byte
		text, b = procfs.CutLine(b)
		c := proc.Scan(text)
		name := c.Until(':')
		if name == nil {
			continue
		}
		fresh := i >= len(r.last) || r.last[i].name != string(name)
		if fresh {
			r.last = append(r.last[:i], softirqLine{string(name), make([]uint32, len(r.cpus))})
		}
		line := &r.last[i]
		i++
		n, _ := parseCounts(r.row, c.Rest())
		for k, now := range r.row[:n] {
			d := float64(now - line.counts[k]) // modulo 2^32: never reset while the kernel runs
			line.counts[k] = now
			if d != 0 && (!fresh || out.First) {
				table.Put(d, r.numbers.Of(out, r.cpus[k]), out.Label(line.name))
			}
		}
	}
	return nil
}

func (r *softirqReading) Close() { r.file.Close() }
