package cpu

import (
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// CPU reads /proc/stat: the time of each CPU by mode, and the scheduler's counters.
//
// The kernel shows times in ticks of 10 ms (USER_HZ, 100 on every architecture that culprit
// supports), so one second is known to 1 %.
//
// Idle and iowait need care. A kernel without a tick on idle CPUs (NO_HZ) computes them at each
// reading (get_cpu_iowait_time_us in kernel/time/tick-sched.c). The time of an idle CPU counts as
// iowait while a task that slept there waits for a disk. It counts as idle as soon as that task
// wakes elsewhere, so iowait may decrease (proc(5)). Only the sum of both is therefore used as a
// counter, and iowait is a part of it.
//
// A decrease of one or two ticks is rounding and counts as 0. A larger decrease makes that CPU
// unknown for one interval. It occurs before Linux 6.9, where idle starts at 0 when a CPU comes
// online.
type CPU struct{}

// Stats returns the time by mode, the scheduler's counters and the time of the boot.
func (CPU) Stats() []measure.Stat {
	return []measure.Stat{
		{ID: "cpu.time", Kind: measure.Delta, Unit: measure.Nanoseconds, Help: "CPU time by " +
			"mode; the modes of a CPU add up to the wall time (/proc/stat)",
			Fields: []measure.Field{{Name: "cpu", Type: measure.Number, Help: "CPU number"},
				{Name: "mode", Type: measure.Word, Help: "usr nice sys iowait irq soft steal " +
					"guest guest_nice idle, unaccounted: busy between two ticks; usr is " +
					"without guest, nice without guest_nice"}}},
		{ID: "sched.switches", Kind: measure.Delta, Unit: measure.Events, Help: "context " +
			"switches (/proc/stat ctxt)"},
		{
			ID:   "system.interrupts",
			Kind: measure.Delta,
			Unit: measure.Events,
			Help: "interrupts of the whole machine (/proc/stat intr); cpu.interrupts has them " +
				"by CPU",
		},
		{ID: "sched.forks", Kind: measure.Delta, Unit: measure.Events, Help: "processes and " +
			"threads created (/proc/stat processes)"},
		{ID: "sched.runnable", Kind: measure.Level, Unit: measure.Count, Help: "threads " +
			"running or waiting for a CPU, without culprit's own (/proc/stat procs_running - 1)"},
		{ID: "sched.blocked", Kind: measure.Level, Unit: measure.Count, Help: "threads waiting " +
			"for a disk (/proc/stat procs_blocked)"},
		{ID: "system.boot", Kind: measure.Level, Unit: measure.Nanoseconds, Fold: measure.Max,
			Help: "time of the boot, since the Unix epoch (/proc/stat btime)"},
	}
}

// Open opens /proc/stat. An error means that nothing can be measured. The caller closes the
// Reading.
func (CPU) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "stat")
	if err != nil {
		return nil, err
	}
	return &cpuReading{file: f, modes: want.Stat("cpu.time"), names: cpuModes()}, nil
}

// fewTicks is a decrease that is rounding: one tick each of idle and iowait.
const fewTicks = 2

type cpuReading struct {
	file    *proc.File
	modes   bool
	names   []string
	text    procfs.Stat
	last    []lastCPU // by CPU number
	round   uint32
	sched   collect.Counters[measure.StatID]
	numbers collect.NumberLabels
	words   collect.WordLabels
}

type lastCPU struct {
	round uint32 // of the reading that had it; 0: never
	ticks procfs.CPUTicks
}

// cpuModes returns the values of cpu.time's field mode in the order of /proc/stat's columns. The
// last one is no column: see unaccounted.
func cpuModes() []string {
	return []string{
		"usr",
		"nice",
		"sys",
		"idle",
		"iowait",
		"irq",
		"soft",
		"steal",
		"guest",
		"guest_nice",
		"unaccounted",
	}
}

// unaccounted returns the part of the wall time, in nanoseconds, that is in no mode of a CPU; 0 if
// the granularity of ticks explains it. Idle time is measured exactly. For busy time most kernels
// look at each timer tick which mode it interrupts. Work that begins just after a tick and ends
// before the next one is in no mode. Programs that pace themselves by timers work like this.
func unaccounted(wall measure.Span, sum float64) float64 {
	lost := float64(wall) - sum
	if lost < 0.05*float64(wall) || lost < 4*procfs.TickNanoseconds {
		return 0
	}
	return lost
}

func (r *cpuReading) Read(out *collect.Out) error {
	b, err := r.file.ReadOne()
	if err != nil {
		return err
	}
	if err := r.text.Parse(b, r.modes); err != nil {
		return err
	}
	r.putSched(out)
	if r.modes {
		r.putModes(out)
	}
	return nil
}

func (r *cpuReading) Close() { r.file.Close() }

func (r *cpuReading) putSched(out *collect.Out) {
	text := &r.text
	for _, c := range [...]struct {
		stat measure.StatID
		line string
		bit  procfs.StatLines
		now  uint64
	}{
		{"sched.switches", "ctxt", procfs.HasSwitches, text.Switches},
		{"sched.forks", "processes", procfs.HasForks, text.Forks},
		{"system.interrupts", "intr", procfs.HasInterrupts, text.Interrupts},
	} {
		t := out.Table(c.stat)
		if text.Has&c.bit == 0 {
			t.Unmeasured(noStatLine(c.line))
		} else if d, ok := r.sched.Diff(out, c.stat, false, c.now); ok {
			t.Put(d[0])
		}
	}
	putLevel(
		out.Table("sched.runnable"), text.Has&procfs.HasRunning != 0,
		float64(max(text.Running, 1)-1), "procs_running",
	)
	putLevel(
		out.Table("sched.blocked"), text.Has&procfs.HasBlocked != 0, float64(text.Blocked),
		"procs_blocked",
	)
	putLevel(
		out.Table("system.boot"), text.Has&procfs.HasBoot != 0, float64(text.Boot)*1e9, "btime",
	)
}

