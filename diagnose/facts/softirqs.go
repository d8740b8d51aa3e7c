package facts

import (
	"sort"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// SoftirqTime is the time that softirqs take, measured by programs in the kernel (softirqTime). Shares are of one CPU's time; NaN where it was not measured
// for long enough to speak of a state. A CPU of "" is all of them together.
type SoftirqTime struct{ Table, cost *diagnose.Table }

// SoftirqTimeOf returns the measured time of softirqs.
func SoftirqTimeOf(l *diagnose.Look) SoftirqTime {
	return SoftirqTime{l.Table(SoftirqTimes), l.Table(SoftirqTimeCost)}
}

// OwnCost gives the share of a CPU that measuring took in cell c, of all CPUs: at most that is what the machine would have been spared. 0 when it is not known.
func (h SoftirqTime) OwnCost(c int) float64 { return series.Or(h.cost.One().At(c), 0) }

// MeanOwnCost is own over the masked cells.
func (h SoftirqTime) MeanOwnCost(mask []bool) float64 { return series.Or(h.cost.One().Mean(mask), 0) }

// Label gives a device as the field device of softirq.time has it: eth0, or box/eth0 in another network namespace.
func (p DeviceID) Label() string {
	if p.NetNS == "" {
		return p.Name
	}
	return p.NetNS + "/" + p.Name
}

// deviceIDOf reads what word gives.
func deviceIDOf(word string) DeviceID {
	if netns, name, ok := strings.Cut(word, "/"); ok { // neither name has one
		return DeviceID{netns, name}
	}
	return DeviceID{Name: word}
}

// enough says whether the cells in which has is true are as much of the masked ones as a state takes.
func (h SoftirqTime) enough(mask []bool, has func(c int) bool) bool {
	var told, of float64
	for c, sec := range h.Table.Seconds {
		if mask == nil || mask[c] {
			of += max(sec, h.Table.Step.Seconds())
			if sec > 0 && has(c) {
				told += sec
			}
		}
	}
	return h.Table.Have() && told >= threshold.LeastSeconds && told >= threshold.LeastShare*of
}

// rows gives those of a CPU.
func (h SoftirqTime) rows(cpu string, terms ...string) []*diagnose.Row {
	if cpu != "" {
		terms = append(terms, "cpu", cpu)
	}
	return h.Table.Where(terms...)
}

// cells gives the share that all softirqs take of a CPU, by cell; NaN in one that was not measured, nil when too few were.
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

// Vector gives the share that a kind of softirq takes; "" of all kinds. One that did not run takes 0.
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

// Busiest gives the kind of softirq that takes most of a CPU; "" when it was not measured, or there was none.
func (h SoftirqTime) Busiest(mask []bool, cpu string) (vector string, share float64) {
	for _, v := range h.Table.Keys("vector") {
		if s := h.Vector(mask, cpu, v); s > share {
			vector, share = v, s
		}
	}
	return vector, share
}

// Device gives the share that the packets of a network device take in NET_RX. It was measured only where the device has a value: packets that threads
// poll for are in no softirq, and devices are not told apart any more where that costs too much. So in each masked cell the device is to have had packets.
func (h SoftirqTime) Device(mask []bool, cpu string, d DeviceID) float64 {
	values := h.Table.Sum(h.rows(cpu, "vector", "NET_RX", "device", d.Label()))
	if !h.enough(mask, func(c int) bool { return values[c] == values[c] }) {
		return measure.NaN
	}
	return h.Table.Mean(values, mask)
}

// Devices gives those whose packets take the most of a CPU, at most n, largest first.
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

// InterruptWork gives of each CPU the share that interrupts and softirqs take, by cell. Softirqs as they were measured where they were: the kernel looks what runs once
// a tick, and packets that come with the ticks, or just not, are many times too much or too little then.
func InterruptWork(m Machine, h SoftirqTime) map[string][]float64 {
	work := map[string][]float64{}
	for _, cpu := range m.Names {
		v := make([]float64, len(m.Table.Seconds))
		measured := h.cells(cpu)
		for c := range v {
			if v[c] = m.Of(cpu, c, "soft", "irq"); measured != nil && measured[c] == measured[c] {
				// By the clock of the wall, which goes on while the host runs somebody else in the middle of a softirq.
				v[c] = min(measured[c]+m.Of(cpu, c, "irq"), 1-m.Of(cpu, c, "steal"))
			}
		}
		work[cpu] = v
	}
	return work
}
