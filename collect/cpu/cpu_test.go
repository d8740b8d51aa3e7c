package cpu

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/heapbound"
	"culprit/measure"
)

func statFile(ctxt int, cpus ...string) string {
	return "cpu  0 0 0 0 0 1 0 0 0 0\n" + strings.Join(cpus, "\n") + fmt.Sprintf(
		"\nintr %d 0 0 1\nctxt %d\nbtime 1795252139\nprocesses %d\n"+
			"procs_running 3\nprocs_blocked 5\nsoftirq 3 1 2\n",
		818950+3*ctxt, ctxt, 7+ctxt/10,
	)
}

func modesOf(cpu string, ms map[string]float64) map[string]float64 {
	rows := map[string]float64{}
	for _, m := range cpuModes() {
		rows["cpu.time|"+cpu+"|"+m] = ms[m] * 1e6
		if v, ok := ms["*"]; ok {
			rows["cpu.time|"+cpu+"|"+m] = v
		}
	}
	return rows
}

func TestCPUModes(t *testing.T) {
	const before = "cpu0 1000 200 300 10000 500 10 20 30 100 50"
	for name, c := range map[string]struct {
		now  string
		want map[string]float64 // milliseconds; "*" for all others
		note string
	}{
		"guest is taken out of usr and nice": {"cpu0 1043 224 310 10012 505 13 22 31 113 57",
			map[string]float64{
				"usr": 300, "nice": 170, "sys": 100, "idle": 120, "iowait": 50,
				"irq": 30, "soft": 20, "steal": 10, "guest": 130, "guest_nice": 70,
			}, ""},
		"iowait turns into idle when the sleeper wakes elsewhere": {"cpu0 1000 200 300 10500 " +
			"100 10 20 30 100 50",
			map[string]float64{"idle": 1000}, ""},
		"idle steps back while iowait goes on": {"cpu0 1000 200 300 9990 610 10 20 30 100 50",
			map[string]float64{"iowait": 1000}, ""},
		"a tick back is rounding": {"cpu0 1100 200 300 9999 500 9 20 30 100 50", map[string]float64{"usr": 1000}, ""},
		"idle began anew: the CPU was off line": {"cpu0 1010 200 300 20 0 10 20 30 100 50", map[string]float64{"*": measure.NaN},
			"jumped"},
		"a busy counter began anew": {"cpu0 5 200 300 10099 500 10 20 30 100 50", map[string]float64{"*": measure.NaN},
			"jumped"},
		"a counter leapt: the machine was stopped": {"cpu0 1000 200 300 10000 500 10 20 900030 " +
			"100 50", map[string]float64{"*": measure.NaN},
			"jumped"},
	} {
		t.Run(name, func(t *testing.T) {
			m := collecttest.NewMachine(
				t, CPU{}, map[string]string{"proc/stat": statFile(100, before)},
			)
			collecttest.Expect(t, m.Read(true), "cpu.time", nil)
			m.Put(map[string]string{"proc/stat": statFile(150, c.now)})
			rows := m.Read(false)
			collecttest.Expect(t, rows, "cpu.time", modesOf("0", c.want))
			collecttest.Expect(t, rows, "s", map[string]float64{
				"sched.switches":    50,
				"sched.forks":       5,
				"sched.runnable":    2,
				"sched.blocked":     5,
				"system.interrupts": 150,
				"system.boot":       1795252139e9,
			})
			if (c.note == "") != (m.Notes() == "") || !strings.Contains(m.Notes(), c.note) {
				t.Errorf("notes %q", m.Notes())
			}
		})
	}
}

// A tick that was clamped must not be counted again when the counter increases.
func TestCPUClampKeepsTheSum(t *testing.T) {
	m := collecttest.NewMachine(
		t, CPU{}, map[string]string{"proc/stat": statFile(0, "cpu0 0 0 0 1000 0 0 0 0 0 0")},
	)
	m.Read(true)
	var sum float64
	for _, idle := range []int{1050, 1049, 1051, 1100} {
		m.Put(
			map[string]string{
				"proc/stat": statFile(0, fmt.Sprintf("cpu0 0 0 0 %d 0 0 0 0 0 0", idle)),
			},
		)
		sum += m.Read(false)["cpu.time|0|idle"]
	}
	if sum != 1e9 {
		t.Errorf("idle for %v ns, want 1e9", sum)
	}
}

