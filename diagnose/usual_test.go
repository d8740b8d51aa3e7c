package diagnose

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// days answers for one statistic, with a value per day, and counts the queries.
type days struct {
	values [usualDays]float64 // by days ago minus one; NaN: nothing was recorded
	now    float64
	good   float64
	end    measure.Time
	asked  int
}

func (d *days) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	d.asked++
	if q.Stat != "disk.wait" && q.Stat != sentinelStat {
		return nil, measure.ErrUnsupported
	}
	ago := d.end.Sub(q.Over.Start)
	v := d.now
	switch i := int((ago+12*60*measure.Minute)/day) - 1; {
	case i >= 0 && i < usualDays:
		v = d.values[i]
	case ago > measure.Minute:
		v = d.good
	}
	cells := int(q.Over.Span() / q.Step)
	a := &measure.Answer{Query: q, Kind: measure.Level, Unit: measure.Nanoseconds,
		Start: q.Over.Start, Step: q.Step, Elapsed: make([]measure.Span, cells)}
	if v != v {
		return a, nil
	}
	for i := range a.Elapsed {
		a.Elapsed[i] = q.Step
	}
	a.Series = []measure.Series{{Values: slices.Repeat([]float64{v}, cells)}}
	return a, nil
}

const sentinelStat = measure.StatID(sentinelQuery)

const nan = math.MaxFloat64 // means NaN in the tables below

func unknown(v float64) float64 {
	if v == nan {
		return measure.NaN
	}
	return v
}

// usualCase is a finding with its days before.
type usualCase struct {
	name     string
	days     [usualDays]float64
	logged   string // a character per day: x has the finding
	now      float64
	severity Severity
	lasts    measure.Span
	waits    *Waits
	effect   Number
	want     Severity
	text     string // the end of the evidence
	caveat   string // a part of it
}

var (
	nobody   = &Waits{Share: 0}
	somebody = &Waits{Share: 0.4, Text: "sshd waits"}
	no       = Number(measure.NaN)
)

// usualCases are findings that are usual at this hour, and those that seem so.
func usualCases() []usualCase {
	all := [usualDays]float64{3e6, 3e6, 3.1e6, 2.9e6, 3e6, 3e6, 3e6}
	few := [usualDays]float64{3e6, nan, nan, nan, nan, nan, 2e6}
	const short = 5 * measure.Minute
	base := usualCase{"", all, "xxxxxxx", 3e6, High, short, nobody, no, Medium, "usually 3 ms at " +
		"this hour, 2 ms before it began", "Lowered from high"}
	with := func(name string, change func(*usualCase)) usualCase {
		c := base
		c.name = name
		change(&c)
		return c
	}
	return []usualCase{
		base,
		with("medium becomes low", func(c *usualCase) {
			c.severity, c.want, c.caveat = Medium, Low, "Lowered from medium"
		}),
		with("low stays", func(c *usualCase) { c.severity, c.want, c.caveat = Low, Low, "" }),
		with("somebody waits", func(c *usualCase) {
			c.waits, c.want, c.caveat = somebody, High, "on all 7 recorded days"
		}),
		with("nobody asked", func(c *usualCase) {
			c.waits, c.want, c.caveat = nil, High, "on all 7 recorded days"
		}),
		with("an effect is known", func(c *usualCase) {
			c.effect, c.want, c.caveat = 0.2, High, "on all 7 recorded days"
		}),
		with("it lasts for days", func(c *usualCase) {
			c.lasts, c.want, c.caveat = 30*60*measure.Minute, High, "it lasts"
			c.text = "usually 3 ms at this hour, 3 ms before it began" // good: the day before
		}),
		with("one day lacks it", func(c *usualCase) {
			c.logged, c.want, c.caveat = "xxx.xxx", High, ""
		}),
		with("more than usual", func(c *usualCase) {
			c.now, c.want, c.caveat = 4e6, High, "on all 7 recorded days"
		}),
		with("less than usual", func(c *usualCase) {
			c.now, c.want, c.caveat = 2e6, High, "on all 7 recorded days"
		}),
		with("two days are not usual", func(c *usualCase) {
			c.days, c.logged, c.want, c.caveat = few, "x.....x", High, ""
			c.text = "2.5 ms at this hour of 2 days before, 2 ms before it began"
		}),
	}
}

