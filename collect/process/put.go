package process

import (
	"errors"
	"io/fs"
	"sort"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// children is what a process received from children that it waited for.
//
// When a process is waited for, the kernel adds its CPU time and I/O, and those of its own
// children, to its parent's (wait_task_zombie in kernel/exit.c). What the child's rows had must be
// subtracted; the rest was in no row.
type children struct {
	grown    float64 // ns of CPU time within this interval
	waited   bool    // a child was waited for within this interval
	rows     float64 // ns in the rows of ended children
	rowsIO   ioBytes // bytes in the rows of ended children
	leftOver float64 // below 0: rounding of earlier intervals, still to be subtracted
}

// look stores the children's time of a stat line.
func (k *children) look(now, before *procStat, tick uint64) {
	k.grown = max(
		0, growth((now.childUsr+now.childSys)*tick, (before.childUsr+before.childSys)*tick),
	)
	k.waited = now.childMinor != before.childMinor || k.grown > 0
	k.rows, k.rowsIO = 0, ioBytes{}
}

// lookIO reads the io file of a process that ran.
func (r *processReading) lookIO(p *process, fresh, compare bool) {
	if r.noIO || !r.wants.io && !r.wants.calls {
		return
	}
	b, err := r.read(p, "io", &p.ioFile, p.hasIO)
	now, ok := parseIO(b)
	if err != nil || !ok {
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			return // it has ended; a loss reports that
		}
		r.ioDenied = r.ioDenied || compare
		p.hasIO = false
		for i := range p.delta.io {
			p.delta.io[i] = measure.NaN
		}
		return
	}
	d, last := p.delta, p.io
	d.io = [4]float64{
		growth(now.read, last.read),
		growth(now.write, last.write),
		growth(now.rchar, last.rchar),
		growth(now.wchar, last.wchar),
	}
	if !fresh && !p.hasIO { // it was not readable before
		d.io = [4]float64{measure.NaN, measure.NaN, measure.NaN, measure.NaN}
	}
	p.io, p.hasIO = now, true
}

// total returns the CPU time of p's rows, plus what p had before it was first seen, including its
// children.
func (p *process) total(tick uint64) float64 {
	return float64(p.clock.usr + p.clock.sys + (p.stat.childUsr+p.stat.childSys)*tick)
}

// subtractEnded subtracts the rows of ended processes from what their parents received.
func (r *processReading) subtractEnded() {
	for _, g := range r.gone {
		r.passToAncestor(g)
	}
	tick := float64(r.tick)
	for i := 0; i < len(r.procs); i++ {
		p := r.procs[i]
		k := &p.kids
		if !p.ran || !k.waited {
			continue
		}
		if r.wants.short && k.grown > k.rows {
			r.findEnded(p)
		}
		k.leftOver += k.grown - k.rows
		if k.leftOver > 0 {
			p.delta.short, k.leftOver = k.leftOver, 0
		}
		k.leftOver = max(k.leftOver, -2*tick)
		for j, v := range [...]uint64{k.rowsIO.read, k.rowsIO.write, k.rowsIO.rchar, k.rowsIO.wchar} {
			if d := &p.delta.io[j]; *d == *d {
				*d = max(0, *d-float64(v))
			}
		}
	}
}

// passToAncestor adds g's rows to its nearest living ancestor: those between ended in this interval too.
func (r *processReading) passToAncestor(g *process) {
	parent := g.stat.parent
	for range 64 { // stops at a longer chain, or a circle of reused pids
		i := sort.Search(len(r.procs), func(i int) bool { return r.procs[i].pid >= parent })
		if i < len(r.procs) && r.procs[i].pid == parent && !r.procs[i].dead {
			k := &r.procs[i].kids
			k.rows += g.total(r.tick)
			k.rowsIO = k.rowsIO.add(g.io)
			return
		}
		var next *process
		for _, other := range r.gone {
			if other.pid == parent {
				next = other
				break
			}
		}
		if next == nil || next == g {
			return
		}
		parent = next.stat.parent
	}
}

