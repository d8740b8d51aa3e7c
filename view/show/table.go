package show

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/term/output"
)

// Table is a tool with its options, and how its tables are sorted and shortened.
type Table struct {
	Tool    *view.Tool
	Options view.Options
	Step    measure.Span // length of an interval
	SortBy  string       // name of a column; "": the order of the tool
	Reverse bool
	MaxRows int  // 0: all
	Width   int  // columns of the terminal; statistics and notes of wider ones are left out
	Visible bool // ask only for what Width shows
	Past    bool // the machine is a recording
}

// Queries returns the queries of the tool with their step. The error is a *measure.Diagnostic.
func (t *Table) Queries(m Machine) ([]measure.Query, error) {
	texts := t.Tool.Ask(t.Options)
	if t.Visible {
		texts = t.Tool.VisibleQueries(t.Options, t.Width)
	}
	queries := make([]measure.Query, 0, len(texts))
	for _, text := range texts {
		q, err := m.Parse(text)
		if err != nil {
			return nil, err
		}
		q.Step = t.Step
		queries = append(queries, q)
	}
	return queries, nil
}

// Of returns the table of a frame, sorted and shortened. The error says that there is no column
// SortBy.
func (t *Table) Of(f *view.Frame) (*view.Table, error) {
	if t.SortBy == "" {
		f.MaxRows = max(0, t.MaxRows)
	}
	tab := t.Tool.Table(t.Options, f)
	tab.Over, tab.Loss = f.Over, f.Losses()
	tab.Notes = append(tab.Notes, f.Notes(t.Tool.MinWidth, t.Width)...)
	if t.SortBy != "" {
		i := tab.Column(t.SortBy)
		if i < 0 {
			return nil, UnknownColumn(tab, t.SortBy)
		}
		output.SortRows(tab, i, t.Reverse)
	}
	output.LimitRows(tab, t.MaxRows)
	return tab, nil
}

// First returns the tables of the first n intervals, fewer if a recording has fewer. A gap of a
// recording is a table without rows, with the reason in its notes. The error is a UsageError, a
// *measure.Diagnostic or that of the machine; it is the context's if that ended before.
func (t *Table) First(ctx context.Context, m Machine, n int) ([]*view.Table, error) {
	if err := t.CheckNames(ctx, m); err != nil {
		return nil, err
	}
	queries, err := t.Queries(m)
	if err != nil {
		return nil, err
	}
	var all []*view.Table
	err = m.Watch(ctx, queries, func(tick *measure.Tick) error {
		for i, a := range tick.Answers {
			tick.Answers[i] = a.StacksAsText(t.Tool.Stack)
		}
		f := &view.Frame{Over: tick.Over, Answers: tick.Answers}
		tab := t.Gap(f)
		if !t.Past || !IsGap(tick) {
			var err error
			if tab, err = t.Of(f); err != nil {
				return err
			}
		}
		if all = append(all, tab); len(all) >= n {
			return ErrCountReached
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, ErrCountReached):
		return nil, err
	case len(all) < n && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case len(all) == 0:
		return nil, Usagef("nothing was recorded in this time")
	}
	return all, nil
}

// Gap returns the table of an interval in which nothing was recorded: no rows, and the reason.
func (t *Table) Gap(f *view.Frame) *view.Table {
	return &view.Table{
		View: t.Tool.Name, Over: f.Over, Loss: f.Losses(), Notes: f.Notes(nil, math.MaxInt),
	}
}

// CheckNames fails if a flag names something that does not exist on this machine. It measures for a
// moment before the tool starts, or reads the whole time range of a recording.
func (t *Table) CheckNames(ctx context.Context, m Machine) error {
	for i := range t.Tool.Flags {
		fl := &t.Tool.Flags[i]
		if fl.NamesQuery == "" || !t.Options.Has(fl.Name) {
			continue
		}
		known, err := t.namesOf(ctx, m, fl)
		if err != nil {
			return err
		}
		name := view.Unknown(t.Options[fl.Name], known)
		switch {
		case name == "" || ctx.Err() != nil:
		case t.Past:
			return Usagef("--%s: there was no %s then%s", fl.Name, strconv.Quote(name),
				DidYouMean(name, known))
		default:
			return Usagef("--%s: there is no %s here%s", fl.Name, strconv.Quote(name),
				DidYouMean(name, known))
		}
	}
	return nil
}

// namesOf returns the names that a flag may have. In a gap of a recording these are the given ones:
// what existed then is unknown, and the table reports the gap.
func (t *Table) namesOf(ctx context.Context, m Machine, fl *view.Flag) ([]string, error) {
	var queries []measure.Query
	for _, text := range []string{fl.NamesQuery, fl.AliasQuery} {
		if text == "" {
			continue
		}
		q, err := m.Parse(text)
		if err != nil {
			return nil, err
		}
		q.Step = 10 * measure.Millisecond
		if t.Past {
			q.Step = 0
		}
		queries = append(queries, q)
	}
	var known []string
	err := m.Watch(ctx, queries, func(tick *measure.Tick) error {
		if t.Past && IsGap(tick) {
			known = slices.Clone(t.Options[fl.Name])
		}
		for _, a := range tick.Answers {
			for i := range a.Series {
				known = append(known, a.Label(i, 0))
			}
		}
		return ErrCountReached
	})
	if err != nil && !errors.Is(err, ErrCountReached) {
		return nil, err
	}
	return known, nil
}

// UnknownColumn returns the error for a column that a table does not have.
func UnknownColumn(t *view.Table, name string) error {
	var names []string
	for _, c := range t.Columns {
		switch {
		case c.Name != "":
			names = append(names, c.Name)
		case c.Head != "":
			names = append(names, c.Head)
		}
	}
	if near := measure.Nearest(name, names); near != "" {
		return Usagef("there is no column %q to sort by; did you mean %s?", name, near)
	}
	return Usagef("there is no column %q to sort by; there are %s", name, strings.Join(names, " "))
}
