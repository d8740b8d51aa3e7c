package facts

import (
	"culprit/diagnose"
	"culprit/measure"
)

// Machine is the CPU time by CPU and mode. Shares are of the time of one CPU, 0..1.
type Machine struct {
	Table *diagnose.Table
	Names []string // of the CPUs
	CPUs  float64  // number of CPUs
	modes map[string]map[string]*diagnose.Row
}

// MachineOf reads the rows of cpu.time.
func MachineOf(t *diagnose.Table) Machine {
	m := Machine{Table: t, modes: map[string]map[string]*diagnose.Row{}}
	for _, r := range t.Rows {
		cpu := r.Word("cpu")
		if m.modes[cpu] == nil {
			m.modes[cpu] = map[string]*diagnose.Row{}
			m.Names = append(m.Names, cpu)
		}
		m.modes[cpu][r.Word("mode")] = r
	}
	m.CPUs = float64(len(m.Names))
	return m
}

// plausible reports whether the modes of a CPU sum to about its wall time. Ticks of 10 ms in a cell
// of a second, and paused virtual machines, deviate by some percent.
func plausible(total float64) bool { return total > 0.5 && total < 1.5 }

// Of returns the share of the time of a CPU in the given modes in cell c; NaN when unknown.
func (m Machine) Of(cpu string, c int, modes ...string) float64 {
	total, part := 0.0, 0.0
	for mode, r := range m.modes[cpu] {
		v := r.At(c)
		if v != v {
			continue
		}
		total += v
		for _, want := range modes {
			if mode == want {
				part += v
			}
		}
	}
	if r := m.modes[cpu]["idle"]; r.At(c) != r.At(c) || !plausible(total) {
		return measure.NaN
	}
	return part / total
}

// Idle returns the mean idle share of the CPUs in cell c, including waits for disks.
func (m Machine) Idle(c int) float64 { return m.Each(c, "idle", "iowait") }

// Each returns the mean over the CPUs of the share in the given modes in cell c.
func (m Machine) Each(c int, modes ...string) float64 {
	sum, n := 0.0, 0.0
	for _, cpu := range m.Names {
		if v := m.Of(cpu, c, modes...); v == v {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return measure.NaN
	}
	return sum / n
}

// IdleOf returns the idle CPUs among some in cell c, including waits for disks; NaN when one is not
// known.
func (m Machine) IdleOf(cpus []string, c int) (sum float64) {
	for _, cpu := range cpus {
		sum += m.Of(cpu, c, "idle", "iowait")
	}
	return sum
}

// Known reports whether cell c is known for all CPUs.
func (m Machine) Known(c int) bool {
	for _, cpu := range m.Names {
		if v := m.Of(cpu, c, "idle"); v != v {
			return false
		}
	}
	return len(m.Names) > 0
}

// Share returns the mean share of all CPUs in the given modes over the cells in mask (nil: all).
func (m Machine) Share(mask []bool, modes ...string) float64 {
	v := make([]float64, len(m.Table.Seconds))
	for c := range v {
		v[c] = m.Each(c, modes...)
	}
	return m.Table.Mean(v, mask)
}

// One returns the mean share of one CPU in the given modes over the cells in mask.
func (m Machine) One(cpu string, mask []bool, modes ...string) float64 {
	v := make([]float64, len(m.Table.Seconds))
	for c := range v {
		v[c] = m.Of(cpu, c, modes...)
	}
	return m.Table.Mean(v, mask)
}