func TestCPUHotplug(t *testing.T) {
	two := statFile(0, "cpu0 100 0 0 0 0 0 0 0 0 0", "cpu1 0 0 0 500 0 0 0 0 0 0")
	one := statFile(0, "cpu0 200 0 0 0 0 0 0 0 0 0")
	back := statFile(0, "cpu0 300 0 0 0 0 0 0 0 0 0", "cpu1 0 0 0 900000 0 0 0 0 0 0")
	last := statFile(0, "cpu0 400 0 0 0 0 0 0 0 0 0", "cpu1 0 0 0 900100 0 0 0 0 0 0")
	m := collecttest.NewMachine(t, CPU{}, map[string]string{"proc/stat": two})
	m.Read(true)
	for _, step := range []struct {
		file string
		cpu1 bool
	}{{one, false}, {back, false}, {last, true}} {
		m.Put(map[string]string{"proc/stat": step.file})
		want := modesOf("0", map[string]float64{"usr": 1000})
		if step.cpu1 {
			for k, v := range modesOf("1", map[string]float64{"idle": 1000}) {
				want[k] = v
			}
		}
		collecttest.Expect(t, m.Read(false), "cpu.time", want)
	}
}

func TestCPUSinceBoot(t *testing.T) {
	m := collecttest.NewMachine(
		t, CPU{}, map[string]string{"proc/stat": statFile(100, "cpu0 10 0 0 90 0 0 0 0 0 0")},
	)
	m.Out.SinceBoot = true
	rows := m.Read(true)
	want := modesOf("0", map[string]float64{"usr": 100, "idle": 900})
	delete(want, "cpu.time|0|unaccounted")
	collecttest.Expect(t, rows, "cpu.time", want)
	collecttest.Expect(t, rows, "sched.switches", map[string]float64{"sched.switches": 100})
}

func TestCPUSaysWhenInterruptTimeIsNotMeasured(t *testing.T) {
	file := func(usr int) string {
		return strings.Replace(
			statFile(0, fmt.Sprintf("cpu0 %d 0 0 0 0 0 0 0 0 0", usr)), "0 0 1 0 0 0 0\n",
			"0 0 0 0 0 0 0\n", 1,
		)
	}
	m := collecttest.NewMachine(t, CPU{}, map[string]string{"proc/stat": file(100)})
	m.Read(true)
	m.Put(map[string]string{"proc/stat": file(200)})
	want := modesOf("0", map[string]float64{"usr": 1000})
	want["cpu.time|0|irq"] = measure.NaN
	collecttest.Expect(t, m.Read(false), "cpu.time", want)
	if !strings.Contains(m.Notes(), "CONFIG_IRQ_TIME_ACCOUNTING") {
		t.Errorf("notes %q", m.Notes())
	}
}

func TestStatMalformed(t *testing.T) {
	for _, text := range []string{"", "cpu\n", "cpu0 1 2 x 4 5 6 7\nctxt 1\n", "cpu0 1 2\nctxt " +
		"1\n", "cpuX 1 2 3 4 5 6 7 8\nctxt 1\n", "cpu99999999 1 2 3 4 5 6 7 8\nctxt 1\n", "ctxt \n"} {
		var s procfs.Stat
		if err := s.Parse([]byte(text), true); err == nil && !s.BadCPU {
			t.Errorf("%q was taken: %+v", text, s)
		}
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(statFile(5, "cpu0 1 2 3 4 5 6 7 8 9 10", "cpu1 1 2 3 4 5 6 7")), true)
	heapbound.Fuzz(f, func(t *testing.T, b []byte, modes bool) {
		var s procfs.Stat
		if s.Parse(b, modes) == nil && !modes && len(s.CPUs) > 0 {
			t.Fatal("CPUs that nobody wanted")
		}
		var last procfs.CPUTicks
		for _, c := range s.CPUs {
			growth(&last, &c.CPUTicks, true)
		}
	})
}

// The total of /proc/stat and the sum of the lines of /proc/interrupts must grow alike.
func TestInterruptsAgreeWithStat(t *testing.T) {
	total := func() (stat uint64, rows float64) {
		b, err := os.ReadFile("/proc/stat")
		if err != nil {
			t.Fatal(err)
		}
		var s procfs.Stat
		if err := s.Parse(b, true); err != nil {
			t.Fatal(err)
		}
		out := collect.NewOut(Interrupts{}.Stats(), collect.NewDictionary(), true)
		r, err := Interrupts{}.Open(&collect.Env{}, collect.Want{"cpu.interrupts": {}})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		out.Start(true, time.Now())
		if err := r.Read(out); err != nil {
			t.Fatal(err)
		}
		for k, v := range collecttest.RowsOf(t, out) {
			if strings.HasPrefix(k, "cpu.interrupts|") {
				rows += v
			}
		}
		return s.Interrupts, rows
	}
	stat, rows := total()
	if float64(stat) > rows*1.02 || rows > float64(stat)*1.02 {
		t.Errorf("/proc/stat counts %d interrupts since boot, /proc/interrupts %v", stat, rows)
	}
}

