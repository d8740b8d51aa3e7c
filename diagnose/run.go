package diagnose

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// hostSentence is the query of the host name.
const hostQuery = "system.info by host"

// Run runs a set of rules over a time range and returns their report. The reader answers from what
// was measured already: to measure first, run Queries for as long as over. A step of one second is
// best. A zero over is all that the reader has.
//
// The error is that of the context, or a query of a rule that cannot be parsed. A query without an
// answer is a Missing in the report.
func Run(ctx context.Context, r measure.Reader, set RuleSet, over measure.Interval,
	step measure.Span) (*Report, error) {
	rules := set.Rules
	traced := map[string]bool{}
	for _, rule := range rules {
		for _, list := range [][]string{rule.Traced, rule.Sampled} {
			for _, s := range list {
				traced[s] = true
			}
		}
	}
	tables, notes, sampled, err := ask(ctx, r, Queries(rules), traced, over, step)
	if err != nil {
		return nil, err
	}
	rep := &Report{Start: over.Start, End: over.End, Findings: []Finding{}, Checked: []string{},
		Fine: []Exoneration{}, Doubtful: []Doubt{},
		Missing: []Missing{}, Notes: notes}
	if t := tables[hostQuery]; t != nil {
		t.filled()
		if rep.Start == 0 && rep.End == 0 {
			rep.Start, rep.End = t.start, t.start.Add(t.Step*measure.Span(len(t.Seconds)))
			rep.Start = min(rep.Start, rep.End.Add(-longest(tables)))
		}
		if len(t.Rows) > 0 {
			rep.Host = phrase.Clean(t.Rows[len(t.Rows)-1].Word("host"))
		}
	}
	byQuery := func(query string) *Table {
		if t := tables[query]; t != nil {
			return t.filled()
		}
		return &Table{Why: "no rule asks it"}
	}
	if set.Notes != nil {
		rep.Notes = append(rep.Notes, set.Notes(byQuery)...)
	}
	var looks []*Look
	for i := range rules {
		l := look(&rules[i], tables)
		looks = append(looks, l)
		if len(l.missing) == 0 {
			rules[i].Check(l)
		}
	}
	settle(rep, set, looks, byQuery)
	rep.Notes = slices.DeleteFunc(rep.Notes, repeatsMissing(looks, tables))
	rep.Notes = append(rep.Notes, unreadNotes(rep, tables)...)
	if restsOn(rep.Findings, measure.StackSamples) {
		for _, n := range sampled { // they concern shares of samples only
			if !slices.Contains(rep.Notes, n) {
				rep.Notes = append(rep.Notes, n)
			}
		}
	}
	return rep, nil
}

// longest returns the longest measured time of any statistic. Statistics are read one after the
// other. On a machine that waits for CPUs the first reading takes seconds, and the others began
// before the last.
func longest(tables map[string]*Table) measure.Span {
	most := 0.0
	for _, t := range tables {
		sum := 0.0
		for _, sec := range t.Seconds {
			sum += sec
		}
		most = max(most, sum)
	}
	return measure.Span(most * float64(measure.Second))
}

// unreadNotes returns the notes about processes that could not be read, each once, and only where a
// finding rests on a statistic that has one.
func unreadNotes(rep *Report, tables map[string]*Table) (notes []string) {
	for _, t := range tables {
		if t.unread != "" && !slices.Contains(notes, t.unread) &&
			restsOn(rep.Findings, t.Query.Stat) {
			notes = append(notes, t.unread)
		}
	}
	slices.Sort(notes)
	return notes
}

// restsOn reports whether any finding has evidence from a statistic.
func restsOn(all []Finding, id measure.StatID) bool {
	return slices.ContainsFunc(all, func(f Finding) bool {
		return slices.ContainsFunc(f.Evidence, func(e Evidence) bool {
			return e.Statistic == string(id) || strings.HasPrefix(e.Statistic, string(id)+" ")
		})
	})
}

// look returns the view of one rule. Required queries without an answer are recorded as missing.
func look(rule *Rule, tables map[string]*Table) *Look {
	l := &Look{rule: rule, tables: tables}
	lack := func(text, why string) {
		l.unchecked = true
		l.missing = append(l.missing,
			Missing{Rule: rule.ID, Checks: rule.Checks, Statistic: text, Why: why})
	}
	finds := rule.Finds
	if len(rule.Needs)+len(finds) == 0 { // it has nothing else
		finds = rule.Traced
		for _, s := range finds {
			t := tables[s]
			switch {
			case t.Have():
				continue
			case t.Why == neverRecorded:
				lack("", string(t.Query.Stat)+
					" is recorded only on request; `culprit diagnose` measures it")
				l.missing[0].Record = slices.Clone(rule.Traced)
			default:
				lack("", t.Why)
			}
			return l
		}
	}
	for i, list := range [][]string{rule.Needs, finds} {
		for _, s := range list {
			t := tables[s]
			measured := t.measured()
			switch {
			case !t.Have():
				lack(s, t.Why)
			case measured < threshold.LeastCells:
				lack(s, fmt.Sprintf("measured %s; a rule needs %d measurements",
					phrase.Plural(measured, "time", "times"), threshold.LeastCells))
			case i == 0 && t.rows == 0:
				lack(s, "this kernel does not count it, or it cannot be read from here")
			case i == 0 && !t.numeric, t.rows > 0 && !t.numeric:
				lack(s, "it has no numbers")
			}
		}
	}
	return l
}

