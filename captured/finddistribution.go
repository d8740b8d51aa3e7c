package captured

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// A distribution is a table of quantize or lquantize.
type distribution struct {
	table   *Table
	calls   float64
	lo, hi  float64 // the rows with a tenth of the calls each, the first and the last
	mode    float64 // the row with the most calls
	main    float64 // share of the calls between lo and hi
	least   float64 // the first row with calls
	modeRow *Row
	unit    float64 // ns per unit of the rows; NaN when unknown
	reason  string  // how the unit is known
}

const printedUnit = "the unit is printed"

const (
	mainRow   = 0.1  // share of the calls from which on a row belongs to the main part
	probeCost = 1000 // ns, about what two probes take: no call is measured to be shorter
)

func distributionOf(t *Table) *distribution {
	d := &distribution{table: t, lo: math.NaN(), hi: math.NaN(), least: math.NaN(),
		unit: math.NaN()}
	for _, r := range t.Rows {
		d.calls += zero(r.Num("count"))
	}
	if d.calls == 0 {
		return nil
	}
	for _, r := range t.Rows {
		v, n := r.Num("value"), zero(r.Num("count"))
		if n > 0 && d.least != d.least {
			d.least = v
		}
		if d.modeRow == nil || n > d.modeRow.Num("count") {
			d.mode, d.modeRow = v, r
		}
		if n < mainRow*d.calls {
			continue
		}
		if d.lo != d.lo {
			d.lo = v
		}
		d.hi = v
	}
	for _, r := range t.Rows {
		if v := r.Num("value"); v >= d.lo && v <= d.hi {
			d.main += zero(r.Num("count")) / d.calls
		}
	}
	d.guessUnit()
	return d
}

// guessUnit sets the unit by the name of the distribution, or by its least value: nanoseconds are
// ruled out for calls shorter than the probes that measure them.
func (d *distribution) guessUnit() {
	text := " " + strings.ToLower(d.table.Subject) + " "
	if len(d.table.Command) < 200 {
		text += strings.ToLower(d.table.Command) + " "
	}
	for _, u := range []struct {
		names string
		unit  float64
	}{{"(us) [us] usec microseconds us", 1e3}, {"(ms) [ms] msec milliseconds ms", 1e6},
		{"(ns) [ns] nsec nanoseconds ns", 1}} {
		for name := range strings.FieldsSeq(u.names) {
			if strings.Contains(text, " "+name+" ") || strings.Contains(text, "_"+name+" ") {
				d.unit, d.reason = u.unit, printedUnit
				return
			}
		}
	}
	if d.least > 0 && d.least < probeCost {
		d.unit = 1e3
		d.reason = fmt.Sprintf("The table has no unit. Microseconds are assumed: calls of %s ns "+
			"would be shorter than the probes that measure them.", phrase.Count(d.least))
	}
}

// text returns the main part: "8-32 ms".
func (d *distribution) text() string {
	if d.unit != d.unit {
		return phrase.Count(d.lo) + "-" + phrase.Count(d.hi) + " (no unit)"
	}
	lo, hi := d.lo*d.unit, d.hi*d.unit
	scale, unit := 1.0, "ns"
	switch {
	case hi >= 1e9:
		scale, unit = 1e9, "s"
	case hi >= 1e6:
		scale, unit = 1e6, "ms"
	case hi >= 1e3:
		scale, unit = 1e3, "us"
	}
	format := func(v float64) string {
		if v /= scale; v >= 1 {
			return phrase.Digits(math.Floor(v))
		}
		return phrase.Digits(v)
	}
	if format(lo) == format(hi) {
		return format(lo) + " " + unit
	}
	return format(lo) + "-" + format(hi) + " " + unit
}

// distributions judges distributions of latency and compares two of the same name.
func (s *study) distributions() {
	var all []*distribution
	for _, t := range s.of(Buckets) {
		if d := distributionOf(t); d != nil {
			all = append(all, d)
		}
	}
	all = ordered(all, func(d *distribution) string { return d.table.File })
	done := map[*distribution]bool{}
	for i, d := range all {
		if done[d] {
			continue
		}
		var after *distribution
		for _, o := range all[i+1:] {
			if !done[o] && o.table.Subject == d.table.Subject {
				after = o
				done[o] = true
				break
			}
		}
		swapped := after != nil && phaseOf(d.table.File) == phaseOf(after.table.File) &&
			after.mode > d.mode
		if swapped {
			d, after = after, d
		}
		s.judgeDistribution(d, after)
	}
}

