package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/view"
	"culprit/view/heat"
	"culprit/view/show"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// heatLines is the number of lines of a recorded time without an interval.
const heatLines = 24

const heatHelp = `Shows where the values of a distribution lie, such as latencies: a line per interval, values from
left to right on a log axis, the shade for the number of events. A line has the number of values,
the 50th and the 99th percentile and the maximum. Values are known to a quarter of each power of
two. All rows of the query count together; select some with where.

Without an interval it shows one line per second until Ctrl-C, and of a recorded time at most 24
lines. A last line has all intervals. --quantize prints one distribution for each row of the query
instead, as the quantize() of DTrace: of one interval, or of the whole recorded time.

With --from and --to, or --at, it shows what culprit serve recorded. Time that was not recorded is
reported and never shown as 0.`

// heatCommand is the state of culprit heat.
type heatCommand struct {
	flags    toolFlags
	quantize bool
	ascii    bool
}

// heat returns the command that shows the distribution of a statistic over time.
func (p Program) heat() *cobra.Command {
	h := &heatCommand{flags: toolFlags{plan: showOptions{step: measure.Second}}}
	c := &cobra.Command{
		Use:   "heat QUERY [interval [count]]",
		Short: "latencies over time as a heat map, such as disk.latency",
		Long:  reflow(heatHelp, helpWidth),
		Example: examples([]view.Example{
			{Line: "culprit heat disk.latency 1", Means: "latencies of disk requests, each second"},
			{
				Line:  `culprit heat 'syscall.latency where process = "nginx"' --from -1h`,
				Means: "system calls of nginx in the last recorded hour",
			},
			{
				Line:  "culprit heat 'runqueue.latency by process' 10 --quantize",
				Means: "how long each program waited for a CPU in ten seconds",
			},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&h.quantize, "quantize", false, "one distribution per row, as DTrace's quantize()")
	f.BoolVar(&h.ascii, "ascii", false, "shades as . + * # (default without a UTF-8 locale)")
	f.BoolVar(&h.flags.json, "json", false, "one JSON object per interval, on one line")
	f.BoolVar(&h.flags.csv, "csv", false, "comma-separated values, a line per bucket")
	f.StringVar(&h.flags.look.Netns, "netns", "", "network namespace: a name, or all")
	h.flags.past.flags(f, true)
	h.flags.past.registerCompletions(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("which statistic? `culprit stat --list latency` shows some")
		}
		if !c.Flags().Changed("netns") && selectsNetns(args[0]) {
			h.flags.look.Netns = "all"
		}
		return h.run(c.Context(), p, args)
	}
	return c
}

func (h *heatCommand) run(ctx context.Context, p Program, args []string) error {
	m := &h.flags
	if err := m.times(args[1:]); err != nil {
		return err
	}
	machine, done, err := m.open(p, args[1:])
	if err != nil {
		return err
	}
	defer done()
	if m.plan.past && len(args) == 1 && !h.quantize {
		m.plan.step = stepOfLines(m.plan.step)
	}
	if h.quantize && m.plan.count == 0 && !m.plan.past {
		m.plan.count = 1
	}
	q, err := machine.Parse(args[0])
	if err != nil {
		return err
	}
	if err := hasDistributions(machine, q.Stat); err != nil {
		return err
	}
	q.Step = m.plan.step
	out := h.printer(p.Terminal)
	notes := output.NewNotes(p.Terminal.Err)
	defer notes.Finish()
	shown := 0
	err = machine.Watch(ctx, []measure.Query{q}, func(t *measure.Tick) error {
		tab := &view.Table{View: "heat", Over: t.Over, Loss: t.Answers[0].Loss,
			Notes: t.Answers[0].Notes}
		if m.plan.format == "" {
			notes.Print(tab)
		}
		if err := out.tick(t.Answers[0], tab); err != nil {
			return err
		}
		if shown++; m.plan.count > 0 && shown >= m.plan.count {
			return show.ErrCountReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, show.ErrCountReached) {
		return err
	}
	return out.end()
}

// stepOfLines returns the shortest step of whole seconds that divides a time into at most heatLines
// intervals, rounded up to a length that people use.
func stepOfLines(over measure.Span) measure.Span {
	least := (over + heatLines - 1) / heatLines
	for _, s := range []measure.Span{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600} {
		if s*measure.Second >= least {
			return s * measure.Second
		}
	}
	const hour = 3600 * measure.Second
	return (least + hour - 1) / hour * hour
}

// hasDistributions fails unless the statistic exists and has distributions.
func hasDistributions(m Machine, id measure.StatID) error {
	var names []string
	for _, st := range m.Stats() {
		if st.Kind == measure.Dists {
			names = append(names, string(st.ID))
		}
		if st.ID == id && st.Kind != measure.Dists {
			return usagef("%s has no distributions, its kind is %s; `culprit stat` shows it",
				id, st.Kind)
		}
		if st.ID == id {
			return nil
		}
	}
	return fmt.Errorf("statistic %s%s: %w", id, didYouMean(string(id), names),
		measure.ErrUnsupported)
}

// heatPrinter prints the intervals of culprit heat.
type heatPrinter interface {
	tick(a *measure.Answer, t *view.Table) error
	end() error
}

func (h *heatCommand) printer(t Terminal) heatPrinter {
	switch {
	case h.flags.plan.format == "json":
		return &heatTables{print: &output.JSON{Out: t.Out}, json: true}
	case h.flags.plan.format == "csv":
		return &heatTables{print: &output.CSV{Out: t.Out}}
	case h.quantize:
		return &quantizeText{out: t.Out}
	}
	text := heat.Text{Width: t.Width, Colour: t.Colour, ASCII: h.ascii || !hasUTF8()}
	return &heatText{out: t.Out, text: text}
}

// hasUTF8 reports whether the locale's characters are UTF-8; see setlocale(3).
func hasUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToUpper(os.Getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return false
}

// heatText prints a line per interval.
type heatText struct {
	out   *os.File
	text  heat.Text
	whole heat.Column
	unit  measure.Unit
	lines int
	until measure.Time
}

func (p *heatText) tick(a *measure.Answer, t *view.Table) error {
	m, err := heat.New(a, 1)
	if err != nil {
		return err
	}
	c := &heat.Column{}
	if len(m.Columns) > 0 {
		c = &m.Columns[0]
	}
	p.unit, p.until = m.Unit, t.Over.End
	p.lines++
	if p.whole.Dist.Count() == 0 {
		p.whole.Dist.Base = c.Dist.Base
	}
	p.whole.Elapsed += c.Elapsed
	p.whole.Dist.Merge(c.Dist)
	_, err = p.out.Write(p.text.Append(nil, t.Over.End, c, m.Unit))
	return err
}

// end prints the line of all intervals.
func (p *heatText) end() error {
	if p.lines == 0 || p.whole.Elapsed == 0 {
		return errNotRecorded
	}
	if p.lines == 1 {
		return nil
	}
	_, err := p.out.Write(p.text.AppendNamed(nil, "In all", &p.whole, p.unit))
	return err
}

// quantizeText prints the distribution of each row, that with the fewest values first, as DTrace
// prints an aggregation.
type quantizeText struct {
	out     *os.File
	printed bool
}

func (p *quantizeText) tick(a *measure.Answer, t *view.Table) error {
	var b strings.Builder
	if p.printed {
		b.WriteString("\n")
	}
	p.printed = true
	fmt.Fprintf(&b, "%s  %s, %s, %s\n", t.Over.End.AsTime().Local().Format("15:04:05"),
		a.Query.Stat, a.Unit, strconv.FormatFloat(t.Over.Seconds(), 'g', 4, 64)+" s")
	rows := heat.Rows(a)
	for _, r := range rows {
		if len(a.Query.By) > 0 {
			b.WriteString("\n  " + view.Clean(strings.Join(r.Key, "  ")) + "\n")
		}
		b.WriteString(heat.Quantize(r.Dist))
	}
	if len(rows) == 0 && (len(a.Elapsed) == 0 || a.Elapsed[0] == 0) {
		b.WriteString("not measured\n")
	} else if len(rows) == 0 {
		b.WriteString("no values: measured, nothing matched\n")
	}
	_, err := p.out.WriteString(b.String())
	return err
}

func (p *quantizeText) end() error {
	if !p.printed {
		return errNotRecorded
	}
	return nil
}

// heatTables prints the buckets of each interval: as JSON in one row with the percentiles, as CSV
// in a row per bucket.
type heatTables struct {
	print output.Printer
	json  bool
}

func (p *heatTables) tick(a *measure.Answer, t *view.Table) error {
	m, err := heat.New(a, 1)
	if err != nil {
		return err
	}
	if len(m.Columns) > 0 && m.Columns[0].Elapsed > 0 {
		fillHeatTable(t, &m.Columns[0], m.Unit, p.json)
	}
	return p.print.Table(t)
}

func (p *heatTables) end() error { return nil }

func fillHeatTable(t *view.Table, c *heat.Column, unit measure.Unit, json bool) {
	buckets := heat.Buckets(&c.Dist)
	if !json {
		t.Columns = []view.Column{{Name: "low"}, {Name: "high"}, {Name: "events"}}
		for _, b := range buckets {
			cells := []view.Cell{view.N(b.Low), view.N(b.High), view.N(float64(b.Events))}
			t.Rows = append(t.Rows, view.Row{Cells: cells})
		}
		return
	}
	list := []byte{'['}
	for i, b := range buckets {
		if i > 0 {
			list = append(list, ',')
		}
		list = view.AppendNumber(append(list, '['), b.Low)
		list = view.AppendNumber(append(list, ','), b.High)
		list = strconv.AppendUint(append(list, ','), b.Events, 10)
		list = append(list, ']')
	}
	l := c.Lines()
	t.Columns = []view.Column{
		{Name: "unit"}, {Name: "values"}, {Name: "mean"}, {Name: "p50"}, {Name: "p90"},
		{Name: "p99"}, {Name: "max"}, {Name: "buckets"},
	}
	t.Rows = []view.Row{{Cells: []view.Cell{
		view.T(string(unit)), view.N(float64(c.Dist.Count())), view.N(c.Dist.Mean()), view.N(l.P50),
		view.N(l.P90), view.N(l.P99), view.N(l.Max),
		{Kind: view.IsJSON, Text: string(append(list, ']'))},
	}}}
}