// ask asks all queries and aligns their answers on one grid. traced are queries whose missing
// answers are not noted.
func ask(ctx context.Context, r measure.Reader, queries []string, traced map[string]bool,
	over measure.Interval, step measure.Span) (tables map[string]*Table, notes, sampled []string,
	err error) {
	type asked struct {
		text   string
		query  measure.Query
		answer *measure.Answer // without its series
		table  *Table          // on the grid of the answer
		why    string
	}
	var all []asked
	said := map[string]bool{}
	notes = []string{}
	unread := map[measure.StatID]string{} // notes about processes that could not be read
	note := func(s string) {
		if s = phrase.Printable(s); !said[s] {
			said[s] = true
			notes = append(notes, s)
		}
	}
	for _, s := range queries {
		q, err := measure.ParseQuery(s)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("read the sentence of a rule: %w", err)
		}
		q.Over, q.Step = over, step
		one := asked{text: s, query: q}
		var a *measure.Answer
		if o, ok := r.(measure.Outliner); ok {
			if outline, rows, numbers, ok := o.Outline(ctx, q); ok {
				if a = outline; len(a.Elapsed) > 0 {
					one.table = outlined(a, q)
					one.table.rows, one.table.numeric = rows, numbers
					one.table.fill = func() (*measure.Answer, error) { return r.Ask(ctx, q) }
				}
			}
		}
		if a == nil {
			a, err = r.Ask(ctx, q)
		}
		if ctx.Err() != nil {
			return nil, nil, nil, context.Cause(ctx)
		}
		one.answer = a
		switch {
		case err != nil:
			one.answer, one.why = nil, because(err)
		case a == nil || len(a.Elapsed) == 0:
			one.answer, one.why = nil, "nothing was measured"
		}
		quiet := (traced[s] || q.Stat == measure.StackSamples) && a != nil && len(a.Series) == 0 &&
			(one.table == nil || one.table.rows == 0)
		add := note
		if q.Stat == measure.StackSamples {
			add = func(n string) { sampled = append(sampled, phrase.Printable(n)) }
		}
		if a != nil && err == nil && !quiet {
			for _, n := range a.Notes {
				if measure.AboutUnreadProcesses(n) {
					unread[q.Stat] = phrase.Printable(n)
					continue
				}
				add(n)
			}
			for _, loss := range a.Loss {
				if loss.Events > 0 {
					add(fmt.Sprintf("%s: %d lost: %s", q.Stat, loss.Events, loss.Reason))
				} else {
					add(fmt.Sprintf("%s: something was lost: %s", q.Stat, loss.Reason))
				}
			}
		}
		if one.answer != nil && one.table == nil {
			// Convert at once: a series uses twice the memory of a row, and large machines have
			// hundreds of thousands.
			one.table = tabulate(one.answer, q)
			one.answer.Series = nil
		}
		all = append(all, one)
	}
	// A source without a statistic returns cells in which nothing was measured, and notes with the
	// reason. A measured statistic without rows is empty, whatever its notes state. A note that is
	// also on an answer with rows is about something else.
	general := map[string]bool{}
	for _, one := range all {
		if one.answer != nil && one.table.rows > 0 {
			for _, n := range one.answer.Notes {
				general[n] = true
			}
		}
	}
	for i, one := range all {
		if one.answer == nil || one.table.rows > 0 || one.table.measured() > 0 {
			continue
		}
		var why []string
		for _, n := range one.answer.Notes {
			if !general[n] && !measure.AboutUnreadProcesses(n) {
				why = append(why, n)
			}
		}
		all[i].why = phrase.Printable(strings.Join(why, "; "))
	}
	// The grid spans from the earliest start to the latest end of all answers with this step.
	var start, end measure.Time
	for _, one := range all {
		if a := one.answer; a != nil && a.Step > 0 && (step == 0 || a.Step == step) {
			step = a.Step
			if start == 0 || a.Start < start {
				start = a.Start
			}
			end = max(end, a.Over().End)
		}
	}
	cells := 0
	if step > 0 && end > start {
		cells = int(min(int64(end.Sub(start)/step), mostCells))
	}
	tables = map[string]*Table{}
	for _, one := range all {
		t := &Table{Query: one.query, Seconds: make([]float64, cells), start: start, Step: step}
		if one.table != nil {
			t = one.table.onto(start, step, cells)
		}
		t.Why, t.unread = one.why, unread[one.query.Stat]
		if one.answer != nil {
			t.notes = one.answer.Notes
		}
		tables[one.text] = t
	}
	return tables, notes, sampled, nil
}

// mostCells bounds the memory of a diagnosis: a week of seconds. A longer time needs a longer step.
const mostCells = 7 * 24 * 3600

// neverRecorded is the reason of a query whose statistic a recording does not have.
const neverRecorded = "it was never recorded"

// because returns the reason of a refused query in a few words.
func because(err error) string {
	var d *measure.Diagnostic
	switch {
	case errors.Is(err, measure.ErrNeverRecorded):
		return neverRecorded
	case errors.As(err, &d):
		return "not known here: " + phrase.Printable(d.Message)
	case errors.Is(err, measure.ErrUnsupported) && errors.Unwrap(err) == nil:
		return "unsupported by this kernel" // the bare sentinel contains no more
	}
	return phrase.Printable(err.Error())
}
