package cpu

import (
	"errors"
	"io/fs"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Load reads /proc/loadavg: the load averages and the number of threads.
type Load struct{}

// Stats returns sched.load and sched.tasks.
func (Load) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID:   "sched.load",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "load average: threads running, waiting for a CPU or in uninterruptible " +
				"sleep, damped (/proc/loadavg)",
			Fields: []measure.Field{{Name: "window", Type: measure.Word, Help: "1m 5m 15m"}},
		},
		{ID: "sched.tasks", Kind: measure.Level, Unit: measure.Count, Help: "threads that " +
			"exist, including the kernel's own (/proc/loadavg)"},
	}
}

// Open opens /proc/loadavg. An error means that nothing can be measured. The caller closes the
// Reading.
func (Load) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "loadavg")
	if err != nil {
		return nil, err
	}
	return &loadReading{file: f}, nil
}

type loadReading struct{ file *proc.File }

// parseLoad parses "0.69 0.41 0.20 1/94 13674": loads over 1, 5 and 15 minutes, running / existing
// threads, the latest pid.
func parseLoad(b []byte) (load [3]float64, tasks uint64, err error) {
	c := proc.Scan(b)
	for i := range load {
		load[i] = c.Decimal()
	}
	if c.Until('/') == nil {
		return load, 0, errors.New("read /proc/loadavg: no running/existing in it")
	}
	tasks = c.Uint()
	return load, tasks, c.Err()
}

func (r *loadReading) Read(out *collect.Out) error {
	b, err := r.file.ReadOne()
	if err != nil {
		return err
	}
	load, tasks, err := parseLoad(b)
	if err != nil {
		return err
	}
	t := out.Table("sched.load")
	t.Row(load[0], "1m")
	t.Row(load[1], "5m")
	t.Row(load[2], "15m")
	out.Table("sched.tasks").Put(float64(tasks))
	return nil
}

func (r *loadReading) Close() { r.file.Close() }

// Schedstat reads /proc/schedstat: how long threads waited in the run queue of each CPU. The file
// needs CONFIG_SCHEDSTATS.
type Schedstat struct{}

// Stats returns sched.runwait.
func (Schedstat) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID:   "sched.runwait",
			Kind: measure.Delta,
			Unit: measure.Nanoseconds,
			Help: "time that threads waited in a CPU's run queue, summed over the threads " +
				"(/proc/schedstat)",
			Fields: []measure.Field{{Name: "cpu", Type: measure.Number, Help: "CPU number"}},
		},
	}
}

// Open opens /proc/schedstat. An error means that nothing can be measured. The caller closes the
// Reading.
func (Schedstat) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "schedstat")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, collect.Unsupported("this kernel does not measure run-queue waits by CPU " +
			"(built without CONFIG_SCHEDSTATS)")
	}
	if err != nil {
		return nil, err
	}
	return &schedstatReading{file: f}, nil
}

type schedstatReading struct {
	file    *proc.File
	last    collect.Counters[int]
	numbers collect.NumberLabels
}

// parseSchedstat calls f with each CPU and its run_delay in nanoseconds since boot. It is the
// eighth number of a cpu line in versions 15 to 17 (Documentation/scheduler/sched-stats.rst). Lines
// of scheduling domains are skipped. short means that a cpu line has fewer numbers.
func parseSchedstat(b []byte, f func(cpu int, delay uint64)) (short bool) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		if len(line) < 4 || string(line[:3]) != "cpu" {
			continue
		}
		c := proc.Scan(line[3:])
		cpu := c.Uint()
		c.Skip(7)
		delay := c.Uint()
		if c.Err() == nil && cpu < 1<<20 {
			f(int(cpu), delay)
		} else {
			short = true
		}
	}
	return short
}

func (r *schedstatReading) Read(out *collect.Out) error {
	b, err := r.file.Read()
	if err != nil {
		return err
	}
	t := out.Table("sched.runwait")
	cpus := 0
	short := parseSchedstat(b, func(cpu int, delay uint64) {
		cpus++
		if d, ok := r.last.Diff(out, cpu, false, delay); ok {
			t.Put(d[0], r.numbers.Of(out, cpu))
		}
	})
	if short || cpus == 0 {
		t.Lacks("/proc/schedstat has a CPU without the time that threads waited for it, or no CPU")
	}
	r.last.Sweep()
	return nil
}

func (r *schedstatReading) Close() { r.file.Close() }
