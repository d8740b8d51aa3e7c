package facts

import (
	"culprit/diagnose"
	"culprit/measure"
)

// Machine is the CPUs' time in a form that rules can reckon with. Shares are of one CPU's time, 0..1.
type Machine struct {
	Table *diagnose.Table
	Names []string // of the CPUs
	CPUs  float64  // how many of them
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

// plausible: the modes of a CPU sum to its wall time; what is far from that is no account of a CPU. Ticks of 10 ms against
// a cell of a second, and virtual machines that were stopped, stray by some percent.
func plausible(total float64) bool { return total > 0.5 && total < 1.5 }

// Of gives the share of a CPU's accounted time that it spent in the given modes in cell c; NaN when it can't be told.
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

// Idle gives the mean share that the CPUs had nothing to do in cell c; waiting for a disk is nothing to do.
func (m Machine) Idle(c int) float64 { return m.Each(c, "idle", "iowait") }

// Each gives the mean over the CPUs of the share in the given modes in cell c.
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

// Known says whether cell c can be told for all CPUs.
func (m Machine) Known(c int) bool {
	for _, cpu := range m.Names {
		if v := m.Of(cpu, c, "idle"); v != v {
			return false
		}
	}
	return len(m.Names) > 0
}

// Share gives the mean share of all CPUs' time in the given modes over the masked cells (nil: all).
func (m Machine) Share(mask []bool, modes ...string) float64 {
	v := make([]float64, len(m.Table.Seconds))
	for c := range v {
		v[c] = m.Each(c, modes...)
	}
	return m.Table.Mean(v, mask)
}

// One gives the mean share of one CPU's time in the given modes over the masked cells.
func (m Machine) One(cpu string, mask []bool, modes ...string) float64 {
	v := make([]float64, len(m.Table.Seconds))
	for c := range v {
		v[c] = m.Of(cpu, c, modes...)
	}
	return m.Table.Mean(v, mask)
}
