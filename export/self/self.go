// Package self measures the server itself: its health and the findings of its diagnosis become
// statistics, so that they are recorded, exported and queried like all others.
package self

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"culprit/kernel"
	"culprit/measure"
)

const (
	// Findings is the statistic of the findings: the confidence of each.
	Findings measure.StatID = "finding.confidence"
	// MaxFindings is the most findings of one reading: the most severe ones.
	MaxFindings = 100
	// maxName is the most bytes of a culprit's name.
	maxName = 128
)

// Finding is one finding of the newest diagnosis.
type Finding struct {
	Rule, Kind, Culprit, Severity string
	Confidence                    float64 // 0 to 1
}

// State is what a reading reads.
type State struct {
	Health  measure.Health
	Version string
	// Newest is the newest recorded tick; 0: none.
	Newest measure.Time
	// Findings are those of the newest diagnosis, in any order.
	Findings []Finding
	// Diagnosed is whether there was a diagnosis.
	Diagnosed bool
}

// Source is a measure.Source of the server's state. Read is called once per tick; it must be set
// before Run.
type Source struct {
	Read func() State
}

// quantity is a number of the server's health.
type quantity struct {
	stat  measure.Stat
	value func(*State) float64
}

// quantities are the statistics with one row.
func quantities() []quantity {
	of := func(id measure.StatID, kind measure.Kind, unit measure.Unit, help string,
		value func(*State) float64,
	) quantity {
		st := measure.Stat{ID: id, Kind: kind, Unit: unit, Fold: measure.Max, Help: help}
		if kind == measure.Delta {
			st.Fold = measure.Sum
		}
		return quantity{st, value}
	}
	return []quantity{
		of("server.cpu", measure.Level, measure.Ratio,
			"share of one CPU that culprit uses, mean of a minute",
			func(s *State) float64 { return s.Health.CPU }),
		of("server.disk", measure.Level, measure.Bytes, "size of the archive",
			func(s *State) float64 { return float64(s.Health.Disk) }),
		of("server.disk.limit", measure.Level, measure.Bytes,
			"maximum size of the archive, 0 for no limit",
			func(s *State) float64 { return float64(s.Health.DiskLimit) }),
		of("server.late", measure.Delta, measure.Events, "ticks that were late or skipped",
			func(s *State) float64 { return float64(s.Health.Late) }),
		of("server.memory", measure.Level, measure.Bytes, "resident memory of culprit",
			func(s *State) float64 { return float64(s.Health.Memory) }),
		of("server.refused", measure.Delta, measure.Events,
			"samples that receivers of remote write refused",
			func(s *State) float64 { return float64(s.Health.Refused) }),
		of("server.started", measure.Level, measure.Nanoseconds,
			"start of the recording, since the Unix epoch",
			func(s *State) float64 { return float64(s.Health.Started) }),
		of("server.tick", measure.Level, measure.Nanoseconds,
			"the newest recorded tick, since the Unix epoch",
			func(s *State) float64 { return float64(s.Newest) }),
		of("server.troubles", measure.Level, measure.Count, "current problems of the recording",
			func(s *State) float64 { return float64(len(s.Health.Problems)) }),
	}
}

// Stats implements measure.Source.
func (s *Source) Stats() (all []measure.Stat) {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	all = []measure.Stat{
		{ID: Findings, Kind: measure.Level, Unit: measure.Ratio, Fold: measure.Max,
			Help: "confidence of each finding of the newest diagnosis, 0 to 1",
			Fields: []measure.Field{
				word("rule", "the rule that found it: link-saturated"),
				word("kind", "what the culprit is: process interface peer cpu disk table cgroup "+
					"host memory function"),
				word("culprit", "its name"),
				word("severity", "high medium low"),
			}},
		{ID: "server.cost", Kind: measure.Level, Unit: measure.Ratio, Fold: measure.Sum,
			Help:   "server.cpu by its parts",
			Fields: []measure.Field{word("part", "part of the server")}},
		{ID: "server.info", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Help:   "1: the running version",
			Fields: []measure.Field{word("version", "version of culprit")}},
	}
	for _, q := range quantities() {
		all = append(all, q.stat)
	}
	return all
}

