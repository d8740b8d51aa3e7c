package term

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// Server is a running server whose datasets can be listed and changed. Invalid queries return a
// *measure.Diagnostic; other errors say why the server refuses.
type Server interface {
	// Datasets lists the datasets, by ID.
	Datasets(ctx context.Context) ([]DatasetStatus, error)
	// Enable starts to record a query and returns the ID of its dataset. That may be an older one
	// that covers the query.
	Enable(ctx context.Context, query string, step measure.Span) (uint32, error)
	// Suspend stops the recording and keeps what was recorded.
	Suspend(ctx context.Context, id uint32) error
	// Resume continues the recording.
	Resume(ctx context.Context, id uint32) error
	// Destroy deletes the dataset and all that it holds.
	Destroy(ctx context.Context, id uint32) error
	// Discard deletes what it holds of a time range.
	Discard(ctx context.Context, id uint32, over measure.Interval) error
	// Changes lists the changes of datasets in a time range, oldest first.
	Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error)
	// Close closes the connection to the server.
	Close() error
}

// DatasetStatus is a dataset with its contents and its cost.
type DatasetStatus struct {
	measure.Dataset
	Held  measure.Stored
	Usage measure.Usage
}

// datasets returns the command that lists and changes the datasets of a server.
func (p Program) datasets() *cobra.Command {
	var dir string
	var asJSON, asCSV, wide bool
	print := func(t *view.Table) error {
		switch {
		case asJSON:
			return (&output.JSON{Out: p.Terminal.Out}).Table(t)
		case asCSV:
			return (&output.CSV{Out: p.Terminal.Out}).Table(t)
		}
		width := p.Terminal.Width
		if wide {
			width = math.MaxInt
		}
		output.NewNotes(p.Terminal.Err).Print(t)
		return (&output.Text{Out: p.Terminal.Out, Width: width, Bold: p.Terminal.Colour}).Table(t)
	}
	type serverFunc = func(c *cobra.Command, s Server, args []string) error
	with := func(do serverFunc) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			if asJSON && asCSV {
				return usagef("--json and --csv exclude each other")
			}
			s, err := p.Server(dir)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }() // only read
			return do(c, s, args)
		}
	}
	list := with(func(c *cobra.Command, s Server, args []string) error {
		all, err := s.Datasets(c.Context())
		if err != nil {
			return err
		}
		return print(datasetTable(all, args))
	})
	c := &cobra.Command{
		Use:   "datasets",
		Short: "what culprit serve records and what it costs; record more or less",
		Long: reflow(
			`Lists the datasets of the running server: for each the query that is recorded, for how long it
has values, its rows now, its values per second, and what it costs in memory, on disk and of one CPU;
-w shows all. The subcommands change them by their ID. "culprit datasets changes" shows the audit
log of all changes.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "culprit datasets", Means: "all datasets"},
			{Line: "culprit datasets list tcp", Means: "those whose query contains tcp"},
			{
				Line:  "culprit datasets add 'thread.cpu by pid,tid' --step 10s",
				Means: "record another query",
			},
			{Line: "culprit datasets suspend 7", Means: "stop one; resume continues it"},
			{
				Line:  "culprit datasets discard 7 --from -1h --to -30m",
				Means: "delete half an hour of one",
			},
		}),
		Args: cobra.ArbitraryArgs,
		RunE: listOr(list),
	}
	f := c.PersistentFlags()
	f.SortFlags = false
	f.StringVar(
		&dir, "dir", "",
		"directory of the server (default: $CULPRIT_DIR, or that of culprit serve)",
	)
	f.BoolVar(&asJSON, "json", false, "as one JSON object")
	f.BoolVar(&asCSV, "csv", false, "comma-separated values with a header line")
	f.BoolVarP(&wide, "wide", "w", false, "all columns, whatever the width of the terminal")

	// forEach returns a subcommand that calls do for each of the datasets with the given IDs.
	forEach := func(
		name, short, done string, do func(context.Context, Server, uint32) error,
	) *cobra.Command {
		return &cobra.Command{
			Use:               name + " ID...",
			Short:             short,
			Args:              atLeastOneID,
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE: with(func(c *cobra.Command, s Server, args []string) error {
				known, err := s.Datasets(c.Context())
				if err != nil {
					return err
				}
				var which []DatasetStatus
				for _, a := range args {
					d, err := datasetOf(known, a)
					if err != nil {
						return err
					}
					which = append(which, d)
				}
				for _, d := range which {
					if err := do(c.Context(), s, d.ID); err != nil {
						return err
					}
					_, err := fmt.Fprintf(
						p.Terminal.Out, "%s %d: %s\n", done, d.ID, view.Clean(d.Query.String()),
					)
					if err != nil {
						return err
					}
				}
				return nil
			}),
		}
	}

	var step string
	add := &cobra.Command{
		Use:               "add QUERY",
		Short:             "record a query from now on",
		Args:              exactly(1, "one query, in quotation marks"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: with(func(c *cobra.Command, s Server, args []string) error {
			span, err := parseInterval(step)
			if err != nil {
				return err
			}
			if span%measure.Second != 0 {
				return usagef("--step %s: the step is a whole number of seconds", step)
			}
			id, err := s.Enable(c.Context(), args[0], span)
			if err != nil {
				return err
			}
			all, err := s.Datasets(c.Context())
			if err != nil {
				return err
			}
			d, err := datasetOf(all, strconv.FormatUint(uint64(id), 10))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(
				p.Terminal.Out, "recorded by dataset %d: %s each %v\n", id,
				view.Clean(d.Query.String()), d.Query.Step,
			)
			return err
		}),
	}
	add.Flags().StringVar(&step, "step", "1", "seconds between two measurements: 1, 10 or 60s")

	var forget, when pastFlags
	discard := forEach(
		"discard",
		"delete what datasets hold from --from to --to",
		"discarded of",
		func(ctx context.Context, s Server, id uint32) error {
			w := forget
			over, err := w.parse(time.Now())
			if err != nil {
				return err
			}
			return s.Discard(ctx, id, over.Over)
		},
	)
	discard.PreRunE = func(*cobra.Command, []string) error {
		if forget.from == "" || forget.to == "" {
			return usagef("discard needs --from and --to")
		}
		w := forget
		_, err := w.parse(time.Now())
		return err
	}
	discard.Flags().StringVar(&forget.from, "from", "", "start of the time to delete: "+timeFormats)
	discard.Flags().StringVar(&forget.to, "to", "", "its end")

	changes := &cobra.Command{
		Use:               "changes",
		Short:             "the audit log: changes of the datasets",
		Args:              exactly(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: with(func(c *cobra.Command, s Server, _ []string) error {
			over := measure.Interval{End: measure.Time(time.Now().UnixNano())}
			if when.isSet() {
				w, err := when.parse(time.Now())
				if err != nil {
					return err
				}
				over = w.Over
			}
			all, err := s.Changes(c.Context(), over)
			if err != nil {
				return err
			}
			return print(changeTable(all))
		}),
	}
	changes.Flags().
		StringVar(&when.from, "from", "", "from this time on (default: all): "+timeFormats)
	changes.Flags().StringVar(&when.to, "to", "", "up to this time (default: now)")

	c.AddCommand(
		&cobra.Command{
			Use:               "list [WORD...]",
			Short:             "the datasets, or those whose query has all the words",
			RunE:              list,
			ValidArgsFunction: cobra.NoFileCompletions,
		},
		add,
		forEach(
			"suspend", "stop recording and keep what was recorded", "suspended",
			func(ctx context.Context, s Server, id uint32) error { return s.Suspend(ctx, id) },
		),
		forEach(
			"resume", "continue recording", "resumed",
			func(ctx context.Context, s Server, id uint32) error { return s.Resume(ctx, id) },
		),
		forEach(
			"destroy", "delete datasets with all that they hold", "destroyed",
			func(ctx context.Context, s Server, id uint32) error { return s.Destroy(ctx, id) },
		),
		discard,
		changes,
	)
	return c
}

// listOr returns the function of a command that has subcommands: without arguments it calls list,
// otherwise it fails with the names of the subcommands.
func listOr(list func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
			return usagef(
				"%s has no command %q%s (`culprit %s -h` lists them)", c.Name(), args[0],
				didYouMean(args[0], names), c.Name(),
			)
		}
		return list(c, nil)
	}
}

func exactly(n int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return usagef("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

func atLeastOneID(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef(
			"%s takes the IDs of datasets; `culprit datasets` lists them", c.CommandPath(),
		)
	}
	return nil
}

// datasetOf returns the dataset with the ID in a text.
func datasetOf(all []DatasetStatus, id string) (DatasetStatus, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return DatasetStatus{}, usagef(
			"%q is not the ID of a dataset; `culprit datasets` lists them", id,
		)
	}
	for _, d := range all {
		if uint64(d.ID) == n {
			return d, nil
		}
	}
	return DatasetStatus{}, usagef("there is no dataset %d; `culprit datasets` lists them", n)
}

// datasetTable returns the table of the datasets whose query contains all words. It has the columns
// of the page.
func datasetTable(all []DatasetStatus, words []string) *view.Table {
	const allColumnsWidth = 130 // terminal width that shows all columns
	t := &view.Table{View: "datasets", Columns: []view.Column{
		{Name: "id", Head: "No.", Width: 4, Help: "ID"},
		{Name: "state", Head: "State", Width: 9, Left: true, Help: "recording or suspended"},
		{Head: "Holds", Width: 6, Help: "length of the recorded time"},
		{Name: "rows", Head: "Rows", Width: 6, Help: "in the newest tick"},
		{
			Name:     "samples_per_s",
			Head:     "Samples/s",
			Decimals: 1,
			Width:    9,
			Help:     "values recorded per second, mean over the last minute",
		},
		{
			Name:  "memory_bytes",
			Head:  "Memory",
			Show:  view.HumanBytes,
			Width: 6,
			Help:  "memory of the newest ticks",
		},
		{Name: "disk_bytes", Head: "Disk", Show: view.HumanBytes, Width: 6, Help: "size on disk"},
		{
			Name:     "cpu",
			Head:     "%CPU",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			Help:     "share of one CPU to read and to record it",
		},
		{
			Name:  "lost_events",
			Head:  "Lost",
			Width: 5,
			Help:  "events known to be missing from the newest minutes, those in memory",
		},
		{
			Name:     "step_s",
			Head:     "Step s",
			Width:    6,
			MinWidth: allColumnsWidth,
			Help:     "time between two measurements",
		},
		{Name: "maker", Head: "By", Width: 7, Left: true, MinWidth: allColumnsWidth, Help: "user who made it"},
		{Name: "since", Help: "time when it was made"},
		{
			Head: "Since", Width: 19, Left: true, MinWidth: allColumnsWidth,
			Help: "time when it was made",
		},
		{Name: "samples", Help: "recorded values, at its own step"},
		{Name: "from", Help: "oldest recorded time"},
		{Name: "to", Help: "newest recorded time"},
		{Name: "kind", Help: "delta, level or dist"},
		{Name: "unit", Help: "unit of its answers"},
		{Name: "sentence", Head: "Dataset", Left: true, Help: "the recorded query"},
	}}
	var rows, memory, disk, lost, samples float64
	rate, cpu := measure.NaN, measure.NaN
	add := func(sum *float64, v float64) {
		if v == v && *sum != *sum {
			*sum = 0
		}
		if v == v {
			*sum += v
		}
	}
	for _, d := range all {
		text := d.Query.String()
		hit := true
		for _, w := range words {
			hit = hit && strings.Contains(text, w)
		}
		if !hit {
			continue
		}
		events := 0.
		for _, l := range d.Held.Loss {
			events += float64(l.Events)
			t.Loss = append(
				t.Loss,
				measure.Loss{
					Reason: fmt.Sprintf("dataset %d: %s", d.ID, l.Reason),
					Events: l.Events,
				},
			)
		}
		add(&rows, float64(d.Held.Rows))
		add(&rate, d.Usage.Samples)
		add(&memory, float64(d.Held.Memory))
		add(&disk, float64(d.Held.Disk))
		add(&cpu, d.Usage.CPU)
		add(&lost, events)
		add(&samples, float64(d.Held.Samples))
		since, over := timeCells(d.Created), d.Held.Over
		from, to := timeCells(over.Start), timeCells(over.End)
		t.Rows = append(t.Rows, view.Row{
			Key: strconv.FormatUint(uint64(d.ID), 10),
			Cells: []view.Cell{
				view.N(float64(d.ID)),
				view.T(d.State.String()),
				view.TOrNull(formatSpan(d.Held.Over.Span())),
				view.N(float64(d.Held.Rows)),
				view.N(d.Usage.Samples),
				view.N(float64(d.Held.Memory)),
				view.N(float64(d.Held.Disk)),
				view.N(d.Usage.CPU),
				view.N(events),
				view.N(d.Query.Step.Seconds()),
				view.T(d.Creator),
				since[0],
				since[1],
				view.N(float64(d.Held.Samples)),
				from[0],
				to[0],
				view.T(d.Stat.Kind.String()),
				view.T(string(d.Stat.AnswerUnit())),
				view.T(text),
			},
		})
	}
	if n := len(t.Rows); n > 1 {
		none := view.Cell{Kind: view.IsNull}
		t.Rows = append(
			t.Rows,
			view.Row{
				Key:   "all",
				Total: true,
				Label: "all",
				Cells: []view.Cell{
					none,
					none,
					none,
					view.N(rows),
					view.N(rate),
					view.N(memory),
					view.N(disk),
					view.N(cpu),
					view.N(
						lost,
					),
					none,
					none,
					none,
					none,
					view.N(samples),
					none,
					none,
					none,
					none,
					view.T(fmt.Sprintf("%d datasets", n)),
				},
			},
		)
	} else if n == 0 {
		t.Notes = append(t.Notes, "there is no such dataset")
	}
	return t
}

// formatSpan formats a time span with its two largest units; "" if it is 0.
func formatSpan(s measure.Span) string {
	d := s.AsDuration().Round(time.Second)
	switch {
	case d <= 0:
		return ""
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// timeCells returns the cells of a time for JSON and for a terminal; unknown if it is 0.
func timeCells(t measure.Time) []view.Cell {
	if t == 0 {
		return []view.Cell{{Kind: view.IsNull}, {Kind: view.IsNull}}
	}
	return []view.Cell{view.T(t.String()), view.T(formatTime(t))}
}

// changeTable returns the table of the audit log.
func changeTable(all []measure.Change) *view.Table {
	t := &view.Table{View: "changes", Columns: []view.Column{
		{Name: "at", Help: "time of the change"},
		{Head: "When", Width: 19, Left: true, Help: "time of the change"},
		{Name: "who", Head: "Who", Width: 12, Left: true, Help: "user who made it"},
		{Name: "what", Head: "What", Width: 10, Left: true, Help: "action"},
		{Name: "dataset", Head: "ID", Width: 4, Help: "the dataset; unknown: all datasets"},
		{Name: "from", Help: "start of the discarded time"},
		{Head: "From", Width: 19, Left: true, Help: "start of the discarded time"},
		{Name: "to", Help: "end of the discarded time"},
		{Head: "to", Width: 19, Left: true, Help: "end of the discarded time"},
		{Name: "sentence", Head: "Query", Left: true, Help: "query of the dataset"},
	}}
	for i, c := range all {
		id := view.N(float64(c.Dataset))
		if c.Dataset == 0 {
			id = view.N(measure.NaN)
		}
		cells := append(timeCells(c.At), view.T(c.Actor), view.T(c.Action), id)
		cells = append(append(cells, timeCells(c.Over.Start)...), timeCells(c.Over.End)...)
		t.Rows = append(
			t.Rows, view.Row{Key: strconv.Itoa(i), Cells: append(cells, view.TOrNull(c.Query))},
		)
	}
	if len(t.Rows) == 0 {
		t.Notes = append(t.Notes, "nothing was changed")
	}
	return t
}
