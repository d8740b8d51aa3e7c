package process

import (
	"culprit/collect"
	"culprit/measure"
)

// labelPair caches two labels. The zero value has none.
type labelPair struct {
	epoch int // Out.Epoch of the labels, plus one
	a, b  measure.Label
}

func (l *labelPair) of(out *collect.Out, number int32, word string) (measure.Label, measure.Label) {
	if l.epoch != out.Epoch+1 {
		*l = labelPair{out.Epoch + 1, out.Number(int64(number)), out.Label(word)}
	}
	return l.a, l.b
}

// processTables has the tables of a reading; nil if not wanted.
type processTables struct {
	amountTables
	levelTables
	threadTables
	processLabels
}

type amountTables struct {
	cpu, runwait, delay, switches, faults, io, calls, short *collect.Table
}

type levelTables struct {
	rss, threads, state, info *collect.Table
	longTables
}

// longTables are the tables that ps -l needs.
type longTables struct{ virtual, priority, nice, time *collect.Table }

// put puts the row of a process. tick is the length of a tick in nanoseconds.
func (t *longTables) put(s *procStat, tick uint64, pid, name measure.Label) {
	t.virtual.Put(float64(s.virtual), pid, name)
	t.priority.Put(float64(s.priority), pid, name)
	t.nice.Put(float64(s.nice), pid, name)
	t.time.Put(float64((s.usr+s.sys)*tick), pid, name)
}

type threadTables struct {
	threadCPU, threadRunwait, threadSwitches, threadFaults *collect.Table
}

// processLabels are the labels that many rows have.
type processLabels struct {
	usr, sys, voluntary, involuntary, minor, major, read, write measure.Label

	reasons [delayKinds]measure.Label // of delays
	states  [256]measure.Label        // by letter; NoLabel until used
}

func (r *processReading) put(out *collect.Out) {
	t := &r.tables
	t.look(out, r.reasons)
	var counts [256]int
	var sum float64
	for _, p := range r.procs {
		if p.ran {
			sum += p.delta.usr + p.delta.sys + p.delta.short
			r.putDelta(out, t, p)
		}
		if p.dead {
			continue
		}
		counts[p.stat.state]++
		pid, name := p.name.of(out, p.pid, p.comm)
		t.rss.Put(float64(p.stat.rss*r.page), pid, name)
		t.threads.Put(float64(p.stat.threads), pid, name)
		t.longTables.put(&p.stat, r.tick, pid, name)
		if t.state != nil {
			t.state.Put(1, pid, name, t.letter(out, p.stat.state))
		}
		if t.info != nil && p.info != nil {
			p.info.put(out, t, p)
		}
	}
	if c := out.Table("process.count"); c != nil {
		for s, n := range counts {
			if n > 0 {
				c.Put(float64(n), t.letter(out, byte(s)))
			}
		}
	}
	r.putFiles(out)
	r.putBlocked(out)
	r.putZombies(out)
	r.putStopped(out)
	r.putLockWaits(out)
	r.putSleepers(out)
	r.putPipeWaits(out)
	r.putRealtime(out)
	r.putPlacement(out)
	r.putIOPriority(out)
	r.putWeights(out)
	r.putLost(out, sum)
	r.notes(out)
}

func (t *processTables) look(out *collect.Out, reasons []string) {
	*t = processTables{
		amountTables: amountTables{
			cpu:      out.Table("process.cpu"),
			runwait:  out.Table("process.runwait"),
			delay:    out.Table("process.delay"),
			switches: out.Table("process.switches"),
			faults:   out.Table("process.faults"),
			io:       out.Table("process.io"),
			calls:    out.Table("process.calls.bytes"),
			short:    out.Table("process.short"),
		},
		levelTables: levelTables{
			rss:     out.Table("process.rss"),
			threads: out.Table("process.threads"),
			state:   out.Table("process.state"),
			info:    out.Table("process.info"),
			longTables: longTables{
				virtual:  out.Table("process.virtual"),
				priority: out.Table("process.priority"),
				nice:     out.Table("process.nice"),
				time:     out.Table("process.time"),
			},
		},
		threadTables: threadTables{
			threadCPU:      out.Table("thread.cpu"),
			threadRunwait:  out.Table("thread.runwait"),
			threadSwitches: out.Table("thread.switches"),
			threadFaults:   out.Table("thread.faults"),
		},
		processLabels: processLabels{
			usr:         out.Label("usr"),
			sys:         out.Label("sys"),
			voluntary:   out.Label("voluntary"),
			involuntary: out.Label("involuntary"),
			minor:       out.Label("minor"),
			major:       out.Label("major"),
			read:        out.Label("read"),
			write:       out.Label("write"),
		},
	}
	for i, w := range reasons {
		t.reasons[i] = out.Label(w)
	}
	for i := range t.states {
		t.states[i] = collect.NoLabel
	}
}

func (t *processTables) letter(out *collect.Out, s byte) measure.Label {
	if t.states[s] == collect.NoLabel {
		b := [1]byte{s}
		t.states[s] = out.LabelBytes(b[:])
	}
	return t.states[s]
}

// some puts a row that is not 0: the tables are sparse.
func some(t *collect.Table, v float64, labels ...measure.Label) {
	if v != 0 {
		t.Put(v, labels...)
	}
}

func (r *processReading) putDelta(out *collect.Out, t *processTables, p *process) {
	pid, name := p.name.of(out, p.pid, p.comm)
	d := p.delta
	some(t.cpu, d.usr, pid, name, t.usr)
	some(t.cpu, d.sys, pid, name, t.sys)
	some(t.runwait, d.wait, pid, name)
	some(t.switches, d.voluntary, pid, name, t.voluntary)
	some(t.switches, d.involuntary, pid, name, t.involuntary)
	some(t.faults, d.minor, pid, name, t.minor)
	some(t.faults, d.major, pid, name, t.major)
	some(t.io, d.io[0], pid, name, t.read)
	some(t.io, d.io[1], pid, name, t.write)
	some(t.calls, d.io[2], pid, name, t.read)
	some(t.calls, d.io[3], pid, name, t.write)
	some(t.short, d.short, pid, name)
	for i := range d.kinds {
		some(t.delay, d.delays[i], pid, name, t.reasons[i])
	}
	if !r.wants.thread {
		return
	}
	if !p.split {
		t.putThread(
			&threadDelta{d.usr, d.sys, d.wait, d.voluntary, d.involuntary, d.minor, d.major}, pid,
			name, pid, name,
		)
		return
	}
	for _, th := range p.threads {
		if th.ran && !th.gone {
			tid, its := th.name.of(out, th.tid, th.comm)
			t.putThread(&th.delta, pid, name, tid, its)
		}
	}
}

func (t *processTables) putThread(d *threadDelta, pid, process, tid, name measure.Label) {
	some(t.threadCPU, d.usr, pid, process, tid, name, t.usr)
	some(t.threadCPU, d.sys, pid, process, tid, name, t.sys)
	some(t.threadRunwait, d.wait, pid, process, tid, name)
	some(t.threadSwitches, d.voluntary, pid, process, tid, name, t.voluntary)
	some(t.threadSwitches, d.involuntary, pid, process, tid, name, t.involuntary)
	some(t.threadFaults, d.minor, pid, process, tid, name, t.minor)
	some(t.threadFaults, d.major, pid, process, tid, name, t.major)
}
