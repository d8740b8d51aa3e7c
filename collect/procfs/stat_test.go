package procfs

import (
	"reflect"
	"testing"
)

func TestStatParse(t *testing.T) {
	ticks := func(first uint64) (c CPUTicks) {
		for i := range c {
			c[i] = first + uint64(i)
		}
		return c
	}
	const whole = "cpu  11 12 13 14 15 16 17 18 19 20\n" +
		"cpu0 21 22 23 24 25 26 27 28 29 30\n" +
		"cpu7 31 32 33 34 35 36 37 38 39 40 41\n" +
		"intr 43 0 5 6\nctxt 44\nbtime 1700000000\nprocesses 45\nprocs_running 46\n" +
		"procs_blocked 47\nsoftirq 48 1 2\n"
	const counters = HasSwitches | HasForks | HasInterrupts | HasRunning | HasBlocked |
		HasBoot
	all := Stat{
		Has: counters | HasAll, Columns: 10, All: ticks(11),
		CPUs: []CPULine{{0, ticks(21)}, {7, ticks(31)}}, Interrupts: 43, Switches: 44, Forks: 45,
		Running: 46, Blocked: 47, Boot: 1700000000,
	}
	before := Stat{
		Interrupts: 1, Switches: 2, Forks: 3, Running: 4, Blocked: 5, Boot: 6, All: ticks(90),
	}
	changed := func(change func(s *Stat)) Stat {
		s := before
		s.Columns = CPUColumns
		change(&s)
		return s
	}
	old := ticks(1)
	clear(old[CPUSteal:])
	tests := []struct {
		name, text string
		modes      bool
		want       Stat
	}{
		{"all lines", whole, true, all},
		{"without modes", whole, false, changed(func(s *Stat) {
			s.Has, s.Interrupts, s.Switches, s.Forks = counters, 43, 44, 45
			s.Running, s.Blocked, s.Boot = 46, 47, 1700000000
		})},
		{"without a newline", "ctxt 44", true, changed(func(s *Stat) {
			s.Has, s.Switches = HasSwitches, 44
		})},
		{"no number", "ctxt x\nintr -3\nprocesses 45\nct\n", true, changed(func(s *Stat) {
			s.Has, s.Forks = HasForks, 45
		})},
		{"nothing after a name", "cpu0\nctxt\nctxt 44\n", true, changed(func(s *Stat) {
			s.Has, s.Switches, s.BadCPU = HasSwitches, 44, true
		})},
		{"an old kernel", "cpu  1 2 3 4 5 6 7\nctxt 44\n", true, changed(func(s *Stat) {
			s.Has, s.Switches, s.All, s.Columns = HasSwitches|HasAll, 44, old, CPUSoftIRQ+1
		})},
		{"too few columns", "cpu  1 2 3 4 5 6\nctxt 44\n", true, changed(func(s *Stat) {
			s.Has, s.Switches, s.BadCPU = HasSwitches, 44, true
		})},
		{
			"bad lines, then a good one",
			"cpu0 1 2 3 4 5 6 x\ncpux 1 2 3 4 5 6 7\ncpu1048576 1 2 3 4 5 6 7\ncpi 1 2 3 4 5 6 7\n" +
				"cp\ncpu1048575 1 2 3 4 5 6 7\n",
			true,
			changed(func(s *Stat) {
				s.BadCPU, s.Columns = true, CPUSoftIRQ+1
				s.CPUs = []CPULine{{1<<20 - 1, old}}
			}),
		},
		{"not a cpu line", "cpi0 1 2 3 4 5 6 7\nctxt 44\n", true, changed(func(s *Stat) {
			s.Has, s.Switches, s.BadCPU = HasSwitches, 44, true
		})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := before
			if err := got.Parse([]byte(tt.text), tt.modes); err != nil {
				t.Fatal(err)
			}
			if len(got.CPUs) == 0 {
				got.CPUs = nil
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("\n%+v, want\n%+v", got, tt.want)
			}
		})
	}
	t.Run("again", func(t *testing.T) {
		s := before
		for _, text := range []string{"cpu0 x\n" + whole, whole} {
			if err := s.Parse([]byte(text), true); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(s, all) {
			t.Errorf("\n%+v, want\n%+v", s, all)
		}
	})
	for _, text := range []string{"", "x", "cpu", "btime 1700000000\n"} {
		if err := new(Stat).Parse([]byte(text), true); err == nil {
			t.Errorf("%q has counters", text)
		}
	}
	if err := new(Stat).Parse([]byte("cpu3 1 2 3 4 5 6 7 8 9 10\n"), true); err != nil {
		t.Errorf("one CPU is enough: %v", err)
	}
}
