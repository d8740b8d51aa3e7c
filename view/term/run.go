package term

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/show"
	"culprit/view/term/output"
)

// Exit statuses: 0 done, 1 could not, 2 wrong usage.
const (
	exitFailed = 1
	exitUsage  = 2
)

// usageError is a mistake of the user. The exit status is 2.
type usageError = show.UsageError

func usagef(format string, args ...any) error { return show.Usagef(format, args...) }

// errNotRecorded is returned if nothing was recorded in the selected time.
var errNotRecorded = errors.New("there is nothing to show")

// showOptions is how often and how a tool is shown.
type showOptions struct {
	step    measure.Span
	count   int // 0: until interrupted
	format  string
	sortBy  string
	reverse bool
	wide    bool
	rows    int // maximum number of rows; 0: all; -1: MaxRows of the tool on a terminal, else all
	past    bool
}

// parseInterval parses the time between two lines: "1", "0.5" (seconds) or "250ms". It must be from
// 10 ms to a day.
func parseInterval(text string) (measure.Span, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	span := measure.Span(seconds * 1e9)
	if err != nil {
		d, derr := time.ParseDuration(text)
		if derr != nil {
			return 0, usagef("interval %q is not a number of seconds (write 1, 0.5 or 250ms)", text)
		}
		span = measure.Span(d)
	}
	if math.IsNaN(seconds) || span < 10*measure.Millisecond || span > 24*3600*measure.Second {
		return 0, usagef("interval %q is out of range: 10ms to 24h", text)
	}
	return span, nil
}

// parseTimes parses [interval [count]].
func parseTimes(args []string, p *showOptions) error {
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
			return usagef("count %q is not a positive number", args[1])
		}
		p.count = n
	}
	return nil
}

// printer returns the printer for the selected format, and the width of its tables in columns. JSON
// and CSV have no limit.
func (p *showOptions) printer(t Terminal, time bool) (out output.Printer, width int) {
	switch p.format {
	case "json":
		return &output.JSON{Out: t.Out}, math.MaxInt
	case "csv":
		return &output.CSV{Out: t.Out}, math.MaxInt
	}
	width = t.Width
	if p.wide {
		width = math.MaxInt
	}
	return &output.Text{Out: t.Out, Width: width, Lines: t.Lines, Bold: t.Colour, Time: time}, width
}

// showTool shows a tool until the count is reached or the context ends; then it prints the average.
func showTool(
	ctx context.Context, m Machine, t Terminal, tool *view.Tool, o view.Options, p showOptions,
) error {
	out, width := p.printer(t, !tool.Once)
	tables := &show.Table{
		Tool: tool, Options: o, Step: p.step, SortBy: p.sortBy, Reverse: p.reverse,
		MaxRows: p.rows, Width: width, Visible: p.format == "" && p.sortBy == "", Past: p.past,
	}
	if p.rows < 0 && p.format == "" {
		tables.MaxRows = tool.MaxRows
	}
	if err := tables.CheckNames(ctx, m); err != nil {
		return err
	}
	queries, err := tables.Queries(m)
	if err != nil {
		return err
	}
	notes := output.NewNotes(t.Err)
	defer notes.Finish()
	mean := view.Mean{Peaks: tool.Peaks, Sums: tool.Sums}
	f := &view.Frame{Buffers: &view.Buffers{}} // each table is printed before the next is made
	n, gaps := 0, []string(nil)
	err = m.Watch(ctx, queries, func(tick *measure.Tick) error {
		for i, a := range tick.Answers {
			tick.Answers[i] = a.StacksAsText(tool.Stack)
		}
		f.Over, f.Answers = tick.Over, tick.Answers
		if p.past && show.IsGap(tick) {
			tab := tables.Gap(f)
			gaps = append(gaps, tab.Notes...)
			if p.format == "json" {
				return out.Table(tab)
			}
			notes.Print(tab)
			return nil
		}
		tab, err := tables.Of(f)
		if err != nil {
			return err
		}
		if p.format == "" {
			notes.Print(tab)
		}
		if err := out.Table(tab); err != nil {
			return err
		}
		if p.count != 1 && p.format == "" { // JSON and CSV have no average
			mean.Add(f)
		}
		if n++; p.count > 0 && n >= p.count {
			return show.ErrCountReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, show.ErrCountReached) {
		return err
	}
	if n == 0 && len(gaps) > 0 {
		return errNotRecorded
	}
	if mean.Len() > 1 {
		tab, err := tables.Of(mean.Frame())
		if err != nil {
			return err
		}
		if p.format == "" {
			notes.Print(tab)
		}
		return out.Mean(tab)
	}
	return nil
}
