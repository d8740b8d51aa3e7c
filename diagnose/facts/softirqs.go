package facts

import (
	"sort"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// SoftirqTime is the time of softirqs as BPF programs measure it. Shares are of the time of one
// CPU; NaN when it was not measured long enough for a state. A CPU of "" is the sum of all.
type SoftirqTime struct{ Table, cost *diagnose.Table }

// SoftirqTimeOf returns the measured time of softirqs.
func SoftirqTimeOf(l *diagnose.Look) SoftirqTime {
	return SoftirqTime{l.Table(SoftirqTimes), l.Table(SoftirqTimeCost)}
}

// OwnCost returns the share of a CPU that the measuring took in cell c, summed over CPUs; 0 when
// unknown.
func (h SoftirqTime) OwnCost(c int) float64 { return series.Or(h.cost.One().At(c), 0) }

// MeanOwnCost is the mean of OwnCost over the cells in mask.
func (h SoftirqTime) MeanOwnCost(mask []bool) float64 {
	return series.Or(h.cost.One().Mean(mask),
		0)
}

// Label returns the device as a word of the field device of softirq.time: eth0, or box/eth0 in
// another network namespace.
func (p DeviceID) Label() string {
	if p.NetNS == "" {
		return p.Name
	}
	return p.NetNS + "/" + p.Name
}

// deviceIDOf is the inverse of DeviceID.Label.
func deviceIDOf(word string) DeviceID {
	if netns, name, ok := strings.Cut(word, "/"); ok { // neither name has one
		return DeviceID{netns, name}
	}
	return DeviceID{Name: word}
}

// enough reports whether the cells for which has is true are enough of those in mask for a state.
func (h SoftirqTime) enough(mask []bool, has func(c int) bool) bool {
	var measured, of float64
	for c, sec := range h.Table.Seconds {
		if mask == nil || mask[c] {
			of += max(sec, h.Table.Step.Seconds())
			if sec > 0 && has(c) {
				measured += sec
			}
		}
	}
	return h.Table.Have() && measured >= threshold.LeastSeconds &&
		measured >= threshold.LeastShare*of
}

// rows returns the rows of a CPU.
func (h SoftirqTime) rows(cpu string, terms ...string) []*diagnose.Row {
	if cpu != "" {
		terms = append(terms, "cpu", cpu)
	}
	return h.Table.Where(terms...)
}

// cells returns the share of a CPU that all softirqs take, by cell; NaN in cells that were not
// measured, nil when too few were.
func (h SoftirqTime) cells(cpu string) []float64 {
	if !h.enough(nil, func(int) bool { return true }) {
		return nil
	}
	v := h.Table.Sum(h.rows(cpu))
	for c := range v {
		if v[c] != v[c] && h.Table.Seconds[c] > 0 {
			v[c] = 0 // none ran
		}
	}
	return v
}

// Vector returns the share of one kind of softirq, "" of all kinds; 0 for one that did not run.
func (h SoftirqTime) Vector(mask []bool, cpu, vector string) float64 {
	if !h.enough(mask, func(int) bool { return true }) {
		return measure.NaN
	}
	var terms []string
	if vector != "" {
		terms = []string{"vector", vector}
	}
	return series.Or(h.Table.Part(h.Table.Sum(h.rows(cpu, terms...)), mask), 0)
}

// Busiest returns the kind of softirq with most time on a CPU; "" when it was not measured, or none
// ran.
func (h SoftirqTime) Busiest(mask []bool, cpu string) (vector string, share float64) {
	for _, v := range h.Table.Keys("vector") {
		if s := h.Vector(mask, cpu, v); s > share {
			vector, share = v, s
		}
	}
	return vector, share
}

// Device returns the share that packets of a network device take in NET_RX. It is NaN unless the
// device has a value in enough cells: packets that threads poll are in no softirq, and devices are
// not distinguished where that is too expensive.
func (h SoftirqTime) Device(mask []bool, cpu string, d DeviceID) float64 {
	values := h.Table.Sum(h.rows(cpu, "vector", "NET_RX", "device", d.Label()))
	if !h.enough(mask, func(c int) bool { return values[c] == values[c] }) {
		return measure.NaN
	}
	return h.Table.Mean(values, mask)
}

// Devices returns up to n devices whose packets take most time of a CPU, largest first.
func (h SoftirqTime) Devices(mask []bool, cpu string, n int) (all []DeviceID) {
	shares := map[DeviceID]float64{}
	for _, name := range h.Table.Keys("device") {
		d := deviceIDOf(name)
		if s := h.Device(mask, cpu, d); s > 0 && name != "" {
			shares[d] = s
			all = append(all, d)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return shares[all[i]] > shares[all[j]] })
	return all[:min(n, len(all))]
}

// InterruptWork returns for each CPU the share of interrupts and softirqs by cell. Measured softirq
// time replaces the accounting of the kernel, which samples once per tick: it is far off for
// packets that arrive in step with the ticks.
func InterruptWork(m Machine, h SoftirqTime) map[string][]float64 {
	work := map[string][]float64{}
	for _, cpu := range m.Names {
		v := make([]float64, len(m.Table.Seconds))
		measured := h.cells(cpu)
		for c := range v {
			if v[c] = m.Of(cpu, c, "soft", "irq"); measured != nil && measured[c] == measured[c] {
				// Wall time continues while the host runs another guest in the middle of a softirq.
				v[c] = min(measured[c]+m.Of(cpu, c, "irq"), 1-m.Of(cpu, c, "steal"))
			}
		}
		work[cpu] = v
	}
	return work
}