// Run implements measure.Source. The error is the sink's, or of a step that is not positive.
func (s *Source) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	step := queries[0].Step
	if step <= 0 {
		return fmt.Errorf("run %d queries: step %v is not positive", len(queries), step)
	}
	r := reading{wanted: map[measure.StatID]bool{}, counted: map[measure.StatID]float64{}}
	for _, q := range queries {
		r.wanted[q.Stat] = true
	}
	plan := kernel.PlanTicks(ctx, step, queries[0].Over.Start)
	for first := true; plan.Wait(); first = false {
		batches := r.read(s.Read(), time.Now())
		if first { // it is the base of the counters
			continue
		}
		if err := sink.Accept(batches); err != nil {
			return err
		}
	}
	return nil
}

// reading is one run.
type reading struct {
	wanted  map[measure.StatID]bool
	counted map[measure.StatID]float64 // counters at the previous reading
	before  time.Time
}

// read returns the batches of one reading. They are not used again.
func (r *reading) read(s State, now time.Time) (out []*measure.Batch) {
	over := measure.Interval{End: measure.Time(now.UnixNano())}
	over.Start = over.End
	if !r.before.IsZero() {
		over.Start = over.End.Add(-measure.Span(now.Sub(r.before)))
	}
	r.before = now
	batch := func(id measure.StatID, by ...string) *measure.Batch {
		b := &measure.Batch{Stat: id, By: by, Over: over}
		if r.wanted[id] {
			out = append(out, b)
		}
		return b
	}
	findings := batch(Findings, "rule", "kind", "culprit", "severity")
	if !s.Diagnosed {
		findings.Over.Start = over.End
		findings.Notes = []string{"there is no diagnosis yet"}
	}
	for _, f := range strongest(s.Findings) {
		put(findings, f.Confidence, f.Rule, f.Kind, f.Culprit, f.Severity)
	}
	costs := batch("server.cost", "part")
	for _, c := range s.Health.Costs {
		put(costs, c.CPU, c.Name)
	}
	put(batch("server.info", "version"), 1, s.Version)
	for _, q := range quantities() {
		v := q.value(&s)
		if q.stat.Kind == measure.Delta {
			total := v
			v -= r.counted[q.stat.ID]
			r.counted[q.stat.ID] = total
		}
		put(batch(q.stat.ID), v)
	}
	return out
}

// put appends a row with labels of its own.
func put(b *measure.Batch, v float64, labels ...string) {
	for _, l := range labels {
		b.Keys = append(b.Keys, measure.Label(len(b.Labels)))
		b.Labels = append(b.Labels, l)
	}
	b.Values = append(b.Values, v)
}

// strongest returns at most MaxFindings findings with distinct labels: of equal labels the one with
// the highest confidence, and of too many the most severe ones.
func strongest(all []Finding) (out []Finding) {
	all = slices.Clone(all)
	for i := range all {
		all[i].Culprit = shorten(all[i].Culprit)
		if math.IsNaN(all[i].Confidence) {
			all[i].Confidence = 0
		}
	}
	order := []string{"low", "medium", "high"}
	severity := func(f Finding) int { return slices.Index(order, f.Severity) }
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(severity(b)-severity(a), cmp.Compare(b.Confidence, a.Confidence))
	})
	seen := map[Finding]bool{}
	for _, f := range all {
		key := f
		key.Confidence = 0
		if !seen[key] && len(out) < MaxFindings {
			seen[key] = true
			out = append(out, f)
		}
	}
	return out
}

// shorten cuts a name to maxName bytes, between two characters.
func shorten(s string) string {
	if len(s) <= maxName {
		return s
	}
	n := maxName - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