func TestUsual(t *testing.T) {
	for _, tt := range usualCases() {
		t.Run(tt.name, func(t *testing.T) {
			r, d, log := tt.scene(t)
			b := NewBaseline(d, log)
			if err := b.Add(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			f := r.Findings[0]
			if f.Severity != tt.want {
				t.Errorf("it is %s, want %s; %q", f.Severity, tt.want, f.Against)
			}
			if !strings.HasSuffix(f.Evidence[0].Text, "; "+tt.text) {
				t.Errorf("%q does not end with %q", f.Evidence[0].Text, tt.text)
			}
			if s := strings.Join(f.Against, "|"); !strings.Contains(s, tt.caveat) ||
				tt.caveat == "" && s != "" {
				t.Errorf("caveats %q, want %q", s, tt.caveat)
			}
		})
	}
}

// scene returns the report of a case, its recording and its log.
func (c *usualCase) scene(t *testing.T) (*Report, *days, *rangeLog) {
	t.Helper()
	end := measure.Time(1790000000) * measure.Time(measure.Second)
	r := &Report{Start: end.Add(-HistoryOver), End: end, Findings: []Finding{{ID: "disk", Rule: "disk",
		Severity: c.severity, Confidence: 1, Effect: c.effect, Waits: c.waits,
		Evidence: []Evidence{{Text: "a request takes long", Statistic: `disk.wait where pid = "7" ` +
			`and process = "dd"`, Value: Number(c.now), Unit: "ns",
			Over: [2]Time{end.Add(-HistoryOver), end}}},
		Past: &Past{Since: end.Add(-c.lasts), Seen: end, Share: 1, Confirmed: true}}}}
	p := r.Findings[0].Past
	p.LastGood = &[2]Time{p.Since.Add(-5 * measure.Minute), p.Since}
	d := &days{now: c.now, good: 2e6, end: end}
	log := &rangeLog{docs: map[measure.Time][]byte{}}
	for i, v := range c.days {
		d.values[i] = unknown(v)
		found := &Report{Findings: []Finding{}}
		if c.logged[i] == 'x' {
			found.Findings = []Finding{{ID: "disk"}}
		}
		document, err := json.Marshal(found)
		if err != nil {
			t.Fatal(err)
		}
		log.docs[end.Add(-day*measure.Span(i+1))] = document
	}
	return r, d, log
}

// TestUsualIsCached: half an hour costs one query per piece of evidence and day, and a limit of
// queries is kept.
func TestUsualIsCached(t *testing.T) {
	c := usualCases()[0]
	_, d, log := c.scene(t)
	b := NewBaseline(d, log)
	b.asks = historyAsks
	for range 100 {
		r, _, _ := c.scene(t)
		before := d.asked
		if err := b.Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if n := d.asked - before; n > historyAsks+usualFindings*usualEvidence {
			t.Errorf("a report costs %d queries", n)
		}
	}
	// Each report asks for the number of now.
	if want := 2*usualDays + 1 + 100; d.asked != want {
		t.Errorf("%d queries, want %d", d.asked, want)
	}
}

// TestMissingHistoryIsSaidOnce, and only if a finding is more than a remark.
func TestMissingHistoryIsSaidOnce(t *testing.T) {
	for severity, want := range map[Severity]int{High: 1, Low: 0} {
		c := usualCases()[0]
		r, d, log := c.scene(t)
		r.Findings = append(r.Findings, r.Findings[0], r.Findings[0])
		for i := range d.values {
			d.values[i] = measure.NaN
		}
		for i := range r.Findings {
			r.Findings[i].Severity = severity
		}
		if err := NewBaseline(d, log).Add(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if len(r.Notes) != want {
			t.Errorf("%s: %q", severity, r.Notes)
		}
	}
}

// TestLastingQueries: the numbers of processes differ between days.
func TestLastingQueries(t *testing.T) {
	for text, want := range map[string]string{
		`disk.wait where device = "sda"`:                    `disk.wait where device = "sda"`,
		`process.cpu where pid = "7" and process = "dd"`:    `process.cpu where process = "dd"`,
		`process.cpu where pid = "7"`:                       "",
		`process.cpu by process`:                            "",
		`tcp.flow.bytes where peer = "a" and pid = "7"`:     `tcp.flow.bytes where peer = "a"`,
		`tcp.flow.rtt where localport = "5" and side = "c"`: "",
		`no query at all (`:                                 "",
	} {
		if got, ok := lasting(text); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestBaselineErrors: a recording that cannot answer adds nothing, and the context ends it.
func TestBaselineErrors(t *testing.T) {
	c := usualCases()[0]
	r, d, log := c.scene(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewBaseline(d, log).Add(ctx, r); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	r.Findings[0].Evidence[0].Statistic = "cpu.time"
	if err := NewBaseline(d, log).Add(t.Context(), r); err != nil ||
		r.Findings[0].Evidence[0].Usual != nil {
		t.Errorf("%v, %+v", err, r.Findings[0].Evidence[0].Usual)
	}
}