func putLevel(t *collect.Table, has bool, v float64, line string) {
	if has {
		t.Put(v)
	} else {
		t.Unmeasured(noStatLine(line))
	}
}

func noStatLine(name string) string {
	return "/proc/stat has no line " + name + ", or its number is not valid (below 0)"
}

// enoughInterrupts is a number of interrupts that took at least 50 ms: none takes less than 0.25
// us. If the kernel counts not one tick for all of them, it does not measure them.
const enoughInterrupts = 200_000

func (r *cpuReading) putModes(out *collect.Out) {
	table := out.Table("cpu.time")
	modes := r.words.Of(out, r.names)
	r.round++
	if r.text.BadCPU {
		table.Unmeasured("/proc/stat has a malformed or short line of a CPU")
		return
	}
	if len(r.text.CPUs) == 0 {
		table.Unmeasured("/proc/stat has no line of a CPU")
		return
	}
	noIrq := r.text.Has&procfs.HasAll != 0 && r.text.All[procfs.CPUIRQ] == 0 &&
		r.text.Interrupts >= enoughInterrupts
	if noIrq {
		table.Note("this kernel does not measure the time of hard interrupts (built without " +
			"CONFIG_IRQ_TIME_ACCOUNTING): it is counted in the interrupted mode")
	}
	if r.text.Columns < procfs.CPUColumns {
		table.Lacks(
			"this kernel does not count these modes separately: " + strings.Join(
				r.names[r.text.Columns:procfs.CPUColumns], " ",
			),
		)
	}
	most := 2*float64(out.Over().Span()) + 20*procfs.TickNanoseconds
	for i := range r.text.CPUs {
		line := &r.text.CPUs[i]
		for len(r.last) <= line.CPU {
			r.last = append(r.last, lastCPU{})
		}
		last := &r.last[line.CPU]
		known := last.round != 0 && last.round == r.round-1 || out.First && out.SinceBoot
		delta, ok := growth(&last.ticks, &line.CPUTicks, known)
		last.round = r.round
		if !known {
			continue // just came online: the next interval is its first
		}
		var sum float64
		for _, ticks := range delta {
			sum += float64(ticks) * procfs.TickNanoseconds
		}
		if !ok || sum > most && !out.First {
			table.Note("the times of a CPU jumped (it went offline, or the machine was " +
				"stopped): unknown for one interval")
			ok = false
		}
		cpu := r.numbers.Of(out, line.CPU)
		for m, ticks := range delta {
			if m >= r.text.Columns {
				break
			}
			v := float64(ticks) * procfs.TickNanoseconds
			if !ok || m == procfs.CPUIRQ && noIrq {
				v = measure.NaN
			}
			table.Put(v, cpu, modes[m])
		}
		if out.First {
			// since boot: the wall time includes suspension and the time before a CPU came online
			continue
		}
		lost := measure.NaN
		if ok {
			lost = unaccounted(out.Over().Span(), sum)
		}
		if lost > 0 {
			table.Note("part of the CPUs' busy time fell between the kernel's ticks and is in " +
				"no mode: it is counted as unaccounted")
		}
		table.Put(lost, cpu, modes[procfs.CPUColumns])
	}
}

// growth returns the ticks of each mode since last and then sets last to now. It subtracts guests
// from usr and nice. ok is false if a counter decreased by more than rounding explains.
func growth(last, now *procfs.CPUTicks, known bool) (d [procfs.CPUColumns]uint64, ok bool) {
	if !known {
		*last = *now
		return d, true
	}
	ok = true
	for i := range now {
		switch {
		case i == procfs.CPUIdle || i == procfs.CPUIOWait:
		case now[i] >= last[i]:
			d[i] = now[i] - last[i]
			last[i] = now[i]
		case last[i]-now[i] > fewTicks:
			ok = false
		}
	}
	before := last[procfs.CPUIdle] + last[procfs.CPUIOWait]
	after := now[procfs.CPUIdle] + now[procfs.CPUIOWait]
	switch {
	case after >= before:
		rest := after - before
		if now[procfs.CPUIOWait] > last[procfs.CPUIOWait] {
			d[procfs.CPUIOWait] = min(now[procfs.CPUIOWait]-last[procfs.CPUIOWait], rest)
		}
		d[procfs.CPUIdle] = rest - d[procfs.CPUIOWait]
		last[procfs.CPUIdle], last[procfs.CPUIOWait] = now[procfs.CPUIdle], now[procfs.CPUIOWait]
	case before-after > fewTicks:
		ok = false
	}
	if !ok {
		*last = *now
		return d, false
	}
	d[procfs.CPUUser] -= min(d[procfs.CPUUser], d[procfs.CPUGuest])
	d[procfs.CPUNice] -= min(d[procfs.CPUNice], d[procfs.CPUGuestNice])
	return d, true
}
