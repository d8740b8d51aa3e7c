package fleet

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"culprit/diagnose/series"
	"culprit/measure"
)

// Item is a statistic by which a host is compared with others.
type Item struct {
	Query  measure.Query // without time
	Unit   measure.Unit  // of the values: per second for amounts
	Values []float64     // of the host, then of the others; NaN: unknown
}

// Difference is a statistic in which a host differs from the others.
type Difference struct {
	Query  string  `json:"query"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Median float64 `json:"median"` // of the others
	Low    float64 `json:"low"`    // the least of the others
	High   float64 `json:"high"`   // the greatest of the others
	Others int     `json:"others"` // hosts with a value
	// Score is the number of robust standard deviations above the median; negative: below. nil:
	// fewer than three others have a value, which have no deviation.
	Score *float64 `json:"score"`
}

// Format formats a value of the difference.
func (d *Difference) Format(v float64) string { return FormatValue(measure.Unit(d.Unit), v) }

// FormatValue formats a value of a unit with three digits: "12 %", "11.7 MB/s", "64 MB".
func FormatValue(unit measure.Unit, v float64) string {
	q := Quantity{Unit: unit}
	switch q.Unit {
	case measure.Ratio, measure.Bytes + "/s", "1/s":
		return q.Format(v)
	case measure.Bytes:
		return threeDigits(v/1e6) + " MB"
	case measure.Hertz:
		return threeDigits(v/1e6) + " MHz"
	case measure.Count:
		return threeDigits(v)
	}
	return threeDigits(v) + " " + string(unit)
}

// RuleHosts is a rule with the number of other hosts with a finding of it.
type RuleHosts struct {
	Rule  string `json:"rule"`
	Hosts int    `json:"hosts"`
}

// Comparison is one host against the others that report.
type Comparison struct {
	At   measure.Time `json:"at"`
	Over measure.Span `json:"over_ns"` // the values are means of this time
	// Host is the name of the host; "": none was named, and none differs from the others.
	Host        string       `json:"host"`
	Furthest    bool         `json:"furthest"` // it was not named, but differs most
	Others      int          `json:"others"`   // that report
	Compared    int          `json:"compared"` // others whose statistics were read
	Differences []Difference `json:"differences"`
	// Only are the findings of rules by which no other host has one.
	Only   []Finding   `json:"only_here"`
	Shared []RuleHosts `json:"also_elsewhere"`
	Lacks  []RuleHosts `json:"only_elsewhere"`
	Notes  []string    `json:"notes"`
}

// Compare returns the comparison of a host with the others, without Differences. host -1 selects
// the one that differs most from the others. others are the indices of the hosts to read
// statistics of, at most limit of them, evenly picked. The error is of a host that is silent.
func (o *Overview) Compare(host, limit int) (c *Comparison, chosen int, others []int, err error) {
	c = &Comparison{At: o.At, Over: o.Over, Notes: o.Notes, Differences: []Difference{}}
	c.Only, c.Shared, c.Lacks = []Finding{}, []RuleHosts{}, []RuleHosts{}
	if c.Furthest = host < 0; c.Furthest {
		outliers := o.Outliers()
		if len(outliers) == 0 {
			c.Furthest, c.Others = false, o.Reporting()
			return c, -1, nil, nil
		}
		host = outliers[0].Host
	}
	h := &o.Hosts[host]
	if !h.Reports {
		return nil, -1, nil, fmt.Errorf("host %s is silent: it sent nothing within 75 s before "+
			"the time; give --at a time at which it did", measure.Clean(h.Name))
	}
	for i := range o.Hosts {
		if i != host && o.Hosts[i].Reports {
			others = append(others, i)
		}
	}
	if len(others) == 0 {
		return nil, -1, nil, fmt.Errorf("no other host than %s reports: there is nothing to "+
			"compare with", measure.Clean(h.Name))
	}
	c.Host, c.Others = h.Name, len(others)
	o.compareFindings(c, h, others)
	if n := len(others); n > limit {
		for i := range limit {
			others[i] = others[i*n/limit]
		}
		others = others[:limit]
		c.Notes = append(slices.Clone(c.Notes), fmt.Sprintf("the statistics are compared with "+
			"those of %d of the %d others, evenly picked by name; findings with all", limit, n))
	}
	c.Compared = len(others)
	return c, host, others, nil
}

// compareFindings fills in Only, Shared and Lacks.
func (o *Overview) compareFindings(c *Comparison, h *Host, others []int) {
	elsewhere, here := map[string]int{}, map[string]bool{}
	for _, i := range others {
		seen := map[string]bool{}
		for _, f := range o.Hosts[i].Findings {
			if !seen[f.Rule] {
				elsewhere[f.Rule]++
			}
			seen[f.Rule] = true
		}
	}
	for _, f := range h.Findings {
		switch n := elsewhere[f.Rule]; {
		case n == 0:
			c.Only = append(c.Only, f)
		case !here[f.Rule]:
			c.Shared = append(c.Shared, RuleHosts{f.Rule, n})
		}
		here[f.Rule] = true
	}
	for rule, n := range elsewhere {
		if !here[rule] {
			c.Lacks = append(c.Lacks, RuleHosts{rule, n})
		}
	}
	for _, all := range [][]RuleHosts{c.Shared, c.Lacks} {
		slices.SortFunc(all, func(a, b RuleHosts) int {
			return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), strings.Compare(a.Rule, b.Rule))
		})
	}
}

// LeastDifference returns the difference below which values of a unit are equal.
func LeastDifference(u measure.Unit) float64 {
	switch u {
	case measure.Ratio:
		return 0.05
	case measure.Bytes + "/s":
		return 1e5
	case measure.Bytes:
		return 64e6
	case measure.Hertz:
		return 1e8
	case measure.BitsPerSec:
		return 1e6
	case measure.Nanoseconds:
		return 1e6
	case "s":
		return 0.001
	}
	return 10
}

// Differences returns the items in which the first value differs from the others, the furthest
// first. With three others or more a value differs by the thresholds of Apart, with fewer by a
// factor of two.
func Differences(items []Item) []Difference {
	type ranked struct {
		Difference
		deviations, factor float64
	}
	var all []ranked
	for _, it := range items {
		v, least := it.Values[0], LeastDifference(it.Unit)
		others := slices.DeleteFunc(slices.Clone(it.Values[1:]), math.IsNaN)
		if v != v || len(others) == 0 {
			continue
		}
		m := series.Median(others)
		r := ranked{Difference: Difference{
			Query: it.Query.String(), Unit: string(it.Unit), Value: v, Median: m,
			Low: slices.Min(others), High: slices.Max(others), Others: len(others),
		}}
		r.factor = math.Abs(math.Log(max(v, least/10) / max(m, least/10)))
		if len(others) < series.MinOthers {
			if math.Abs(v-m) >= least && (v >= minFactor*m || v <= m/minFactor) {
				all = append(all, r)
			}
			continue
		}
		for _, n := range Apart(it.Values, least) {
			if n.Host == 0 {
				r.Score, r.deviations = &n.Score, n.Apart()
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.deviations, a.deviations), cmp.Compare(b.factor, a.factor),
			strings.Compare(a.Query, b.Query))
	})
	out := make([]Difference, len(all))
	for i := range all {
		out[i] = all[i].Difference
	}
	return out
}