// findEnded finds children of p that ended after they were read in this reading, so that p already
// has their time.
func (r *processReading) findEnded(p *process) {
	for _, c := range r.procs {
		if c.stat.parent != p.pid || c.dead || !c.known {
			continue
		}
		if t := c.total(r.tick); t < float64(r.tick)/2 ||
			t > p.kids.grown-p.kids.rows+2*float64(r.tick) {
			continue
		}
		if _, err := r.readOnce(c.pid, "stat"); errors.Is(err, fs.ErrNotExist) {
			r.markEnded(c)
			r.passToAncestor(c)
		}
	}
}

// renew reads again, in turn, what may change while a process sleeps.
func (r *processReading) renew(out *collect.Out) {
	over := out.Over().Seconds()
	w := &r.wants
	if w.rss || w.state || w.count || w.info || w.threads {
		r.renewStats(over)
	}
	if !w.info {
		return
	}
	for range r.facts.due(len(r.procs), over/renewInfo) {
		p := r.procs[r.facts.next(len(r.procs))]
		// A process changes its user and its command line itself, and the walk shows a change of
		// cgroup.
		if p.info != nil && (!r.walk.on() || p.ranSinceInfo || r.facts.round%renewStill == 0) {
			p.info.stale = true
		}
	}
	for _, p := range r.procs {
		if !p.dead && (p.info == nil || p.info.stale) {
			r.readInfo(p)
		}
	}
}

// renewStats reads the stat lines of processes that did not run: of all in turn, or of those whose
// line has changed by the walk. In the second case it limits their number, since all of them may
// change when memory is short.
func (r *processReading) renewStats(over float64) {
	renew := func(p *process) {
		if r.readStat(p) && r.line.start == p.stat.start {
			p.stat.rss, p.stat.state, p.stat.parent = r.line.rss, r.line.state, r.line.parent
			p.statStale = false
		}
	}
	n := len(r.procs)
	due := r.fresh.due(n, over/renewStat)
	if !r.walk.on() || !r.walk.tasks.Resident() {
		for range due {
			if p := r.procs[r.fresh.next(n)]; !p.ran && !p.dead {
				renew(p)
			}
		}
		return
	}
	due += renewLeast
	for range n {
		p := r.procs[r.fresh.next(n)]
		if !p.statStale || p.ran || p.dead {
			continue
		}
		renew(p)
		if due--; due == 0 {
			return
		}
	}
}

const (
	renewStat  = 10 // seconds after which everything has been read again
	renewInfo  = 60
	renewLeast = 16 // stat lines in any reading, at 10 us each
	renewStill = 10 // rounds after which also the info of processes that did not run is read again
)

// cursor goes around a list.
type cursor struct {
	at    int
	round int // how often it has started again
	owed  float64
}

// due returns how many of n are due after the given part of a round.
func (c *cursor) due(n int, part float64) int {
	c.owed = min(c.owed+part*float64(n), float64(n))
	whole := int(c.owed)
	c.owed -= float64(whole)
	return whole
}

func (c *cursor) next(n int) int {
	if c.at >= n {
		c.at = 0
		c.round++
	}
	c.at++
	return c.at - 1
}

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
	cpu, runwait, delay, switches, faults, io, calls, short, rss, threads, state, info *collect.Table
	threadCPU, threadRunwait, threadSwitches, threadFaults                             *collect.Table
	usr, sys, voluntary, involuntary, minor, major, read, write                        measure.Label
	reasons                                                                            [delayKinds]measure.Label
	states                                                                             [256]measure.Label
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
	r.putLost(out, sum)
	r.notes(out)
}

