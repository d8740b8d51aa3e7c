package diagnose

import "culprit/measure"

// machine is the CPUs' time in a form that rules can reckon with. Shares are of one CPU's time, 0..1.
type machine struct {
	table *Table
	names []string // of the CPUs
	cpus  float64  // how many of them
	modes map[string]map[string]*Row
}

func machineOf(t *Table) machine {
	m := machine{table: t, modes: map[string]map[string]*Row{}}
	for _, r := range t.Rows {
		cpu := r.Word("cpu")
		if m.modes[cpu] == nil {
			m.modes[cpu] = map[string]*Row{}
			m.names = append(m.names, cpu)
		}
		m.modes[cpu][r.Word("mode")] = r
	}
	m.cpus = float64(len(m.names))
	return m
}

// plausible: the modes of a CPU sum to its wall time; what is far from that is no account of a CPU. Ticks of 10 ms against
// a cell of a second, and virtual machines that were stopped, stray by some percent.
func plausible(total float64) bool { return total > 0.5 && total < 1.5 }

// of gives the share of a CPU's accounted time that it spent in the given modes in cell c; NaN when it can't be told.
func (m machine) of(cpu string, c int, modes ...string) float64 {
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

// idle gives the mean share that the CPUs had nothing to do in cell c; waiting for a disk is nothing to do.
func (m machine) idle(c int) float64 { return m.each(c, "idle", "iowait") }

// each gives the mean over the CPUs of the share in the given modes in cell c.
func (m machine) each(c int, modes ...string) float64 {
	sum, n := 0.0, 0.0
	for _, cpu := range m.names {
		if v := m.of(cpu, c, modes...); v == v {
			sum, n = sum+v, n+1
		}
	}
	if n == 0 {
		return measure.NaN
	}
	return sum / n
}

// known says whether cell c can be told for all CPUs.
func (m machine) known(c int) bool {
	for _, cpu := range m.names {
		if v := m.of(cpu, c, "idle"); v != v {
			return false
		}
	}
	return len(m.names) > 0
}

// share gives the mean share of all CPUs' time in the given modes over the masked cells (nil: all).
func (m machine) share(mask []bool, modes ...string) float64 {
	v := make([]float64, len(m.table.Seconds))
	for c := range v {
		v[c] = m.each(c, modes...)
	}
	return m.table.mean(v, mask)
}

// one gives the mean share of one CPU's time in the given modes over the masked cells.
func (m machine) one(cpu string, mask []bool, modes ...string) float64 {
	v := make([]float64, len(m.table.Seconds))
	for c := range v {
		v[c] = m.of(cpu, c, modes...)
	}
	return m.table.mean(v, mask)
}
