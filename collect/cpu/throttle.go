package cpu

import (
	"strconv"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Throttle reads what keeps CPUs slow: the limits of their frequency (cpufreq), and the time in
// which Intel's processors throttle them because of heat (thermal_throttle).
type Throttle struct{}

// Stats returns cpu.frequency.limit, cpu.throttle.time and cpu.throttle.count.
func (Throttle) Stats() []measure.Stat {
	scope := []measure.Field{
		{Name: "cpu", Type: measure.Number, Help: "CPU number; the first one of the core or the " +
			"package"},
		{Name: "scope", Type: measure.Word, Help: "core: it was too hot; package: the whole " +
			"processor was"},
	}
	return []measure.Stat{
		{
			ID: "cpu.frequency.limit", Kind: measure.Level, Unit: measure.Hertz,
			Fold: measure.Mean,
			Help: "highest frequency of a CPU; no row if the kernel does not know it, as in most " +
				"virtual machines",
			Fields: []measure.Field{
				{Name: "cpu", Type: measure.Number, Help: "CPU number"},
				{Name: "kind", Type: measure.Word, Help: "hardware: that the CPU reaches " +
					"(cpufreq cpuinfo_max_freq); set: to which it is limited (scaling_max_freq)"},
			},
		},
		{
			ID: "cpu.throttle.time", Kind: measure.Delta, Unit: measure.Nanoseconds,
			Fold: measure.Max,
			Help: "time in which a CPU was slowed down because of heat (thermal_throttle/" +
				"*_throttle_total_time_ms, from Linux 5.8; Intel)",
			Fields: scope,
		},
		{
			ID: "cpu.throttle.count", Kind: measure.Delta, Unit: measure.Events,
			Fold: measure.Max,
			Help: "how often a CPU began to be slowed down because of heat (thermal_throttle/" +
				"*_throttle_count; Intel)",
			Fields: scope,
		},
	}
}

// limitEvery is how many readings apart the limits of the frequency are read again: there are two
// files for each CPU, and they seldom change.
const limitEvery = 10

const (
	noFrequencies = "no CPU here shows the limits of its frequency, or heat (no cpufreq driver, " +
		"as in most virtual machines)"
	noHeat = "this system does not count throttling because of heat: only processors of Intel do"
)

// Open lists the CPUs and opens their files. An error means that nothing can be measured. The
// caller closes the Reading.
func (Throttle) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	b, err := proc.ReadSys(env.Root, "devices/system/cpu/present", nil)
	if err != nil {
		return nil, err
	}
	cpus, ok := procfs.ParseCPUList(nil, b)
	if !ok {
		return nil, collect.Unsupported("/sys/devices/system/cpu/present is no list of CPUs")
	}
	r := &throttleReading{root: env.Root, cpus: cpus}
	if want.Stat("cpu.throttle.time") || want.Stat("cpu.throttle.count") {
		r.openCounters()
	}
	return r, nil
}

type throttleReading struct {
	root     kernel.Root
	cpus     []int
	reading  int
	limits   []frequencyLimit
	counters []throttleCounter
	numbers  collect.NumberLabels
	last     collect.Counters[string]
	buf      []byte
}

type frequencyLimit struct {
	cpu           int
	hardware, set float64 // Hz; NaN: unknown
}

// A throttleCounter is a file of a core or a package.
type throttleCounter struct {
	stat   measure.StatID
	cpu    int
	scope  string
	scale  float64
	file   *proc.File
	object string // its key among the counters
}

// openCounters opens the counters of each core and each package once, at their first CPU.
func (r *throttleReading) openCounters() {
	seen := map[string]bool{}
	for _, cpu := range r.cpus {
		dir := "devices/system/cpu/cpu" + strconv.Itoa(cpu)
		socket := procfs.ReadSysWord(r.root, dir+"/topology/physical_package_id")
		core := procfs.ReadSysWord(r.root, dir+"/topology/core_id")
		for scope, object := range map[string]string{"package": "p" + socket,
			"core": "c" + socket + "/" + core} {
			if seen[object] {
				continue
			}
			seen[object] = true
			for _, one := range []struct {
				stat  measure.StatID
				file  string
				scale float64
			}{
				{"cpu.throttle.time", "_throttle_total_time_ms", 1e6},
				{"cpu.throttle.count", "_throttle_count", 1},
			} {
				f, err := proc.OpenSys(r.root, dir+"/thermal_throttle/"+scope+one.file)
				if err != nil {
					continue
				}
				r.counters = append(r.counters, throttleCounter{one.stat, cpu, scope, one.scale, f,
					string(one.stat) + object})
			}
		}
	}
}

func (r *throttleReading) Read(out *collect.Out) error {
	if t := out.Table("cpu.frequency.limit"); t != nil {
		if r.reading%limitEvery == 0 {
			r.readLimits()
		}
		r.reading++
		for _, l := range r.limits {
			cpu := r.numbers.Of(out, l.cpu)
			t.Put(l.hardware, cpu, out.Label("hardware"))
			t.Put(l.set, cpu, out.Label("set"))
		}
		if len(r.limits) == 0 {
			t.Unmeasured(noFrequencies)
		}
	}
	for i := range r.counters {
		c := &r.counters[i]
		v, ok := r.number(c.file)
		if !ok {
			continue
		}
		if d, ok := r.last.Diff(out, c.object, false, v); ok {
			out.Table(c.stat).Put(d[0]*c.scale, r.numbers.Of(out, c.cpu), out.Label(c.scope))
		}
	}
	if len(r.counters) == 0 {
		why := noHeat
		if len(r.limits) == 0 {
			why = noFrequencies // one note for all
		}
		out.Table("cpu.throttle.time").Unmeasured(why)
		out.Table("cpu.throttle.count").Unmeasured(why)
	}
	return nil
}

// number reads a file with one number.
func (r *throttleReading) number(f *proc.File) (uint64, bool) {
	b, err := f.ReadOneInto(r.buf)
	r.buf = b
	if err != nil {
		return 0, false
	}
	s := proc.Scan(b)
	v := s.Uint()
	return v, s.Err() == nil
}

// readLimits reads the limits of each CPU that has a driver of cpufreq.
func (r *throttleReading) readLimits() {
	r.limits = r.limits[:0]
	for _, cpu := range r.cpus {
		dir := "devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/cpufreq/"
		l := frequencyLimit{cpu, r.hertz(dir + "cpuinfo_max_freq"),
			r.hertz(dir + "scaling_max_freq")}
		if l.hardware == l.hardware || l.set == l.set {
			r.limits = append(r.limits, l)
		}
	}
}

// hertz reads a file with a frequency in kHz; NaN: there is none.
func (r *throttleReading) hertz(path string) float64 {
	v, err := strconv.ParseUint(procfs.ReadSysWord(r.root, path), 10, 63)
	if err != nil || v == 0 {
		return measure.NaN
	}
	return float64(v) * 1e3
}

func (r *throttleReading) Close() {
	for _, c := range r.counters {
		c.file.Close()
	}
}