func (t *processTables) look(out *collect.Out, reasons []string) {
	*t = processTables{
		cpu:            out.Table("process.cpu"),
		runwait:        out.Table("process.runwait"),
		delay:          out.Table("process.delay"),
		switches:       out.Table("process.switches"),
		faults:         out.Table("process.faults"),
		io:             out.Table("process.io"),
		calls:          out.Table("process.calls.bytes"),
		short:          out.Table("process.short"),
		rss:            out.Table("process.rss"),
		threads:        out.Table("process.threads"),
		state:          out.Table("process.state"),
		info:           out.Table("process.info"),
		threadCPU:      out.Table("thread.cpu"),
		threadRunwait:  out.Table("thread.runwait"),
		threadSwitches: out.Table("thread.switches"),
		threadFaults:   out.Table("thread.faults"),
		usr:            out.Label("usr"),
		sys:            out.Label("sys"),
		voluntary:      out.Label("voluntary"),
		involuntary:    out.Label("involuntary"),
		minor:          out.Label("minor"),
		major:          out.Label("major"),
		read:           out.Label("read"),
		write:          out.Label("write"),
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

// notes adds the notes that limit what the rows prove.
func (r *processReading) notes(out *collect.Out) {
	if r.ended > 0 {
		out.Table("process.cpu").Loss("processes ended between two readings: what they ran "+
			"after the first is in process.short of the process that waited for them", r.ended)
	}
	if r.ioDenied {
		for _, id := range []measure.StatID{"process.io", "process.calls.bytes"} {
			out.Table(id).Note(kernel.UnreadNote("the I/O of some processes may not be read: "+
				"that of other users needs CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE))
		}
	}
	if r.noIO {
		for _, id := range []measure.StatID{"process.io", "process.calls.bytes"} {
			out.Table(id).Unmeasured("this kernel does not count what processes read and write " +
				"(built without CONFIG_TASK_IO_ACCOUNTING)")
		}
	}
	if r.noSwitches {
		for _, id := range []measure.StatID{"process.switches", "thread.switches"} {
			out.Table(id).Note("/proc/PID/status does not have the context switches of some " +
				"threads: they are unknown")
		}
	}
	r.putVisibility(out)
	r.delayNotes(out.Table("process.delay"))
	if r.taskstats == nil && !r.sched {
		for _, id := range []measure.StatID{"process.runwait", "thread.runwait"} {
			out.Table(id).Unmeasured("this kernel does not count how long a process waits for " +
				"a CPU (built without CONFIG_SCHED_INFO)")
		}
	}
}

func (r *processReading) delayNotes(t *collect.Table) {
	switch {
	case t == nil:
	case !r.delayAcct:
		t.Unmeasured("delay accounting is off; kernel.task_delayacct=1 turns it on for " +
			"processes that start after that")
	case r.taskstats == nil && r.noBlkio:
		t.Unmeasured("on this kernel /proc/PID/stat does not have the time that a process " +
			"waits for disks")
	case errors.Is(r.taskstatsErr, measure.ErrDenied):
		const known = "only the disk waits of processes with one thread are known, to 10 ms"
		t.Note(
			kernel.RefusedNote(
				"without CAP_NET_ADMIN "+known, known+": taskstats", unix.CAP_NET_ADMIN,
			),
		)
	case r.taskstats == nil:
		t.Note("this kernel's taskstats are not usable, so only the disk waits of processes " +
			"with one thread are known, to 10 ms")
	case r.lateDelays:
		t.Note("process 1 has never waited for anything: delay accounting was turned on after " +
			"it started, and processes as old as that show no delays")
	case r.kinds < commonDelays:
		t.Note(
			"this kernel does not measure waits of these reasons: " + strings.Join(
				r.reasons[r.kinds:commonDelays], " ",
			),
		)
	}
}

// commonDelays is how many reasons of a delay all kernels since 6.3 have.
const commonDelays = 7

// lostClock compares the CPU time of the machine with that of its processes.
type lostClock struct {
	text  procfs.Stat
	last  uint64
	known bool
	left  float64 // the difference that was not yet put
}

// putLost puts the CPU time that is in no process. The machine's time is sampled at each tick, so
// less than two ticks for each CPU prove nothing and are kept for the next reading.
func (r *processReading) putLost(out *collect.Out, sum float64) {
	t, l := out.Table("process.lost"), &r.busy
	if t == nil || r.stat == nil {
		return
	}
	b, err := r.stat.ReadOne()
	if err == nil {
		err = l.text.Parse(b, true)
	}
	if err != nil || l.text.BadCPU || l.text.Has&procfs.HasAll == 0 {
		t.Unmeasured("/proc/stat could not be read, or has no sum of the CPUs")
		l.known = false
		return
	}
	now := (l.text.All[procfs.CPUUser] + l.text.All[procfs.CPUNice] + l.text.All[procfs.CPUSystem]) * r.tick
	if l.known && now >= l.last {
		l.left += float64(now-l.last) - sum
	}
	l.last, l.known = now, true
	noise := 2 * float64(r.tick) * float64(max(1, len(l.text.CPUs)))
	lost := 0.0
	if l.left > noise {
		lost, l.left = l.left, 0
	}
	l.left = max(l.left, -noise)
	t.Put(lost)
}