// measuredBy returns the function that a distribution describes: one of a profile or a probe whose
// name shares a word with the script or the key.
func (s *study) measuredBy(d *distribution) (function string, sure bool) {
	if m := probeName.FindStringSubmatch(d.table.Command); m != nil {
		return m[1], true
	}
	if f := d.table.Subject; strings.Contains(f, "_") && !strings.Contains(f, " ") {
		return f, true
	}
	f := s.find1any("cache-purge", "kernel-function")
	if f == nil {
		return "", false
	}
	words := strings.Fields(d.table.Command)
	script := ""
	if len(words) > 0 {
		script = path.Base(words[len(words)-1])
	}
	return f.Culprit.Name, joined(script, f.Culprit.Name)
}

func (s *study) judgeDistribution(d, after *distribution) {
	function, sure := s.measuredBy(d)
	name := cmp.Or(function, d.table.Subject, "a distribution")
	slow := d.hi*d.unit >= slowCall || d.unit != d.unit
	if after == nil && !slow {
		s.report.Notes = append(
			s.report.Notes,
			fmt.Sprintf("%s: most calls of %s take %s, less than "+
				"1 ms", d.modeRow.Place(), name, d.text()),
		)
		return
	}
	f := s.find1any("cache-purge", "kernel-function")
	change := ""
	if after != nil {
		change = fmt.Sprintf(", %s in %s: %s", after.text(), after.table.place(d.table),
			ratioText(after.mode/d.mode))
	}
	if f != nil && f.Culprit.Name == function {
		f.Claim = strings.TrimSuffix(f.Claim, ".") + "; " + d.text() + " a call" + change + "."
	} else {
		severity := diagnose.Medium
		if d.unit != d.unit {
			severity = diagnose.Low
		}
		f = s.find("function-slow", name, severity, 0.8,
			diagnose.Culprit{Kind: "function", Name: name}, fmt.Sprintf(
				"Most calls of %q take %s (%s of %s calls)%s.", name, d.text(),
				phrase.Percent(d.main), phrase.Count(d.calls), change))
	}
	d.evidence(f)
	if after != nil {
		after.evidence(f)
		evidence(f, nil, after.mode/d.mode, "1", "the most frequent row moved from %s to %s: %s",
			phrase.Digits(d.mode), phrase.Digits(after.mode), ratioText(after.mode/d.mode))
	}
	switch {
	case d.unit != d.unit:
		caveat(f, "The distribution has no unit: the script that printed it decides whether the "+
			"values are nanoseconds or microseconds.")
	case d.reason != printedUnit:
		caveat(f, d.reason)
	}
	if after != nil && phaseOf(d.table.File) == phaseOf(after.table.File) {
		caveat(f, "The names of the files do not show which distribution is older: the slower one "+
			"is taken as the one before.")
	}
	if function != "" && !sure {
		caveat(f, "The distribution does not name its function: "+function+" is the one that the "+
			"profile accuses.")
	}
	caveat(f, "A row of a distribution contains values up to twice its own.")
}

// evidence adds the main rows of a distribution.
func (d *distribution) evidence(f *diagnose.Finding) {
	share := d.modeRow.Num("count") / d.calls
	evidence(f, d.modeRow, share, "1",
		"%s: %s of %s calls are in the row %s, %s in the rows %s to %s", d.text(),
		phrase.Percent(share), phrase.Count(d.calls), phrase.Digits(d.mode),
		phrase.Percent(d.main), phrase.Digits(d.lo), phrase.Digits(d.hi))
}

// ratioText returns the ratio of two latencies in words.
func ratioText(r float64) string {
	for _, n := range []struct {
		ratio float64
		name  string
	}{{0.5, "a half"}, {1.0 / 3, "a third"}, {0.25, "a quarter"}, {0.2, "a fifth"}, {0.125,
		"an eighth"}, {0.0625, "a sixteenth"}} {
		if math.Abs(r/n.ratio-1) < 0.08 {
			return n.name + " of before"
		}
	}
	switch {
	case math.Abs(r-1) < 0.05:
		return "no difference"
	case r >= 1:
		return phrase.Digits(r) + " times as long as before"
	}
	return phrase.Percent(r) + " of before"
}
