package term

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
)

// Exit statuses: 0 done, 1 could not, 2 wrong usage.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is what the user wrote wrong; it exits 2.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errEnough ends a watch when the count is reached.
var errEnough = errors.New("enough")

// plan is how often and how a tool is shown.
type plan struct {
	step    measure.Span
	count   int // 0 = until interrupted
	format  string
	sortBy  string
	reverse bool
	wide    bool
	rows    int // most rows, 0 = all; below 0 = the tool's own on a terminal, all elsewhere
}

// parseInterval reads "1", "0.5" or "250ms": the seconds between two lines. At least 10 ms, at most a day.
func parseInterval(text string) (measure.Span, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	span := measure.Span(seconds * 1e9)
	if err != nil {
		d, derr := time.ParseDuration(text)
		if derr != nil {
			return 0, usagef("interval %q is no number of seconds (write 1, 0.5 or 250ms)", text)
		}
		span = measure.Span(d)
	}
	if math.IsNaN(seconds) || span < 10*measure.Millisecond || span > 24*3600*measure.Second {
		return 0, usagef("interval %q is out of range: 10ms to 24h", text)
	}
	return span, nil
}

// parseTimes reads [interval [count]].
func parseTimes(args []string, p *plan) error {
	if len(args) > 2 {
		return usagef("unexpected %q after interval and count", args[2])
	}
	if len(args) > 0 {
		step, err := parseInterval(args[0])
		if err != nil {
			return err
		}
		p.step, p.count = step, 0
	}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < 1 {
			return usagef("count %q is no positive number", args[1])
		}
		p.count = n
	}
	return nil
}

// show runs a tool until its count is reached or the context ends; then it prints the average of what was shown.
func show(ctx context.Context, m Machine, t Terminal, tool *view.Tool, o view.Options, p plan) error {
	if err := checkNames(ctx, m, tool, o); err != nil {
		return err
	}
	var queries []measure.Query
	for _, sentence := range tool.Ask(o) {
		q, err := m.Parse(sentence)
		if err != nil {
			return err
		}
		q.Step = p.step
		queries = append(queries, q)
	}
	var out printer
	width := math.MaxInt // of what is shown: all columns in JSON and CSV
	switch p.format {
	case "json":
		out = &lines{t.Out}
	case "csv":
		out = &comma{out: t.Out}
	default:
		width = t.Width
		s := &screen{out: t.Out, width: t.Width, lines: t.Lines, bold: t.Colour, time: !tool.Once}
		if p.wide {
			s.width, width = math.MaxInt, math.MaxInt
		}
		out = s
	}
	aside := &asides{out: t.Err, said: map[string]bool{}, lost: map[string]uint64{}}
	defer aside.end()
	table := func(f *view.Frame) (*view.Table, error) {
		tab := tool.Table(o, f)
		tab.Over, tab.Loss, tab.Notes = f.Over, f.Losses(), append(tab.Notes, f.Notes(tool.Wide, width)...)
		if p.sortBy != "" {
			i := tab.Column(p.sortBy)
			if i < 0 {
				return nil, unknownColumn(tab, p.sortBy)
			}
			sorted(tab, i, p.reverse)
		}
		most := p.rows
		if most < 0 && p.format == "" {
			most = tool.Most
		}
		limit(tab, most)
		return tab, nil
	}
	var mean view.Mean
	n := 0
	err := m.Watch(ctx, queries, func(tick *measure.Tick) error {
		f := &view.Frame{Over: tick.Over, Answers: tick.Answers}
		tab, err := table(f)
		if err != nil {
			return err
		}
		if p.format == "" {
			aside.say(tab)
		}
		if err := out.table(tab); err != nil {
			return err
		}
		if p.count != 1 { // one interval is its own average
			mean.Add(f)
		}
		if n++; p.count > 0 && n >= p.count {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if mean.Len() > 1 {
		tab, err := table(mean.Frame())
		if err != nil {
			return err
		}
		if p.format == "" {
			aside.say(tab)
		}
		return out.mean(tab)
	}
	return nil
}

// limit keeps the first rows and all totals, and says so.
func limit(t *view.Table, most int) {
	if most <= 0 {
		return
	}
	kept, left := t.Rows[:0], 0
	for _, r := range t.Rows {
		switch {
		case r.Total:
			kept = append(kept, r)
		case most > 0:
			most--
			kept = append(kept, r)
		default:
			left++
		}
	}
	t.Rows = kept
	if left > 0 {
		t.Notes = append(t.Notes, "only the first rows are shown; -n 0 shows all")
	}
}

// checkNames says which name that a flag was given is not of this machine. It looks for an instant before the tool begins.
func checkNames(ctx context.Context, m Machine, tool *view.Tool, o view.Options) error {
	for _, fl := range tool.Flags {
		if fl.Names == "" || !o.Has(fl.Name) {
			continue
		}
		q, err := m.Parse(fl.Names)
		if err != nil {
			return err
		}
		q.Step = 10 * measure.Millisecond
		var known []string
		err = m.Watch(ctx, []measure.Query{q}, func(t *measure.Tick) error {
			for i := range t.Answers[0].Series {
				known = append(known, t.Answers[0].Label(i, 0))
			}
			return errEnough
		})
		if err != nil && !errors.Is(err, errEnough) {
			return err
		}
		if name := view.Unknown(o[fl.Name], known); name != "" && ctx.Err() == nil {
			return usagef("--%s: there is no %s here%s", fl.Name, strconv.Quote(name), didYouMean(name, known))
		}
	}
	return nil
}

func unknownColumn(t *view.Table, name string) error {
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
		return usagef("there is no column %q to sort by; did you mean %s?", name, near)
	}
	return usagef("there is no column %q to sort by; there are %s", name, strings.Join(names, " "))
}
