package trace

import (
	"fmt"
	"slices"
	"strings"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/measure"
)

// A Definition is a statistic that is read from an aggregation of a script.
type Definition struct {
	Stat        measure.Stat
	Aggregation string // its name, without @
	// Value returns a row's value from its data. nil: the aggregating function decides.
	Value func(data []int64) float64
	// Words are functions by field: each returns the word for a value of the script. A field
	// without one has the value itself.
	Words map[string]func(string) string
	// Fixed is, by field that is no key, the value of all rows.
	Fixed map[string]string
}

// HasAggregation reports whether the script adds to an aggregation of this name.
func (s *Source) HasAggregation(name string) bool {
	return slices.ContainsFunc(
		s.session.aggs.all, func(a *Aggregate) bool { return a.Name == name },
	)
}

// Define replaces the statistics of the script by others. It fails when an aggregation does not
// exist. Call it before Live.
func (s *Source) Define(definitions []Definition) error {
	s.stats, s.aggs, s.reads = nil, nil, nil
	for _, d := range definitions {
		i := slices.IndexFunc(
			s.session.aggs.all, func(a *Aggregate) bool { return a.Name == d.Aggregation },
		)
		if i < 0 {
			return fmt.Errorf("nothing adds to @%s", d.Aggregation)
		}
		s.stats, s.aggs = append(s.stats, d.Stat), append(s.aggs, s.session.aggs.all[i])
		s.reads = append(s.reads, reads{value: d.Value, words: d.Words, fixed: d.Fixed})
	}
	return nil
}

// reads is how a statistic is read from its aggregation. The fields are those of Definition.
type reads struct {
	value func(data []int64) float64
	words map[string]func(string) string
	fixed map[string]string
}

// describe derives the statistics from the script's aggregations.
func (s *Source) describe(c *Compiled) {
	meant := newMeanings(c.Program)
	var names []string
	for i, a := range c.Program.Aggs {
		used := uses(c.Program, a)
		if len(used) == 0 {
			continue
		}
		st := measure.Stat{Program: s.text}
		what := format.Function(a.Func).String()
		name := a.Name
		if name == "" {
			name = what
		}
		name = distinct(strings.ToLower(name), names)
		names = append(names, name)
		st.ID = measure.StatID("trace." + s.name + "." + name)
		of := ""
		for n, u := range used {
			unit := measure.Unit("")
			if u.add.Value != nil {
				at := u.add.Value.Place()
				of = c.Program.Text[at.From:at.To]
				unit = meant.of(c.Program, u.clause, u.add.Value)
			}
			if n > 0 && unit != st.Unit {
				unit = ""
			}
			st.Unit = unit
			if unit == "" && n > 0 {
				break
			}
		}
		if st.Unit == "" {
			st.Unit = measure.Count
		}
		st.Help = fmt.Sprintf("@%s of the D program %s: ", a.Name, s.name)
		switch a.Func {
		case check.Count:
			st.Kind, st.Unit, st.Sparse = measure.Delta, measure.Events, true
			st.Help += "how often the clause ran"
		case check.Sum:
			st.Kind, st.Sparse, st.Signed = measure.Delta, true, true
			st.Help += "the sum of " + of
		case check.Min, check.Max, check.Avg, check.Stddev:
			st.Kind = measure.Level
			word := ""
			switch a.Func {
			case check.Min:
				st.Fold, word = measure.Min, "the least"
			case check.Max:
				st.Fold, word = measure.Max, "the greatest"
			case check.Avg:
				st.Fold, word = measure.Mean, "the mean"
			case check.Stddev:
				st.Fold, word = measure.Mean, "the standard deviation"
			}
			st.Help += word + " of " + of + " in each interval"
		default:
			st.Kind, st.Sparse = measure.Dists, true
			st.Help += "the distribution of " + of +
				"; sums and means are computed from the middles of its buckets"
		}
		var fields []string
		for k, t := range a.Keys {
			f := measure.Field{Type: measure.Word}
			f.Name, f.Help = key(c.Program.Text, used, k)
			f.Name = distinct(f.Name, fields)
			if _, ok := t.(*check.Int); ok {
				f.Type = measure.Number
			}
			fields = append(fields, f.Name)
			st.Fields = append(st.Fields, f)
		}
		s.stats = append(s.stats, st)
		s.aggs = append(s.aggs, s.session.aggs.all[i])
	}
}

// A use is a statement that adds to an aggregation.
type use struct {
	clause *check.Clause
	add    *check.Aggregate
}

func uses(p *check.Program, a *check.Aggregation) (out []use) {
	for _, c := range p.Clauses {
		statements(c.Body, func(s check.Stmt) {
			if add, ok := s.(*check.Aggregate); ok && add.Agg == a {
				out = append(out, use{c, add})
			}
		})
	}
	return out
}

// key returns the name and the help of field k: both from the first expression that the script uses
// for it and that is no constant.
func key(text string, used []use, k int) (name, help string) {
	for _, u := range used {
		x := u.add.Keys[k]
		help = strings.Join(strings.Fields(text[x.Place().From:x.Place().To]), " ")
		if !constant(x) {
			return word(help), help
		}
	}
	return "what", help
}

func constant(x check.Expr) bool {
	switch x := x.(type) {
	case *check.Const, *check.Text:
		return true
	case *check.Convert:
		return constant(x.X)
	}
	return false
}