// Work between ticks is in no mode. It is emitted if it exceeds the granularity of ticks.
func TestUnaccounted(t *testing.T) {
	for _, c := range []struct {
		wall measure.Span
		sum  float64
		want float64
	}{
		{measure.Second, 1e9, 0}, {measure.Second, 1.02e9, 0}, {measure.Second, 0.96e9, 0}, {measure.Second, 0.51e9, 0.49e9},
		{measure.Second / 10, 0.07e9, 0}, {measure.Second / 10, 0, 0.1e9},
		{10 * measure.Second, 9.6e9, 0}, {10 * measure.Second, 9e9, 1e9},
		{10 * measure.Second, 9.51e9, 0}, {10 * measure.Second, 9.5e9, 0.5e9},
		{measure.Second / 10, 0.061e9, 0}, {measure.Second / 10, 0.06e9, 0.04e9},
	} {
		if got := unaccounted(c.wall, c.sum); got != c.want {
			t.Errorf("%v with %g ns in modes: %g, want %g", c.wall, c.sum, got, c.want)
		}
	}
}

// TestGrowth checks counters of a CPU that decrease by less than, as much as and more than rounding
// explains: two ticks.
func TestGrowth(t *testing.T) {
	before := procfs.CPUTicks{100, 200, 300, 400, 500, 600, 700, 800, 90, 95}
	plus := func(d ...int) (now procfs.CPUTicks) {
		for i := range now {
			now[i] = uint64(int(before[i]) + d[i])
		}
		return now
	}
	type ticks = [procfs.CPUColumns]uint64
	tests := []struct {
		name string
		now  procfs.CPUTicks
		want ticks
		ok   bool
		last procfs.CPUTicks // from which the next growth counts
	}{
		{
			"all grow", plus(11, 12, 3, 4, 5, 6, 7, 8, 9, 10), ticks{2, 2, 3, 4, 5, 6, 7, 8, 9, 10},
			true, plus(11, 12, 3, 4, 5, 6, 7, 8, 9, 10),
		},
		{
			"a guest's ticks before those of user", plus(8, 0, 0, 0, 0, 0, 0, 0, 9, 0),
			ticks{0, 0, 0, 0, 0, 0, 0, 0, 9, 0}, true, plus(8, 0, 0, 0, 0, 0, 0, 0, 9, 0),
		},
		{
			"two ticks less of user", plus(-2, 0, 1, 0, 0, 0, 0, 0, 0, 0),
			ticks{0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, true, plus(0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
		},
		{"three ticks less", plus(-3, 0, 1, 0, 0, 0, 0, 0, 0, 0), ticks{0, 0, 1}, false,
			plus(-3, 0, 1, 0, 0, 0, 0, 0, 0, 0)},
		{
			"idle and iowait together two less", plus(0, 0, 0, 3, -5, 1, 0, 0, 0, 0),
			ticks{0, 0, 0, 0, 0, 1}, true, plus(0, 0, 0, 0, 0, 1, 0, 0, 0, 0),
		},
		{
			"together three less", plus(0, 0, 0, -8, 5, 0, 0, 0, 0, 0), ticks{}, false,
			plus(0, 0, 0, -8, 5, 0, 0, 0, 0, 0),
		},
		{
			"iowait grows by more than both", plus(0, 0, 0, -4, 7, 0, 0, 0, 0, 0),
			ticks{0, 0, 0, 0, 3}, true, plus(0, 0, 0, -4, 7, 0, 0, 0, 0, 0),
		},
		{
			"iowait becomes idle", plus(0, 0, 0, 7, -4, 0, 0, 0, 0, 0), ticks{0, 0, 0, 3}, true,
			plus(0, 0, 0, 7, -4, 0, 0, 0, 0, 0),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			last := before
			if got, ok := growth(&last, &tt.now, true); got != tt.want || ok != tt.ok {
				t.Errorf("%v, %v, want %v, %v", got, ok, tt.want, tt.ok)
			}
			if last != tt.last {
				t.Errorf("the next growth is counted from %v, want %v", last, tt.last)
			}
			last = before
			if got, ok := growth(&last, &tt.now, false); got != (ticks{}) || !ok || last != tt.now {
				t.Errorf("without a reading before: %v, %v, from %v", got, ok, last)
			}
		})
	}
}

// TestFewInterrupts checks that a young machine may have no tick of hard interrupts yet.
func TestFewInterrupts(t *testing.T) {
	for count, noted := range map[int]bool{enoughInterrupts - 1: false, enoughInterrupts: true} {
		text := fmt.Sprintf("cpu  9 0 0 0 0 0 0 0 0 0\ncpu0 9 0 0 0 0 0 0 0 0 0\nintr %d\n", count)
		m := collecttest.NewMachine(t, CPU{}, map[string]string{"proc/stat": text})
		m.Read(true)
		m.Read(false)
		if got := strings.Contains(m.Notes(), "IRQ_TIME_ACCOUNTING"); got != noted {
			t.Errorf("%d interrupts without a tick: noted is %v, want %v", count, got, noted)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	collecttest.BenchmarkEach(
		b, CPU{}, Interrupts{}, Softirqs{}, Load{}, Schedstat{}, Pressure{}, Machine{},
	)
}
