// Package fleet compares the hosts of an engine: their newest values and findings, which of them
// differ from the others, and in what. Pure: values in, order and outliers out.
package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
)

// Quantity is a number by which hosts are compared: one value per host.
type Quantity struct {
	ID    string // a word for programs: cpu, tx
	Title string // a few letters
	Verb  string // "CPU utilization", "its busiest interface sends"
	Unit  measure.Unit
	Least float64 // differences below it are ignored
	Zero  bool    // a host without a value has 0 if others are known: its counters never moved
}

// Quantities returns the quantities. Host.Values has their order.
func Quantities() []Quantity {
	const perSecond = measure.Bytes + "/s"
	return []Quantity{
		{"cpu", "CPU", "CPU utilization", measure.Ratio, 0.1, false},
		{"memory", "memory", "memory in use", measure.Ratio, 0.1, false},
		{"disk", "disk", "utilization of its busiest disk", measure.Ratio, 0.1, true},
		{"rx", "receives", "its busiest interface receives", perSecond, 1e6, false},
		{"tx", "sends", "its busiest interface sends", perSecond, 1e6, false},
		{"retransmits", "retransmits", "TCP segments sent again", "1/s", 10, true},
		{"drops", "drops", "packets dropped", "1/s", 10, true},
		{"pressure_cpu", "CPU waits", "time in which some task waits for a CPU", measure.Ratio, 0.1, true},
		{"pressure_memory", "memory waits", "time in which some task waits for memory", measure.Ratio, 0.05, true},
		{"pressure_io", "I/O waits", "time in which some task waits for I/O", measure.Ratio, 0.1, true},
	}
}

// Format formats a value of the quantity: "12 %", "11.7 MB/s", "3.2/s"; "-" if it is unknown.
func (q *Quantity) Format(v float64) string {
	switch {
	case v != v:
		return "-"
	case q.Unit == measure.Ratio:
		return fmt.Sprintf("%.0f %%", 100*v)
	case q.Unit == measure.Bytes+"/s":
		return threeDigits(v/1e6) + " MB/s"
	}
	return threeDigits(v) + "/s"
}

// threeDigits formats a number with three digits: 0.0123, 11.7, 1234.
func threeDigits(v float64) string {
	if v >= 100 || v == 0 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Finding is a finding of the newest diagnosis of a host.
type Finding struct {
	Rule       string  `json:"rule"`
	Kind       string  `json:"kind"`
	Culprit    string  `json:"culprit"`
	Severity   string  `json:"severity"`
	Confidence float64 `json:"confidence"`
}

// severities are the words of severities, worst first.
//
// table: a constant that Go cannot express
var severities = []string{"high", "medium", "low"}

// rank returns the position of the finding's severity, 0 for the worst.
func (f *Finding) rank() int {
	if i := slices.Index(severities, strings.ToLower(f.Severity)); i >= 0 {
		return i
	}
	return len(severities)
}

// String returns the severity, the rule and the culprit.
func (f *Finding) String() string {
	s := strings.ToUpper(f.Severity) + " " + f.Rule
	if f.Culprit != "" {
		s += ": " + f.Culprit
	}
	return s
}

// Host is what an engine has of a host.
type Host struct {
	Name     string
	Labels   map[string]string // external labels: cluster, region, role
	Newest   measure.Time      // its newest sample; 0: none in the time asked for
	Reports  bool              // its newest sample is recent
	Values   []float64         // per quantity; NaN: unknown
	Findings []Finding         // of its newest diagnosis, worst first
}

// Overview is all hosts of an engine at a time.
type Overview struct {
	At    measure.Time
	Over  measure.Span // the values are means of this time
	Hosts []Host       // sorted by name
	Notes []string
}

// Reporting returns the number of hosts that report.
func (o *Overview) Reporting() (n int) {
	for i := range o.Hosts {
		if o.Hosts[i].Reports {
			n++
		}
	}
	return n
}

// SortFindings sorts the findings of each host, worst first.
func (o *Overview) SortFindings() {
	for i := range o.Hosts {
		SortFindings(o.Hosts[i].Findings)
	}
}

// SortFindings sorts findings, worst first.
func SortFindings(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(b.Confidence, a.Confidence),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Culprit, b.Culprit))
	})
}

// Order returns the indices of the hosts: those with findings first, by their worst, then those
// that differ most from the others, then those that don't report, then by name.
func (o *Overview) Order(outliers []Outlier) []int {
	apart := make([]float64, len(o.Hosts))
	for _, n := range outliers {
		apart[n.Host] = max(apart[n.Host], n.Apart())
	}
	order := make([]int, len(o.Hosts))
	for i := range order {
		order[i] = i
	}
	worst := func(h *Host) int {
		if len(h.Findings) == 0 {
			return len(severities) + 1
		}
		return h.Findings[0].rank()
	}
	silent := func(h *Host) int {
		if h.Reports {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &o.Hosts[a], &o.Hosts[b]
		return cmp.Or(cmp.Compare(worst(x), worst(y)), cmp.Compare(apart[b], apart[a]),
			cmp.Compare(silent(x), silent(y)), strings.Compare(x.Name, y.Name))
	})
	return order
}

// Curves are the values of some hosts over time.
type Curves struct {
	Start measure.Time
	Step  measure.Span
	// Values are per host, per quantity, per step; NaN: unknown.
	Values [][][]float64
}
