package diagnose

import (
	"sort"
	"strings"

	"culprit/measure"
)

// handled is the time that softirqs take, measured by programs in the kernel (softirqTime). Shares are of one CPU's time; NaN where it was not measured
// for long enough to speak of a state. A CPU of "" is all of them together.
type handled struct{ table, cost *Table }

func handledOf(l *Look) handled { return handled{l.Table(softirqTime), l.Table(softirqTimeCost)} }

// own gives the share of a CPU that measuring took in cell c, of all CPUs: at most that is what the machine would have been spared. 0 when it is not known.
func (h handled) own(c int) float64 { return or(h.cost.One().At(c), 0) }

// owned is own over the masked cells.
func (h handled) owned(mask []bool) float64 { return or(h.cost.One().Mean(mask), 0) }

// word gives a device as the field device of softirq.time has it: eth0, or box/eth0 in another network namespace.
func (p place) word() string {
	if p.netns == "" {
		return p.name
	}
	return p.netns + "/" + p.name
}

// placeOf reads what word gives.
func placeOf(word string) place {
	if netns, name, ok := strings.Cut(word, "/"); ok { // neither name has one
		return place{netns, name}
	}
	return place{name: word}
}

// enough says whether the cells in which has is true are as much of the masked ones as a state takes.
func (h handled) enough(mask []bool, has func(c int) bool) bool {
	var told, of float64
	for c, sec := range h.table.Seconds {
		if mask == nil || mask[c] {
			of += max(sec, h.table.step.Seconds())
			if sec > 0 && has(c) {
				told += sec
			}
		}
	}
	return h.table.Have() && told >= leastSeconds && told >= leastShare*of
}

// rows gives those of a CPU.
func (h handled) rows(cpu string, terms ...string) []*Row {
	if cpu != "" {
		terms = append(terms, "cpu", cpu)
	}
	return h.table.Where(terms...)
}

// cells gives the share that all softirqs take of a CPU, by cell; NaN in one that was not measured, nil when too few were.
func (h handled) cells(cpu string) []float64 {
	if !h.enough(nil, func(int) bool { return true }) {
		return nil
	}
	v := h.table.Sum(h.rows(cpu))
	for c := range v {
		if v[c] != v[c] && h.table.Seconds[c] > 0 {
			v[c] = 0 // none ran
		}
	}
	return v
}

// vector gives the share that a kind of softirq takes; "" of all kinds. One that did not run takes 0.
func (h handled) vector(mask []bool, cpu, vector string) float64 {
	if !h.enough(mask, func(int) bool { return true }) {
		return measure.NaN
	}
	var terms []string
	if vector != "" {
		terms = []string{"vector", vector}
	}
	return or(h.table.part(h.table.Sum(h.rows(cpu, terms...)), mask), 0)
}

// busiest gives the kind of softirq that takes most of a CPU; "" when it was not measured, or there was none.
func (h handled) busiest(mask []bool, cpu string) (vector string, share float64) {
	for _, v := range h.table.Keys("vector") {
		if s := h.vector(mask, cpu, v); s > share {
			vector, share = v, s
		}
	}
	return vector, share
}

// device gives the share that the packets of a network device take in NET_RX. It was measured only where the device has a value: packets that threads
// poll for are in no softirq, and devices are not told apart any more where that costs too much. So in each masked cell the device is to have had packets.
func (h handled) device(mask []bool, cpu string, d place) float64 {
	values := h.table.Sum(h.rows(cpu, "vector", "NET_RX", "device", d.word()))
	if !h.enough(mask, func(c int) bool { return values[c] == values[c] }) {
		return measure.NaN
	}
	return h.table.mean(values, mask)
}

// devices gives those whose packets take the most of a CPU, at most n, largest first.
func (h handled) devices(mask []bool, cpu string, n int) (all []place) {
	shares := map[place]float64{}
	for _, name := range h.table.Keys("device") {
		d := placeOf(name)
		if s := h.device(mask, cpu, d); s > 0 && name != "" {
			shares[d] = s
			all = append(all, d)
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return shares[all[i]] > shares[all[j]] })
	return all[:min(n, len(all))]
}

// worthSaying: share of a CPU from where on a report says what it took itself to measure.
const worthSaying = 0.01

// noteOfCost says what measuring took, where that is much: it is within what was measured. "" else.
func noteOfCost(t *Table) string {
	if t == nil {
		return ""
	}
	if v := t.filled().One().Mean(nil); v >= worthSaying {
		return "measuring the time of softirqs took " + percent(v) + " of a CPU itself, most of it within the time measured"
	}
	return ""
}
