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

	"github.com/spf13/cobra"
)

// Server is a running server whose datasets can be seen and changed. An error about what was asked
// is a *measure.Diagnostic or says why.
type Server interface {
	// Datasets lists what is recorded, by ID.
	Datasets(ctx context.Context) ([]Kept, error)
	// Enable begins to record a sentence and gives the dataset, which may be one that there was and
	// that covers it.
	Enable(ctx context.Context, sentence string, step measure.Span) (uint32, error)
	// Suspend stops the recording; what there is stays.
	Suspend(ctx context.Context, id uint32) error
	// Resume goes on with it.
	Resume(ctx context.Context, id uint32) error
	// Destroy forgets the dataset and all that it holds.
	Destroy(ctx context.Context, id uint32) error
	// Discard forgets what it holds of a time.
	Discard(ctx context.Context, id uint32, over measure.Interval) error
	// Changes lists what was done to datasets in a time, oldest first.
	Changes(ctx context.Context, over measure.Interval) ([]measure.Change, error)
	// Close lets go of the server.
	Close() error
}

// Kept is a dataset with what there is of it and what it costs.
type Kept struct {
	measure.Dataset
	Held  measure.Stored
	Usage measure.Usage
}

// datasets makes the command that shows and changes what a server records.
func (p Program) datasets() *cobra.Command {
	var dir string
	var asJSON, asCSV, wide bool
	print := func(t *view.Table) error {
		switch {
		case asJSON:
			return (&lines{p.Terminal.Out}).table(t)
		case asCSV:
			return (&comma{out: p.Terminal.Out}).table(t)
		}
		width := p.Terminal.Width
		if wide {
			width = math.MaxInt
		}
		aside := &asides{out: p.Terminal.Err, said: map[string]bool{}, lost: map[string]uint64{}}
		aside.say(t)
		return (&screen{out: p.Terminal.Out, width: width, bold: p.Terminal.Colour}).table(t)
	}
	with := func(do func(c *cobra.Command, s Server, args []string) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, args []string) error {
			if asJSON && asCSV {
				return usagef("--json and --csv exclude each other")
			}
			s, err := p.Server(dir)
			if err != nil {
				return err
			}
			defer func() { _ = s.Close() }() // nothing is under way
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

	// one makes a subcommand that does something to each of the datasets with the given IDs.
	one := func(name, short, done string, do func(context.Context, Server, uint32) error) *cobra.Command {
		return &cobra.Command{
			Use:               name + " ID...",
			Short:             short,
			Args:              someIDs,
			ValidArgsFunction: cobra.NoFileCompletions,
			RunE: with(func(c *cobra.Command, s Server, args []string) error {
				known, err := s.Datasets(c.Context())
				if err != nil {
					return err
				}
				var which []Kept
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
					if _, err := fmt.Fprintf(p.Terminal.Out, "%s %d: %s\n", done, d.ID, view.Clean(d.Query.String())); err != nil {
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

	var forget, when past
	discard := one(
		"discard",
		"forget what datasets hold from --from to --to",
		"discarded of",
		func(ctx context.Context, s Server, id uint32) error {
			w := forget
			over, err := w.span(time.Now())
			if err != nil {
				return err
			}
			return s.Discard(ctx, id, over.over)
		},
	)
	discard.PreRunE = func(*cobra.Command, []string) error {
		if forget.from == "" || forget.to == "" {
			return usagef("discard needs --from and --to")
		}
		w := forget
		_, err := w.span(time.Now())
		return err
	}
	discard.Flags().StringVar(&forget.from, "from", "", "start of the time to delete: "+momentForm)
	discard.Flags().StringVar(&forget.to, "to", "", "its end")

	changes := &cobra.Command{
		Use:               "changes",
		Short:             "the audit log: changes of the datasets",
		Args:              exactly(0, "no arguments"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: with(func(c *cobra.Command, s Server, _ []string) error {
			over := measure.Interval{End: measure.Time(time.Now().UnixNano())}
			if when.given() {
				w, err := when.span(time.Now())
				if err != nil {
					return err
				}
				over = w.over
			}
			all, err := s.Changes(c.Context(), over)
			if err != nil {
				return err
			}
			return print(changeTable(all))
		}),
	}
	changes.Flags().
		StringVar(&when.from, "from", "", "from this time on (default: all): "+momentForm)
	changes.Flags().StringVar(&when.to, "to", "", "up to this time (default: now)")

	c.AddCommand(
		&cobra.Command{
			Use:               "list [WORD...]",
			Short:             "the datasets, or those whose query has all the words",
			RunE:              list,
			ValidArgsFunction: cobra.NoFileCompletions,
		},
		add,
		one(
			"suspend", "stop recording; what there is stays", "suspended",
			func(ctx context.Context, s Server, id uint32) error { return s.Suspend(ctx, id) },
		),
		one(
			"resume", "go on recording", "resumed",
			func(ctx context.Context, s Server, id uint32) error { return s.Resume(ctx, id) },
		),
		one(
			"destroy", "forget datasets with all that they hold", "destroyed",
			func(ctx context.Context, s Server, id uint32) error { return s.Destroy(ctx, id) },
		),
		discard,
		changes,
	)
	return c
}

// listOr gives what a command does that has subcommands: without arguments it lists, and it says of
// another one which there are.
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

func someIDs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef(
			"%s takes the IDs of datasets; `culprit datasets` lists them", c.CommandPath(),
		)
	}
	return nil
}

// datasetOf finds the dataset that a user names.
func datasetOf(all []Kept, id string) (Kept, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return Kept{}, usagef("%q is not the ID of a dataset; `culprit datasets` lists them", id)
	}
	for _, d := range all {
		if uint64(d.ID) == n {
			return d, nil
		}
	}
	return Kept{}, usagef("there is no dataset %d; `culprit datasets` lists them", n)
}

// datasetTable makes the table of datasets whose sentences have all the words: the page's columns,
// and the sentence last.
func datasetTable(all []Kept, words []string) *view.Table {
	const roomy = 130 // columns of a terminal that has room for all
	t := &view.Table{View: "datasets", Columns: []view.Column{
		{Name: "id", Head: "No.", Width: 4, Help: "its number"},
		{Name: "state", Head: "State", Width: 9, Left: true, Help: "recording or suspended"},
		{Head: "Holds", Width: 6, Help: "the time that it has numbers of"},
		{Name: "rows", Head: "Rows", Width: 6, Help: "in the newest tick"},
		{
			Name:     "samples_per_s",
			Head:     "Samples/s",
			Decimals: 1,
			Width:    9,
			Help:     "values recorded a second, mean over the last minute",
		},
		{
			Name:  "memory_bytes",
			Head:  "Memory",
			Show:  view.HumanBytes,
			Width: 6,
			Help:  "of the newest ticks, in memory",
		},
		{Name: "disk_bytes", Head: "Disk", Show: view.HumanBytes, Width: 6, Help: "on disk"},
		{
			Name:     "cpu",
			Head:     "%CPU",
			Show:     view.Percent,
			Decimals: 2,
			Width:    6,
			Help:     "of one CPU: reading its share of the counters, and keeping them",
		},
		{
			Name:  "lost_events",
			Head:  "Lost",
			Width: 5,
			Help:  "events that are known to be missing of the newest minutes, those in memory",
		},
		{
			Name:     "step_s",
			Head:     "Step s",
			Width:    6,
			MinWidth: roomy,
			Help:     "time between two measurements",
		},
		{Name: "maker", Head: "By", Width: 7, Left: true, MinWidth: roomy, Help: "who asked for it"},
		{
			Name: "since",
			Help: "when it was made",
		}, {Head: "Since", Width: 19, Left: true, MinWidth: roomy, Help: "when it was made"},
		{Name: "samples", Help: "values held at its own step"},
		{Name: "from", Help: "the oldest that is held"},
		{Name: "to", Help: "the newest that is held"},
		{Name: "kind", Help: "delta, level or dist"},
		{Name: "unit", Help: "of its answers"},
		{Name: "sentence", Head: "Dataset", Left: true, Help: "the sentence that is recorded"},
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
		since, from, to := clock(d.Created), clock(d.Held.Over.Start), clock(d.Held.Over.End)
		t.Rows = append(
			t.Rows,
			view.Row{Key: strconv.FormatUint(uint64(d.ID), 10), Cells: []view.Cell{
				view.N(
					float64(d.ID),
				), view.T(d.State.String()), view.TOrNull(length(d.Held.Over.Span())), view.N(float64(d.Held.Rows)), view.N(d.Usage.Samples),
				view.N(
					float64(d.Held.Memory),
				), view.N(float64(d.Held.Disk)), view.N(d.Usage.CPU), view.N(events), view.N(d.Query.Step.Seconds()), view.T(d.Creator),
				since[0], since[1], view.N(float64(d.Held.Samples)), from[0], to[0], view.T(d.Stat.Kind.String()), view.T(string(d.Stat.AnswerUnit())), view.T(text)}},
		)
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

// length gives a time in its two largest units; "" for none.
func length(s measure.Span) string {
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

// clock makes the cells of a moment, for programs and for people; unknown when it is not set.
func clock(t measure.Time) []view.Cell {
	if t == 0 {
		return []view.Cell{{Kind: view.IsNull}, {Kind: view.IsNull}}
	}
	return []view.Cell{view.T(t.String()), view.T(moment(t))}
}

// changeTable makes the table of the audit.
func changeTable(all []measure.Change) *view.Table {
	t := &view.Table{View: "changes", Columns: []view.Column{
		{
			Name: "at",
			Help: "time of the change",
		}, {Head: "When", Width: 19, Left: true, Help: "time of the change"}, {Name: "who", Head: "Who", Width: 12, Left: true, Help: "who made it"},
		{
			Name:  "what",
			Head:  "What",
			Width: 10,
			Left:  true,
			Help:  "what was done",
		}, {Name: "dataset", Head: "ID", Width: 4, Help: "to which dataset; unknown: to all"},
		{
			Name: "from",
			Help: "of a discard",
		}, {Head: "From", Width: 19, Left: true, Help: "of a discard"}, {Name: "to", Help: "of a discard"}, {Head: "to", Width: 19, Left: true, Help: "of a discard"},
		{Name: "sentence", Head: "Sentence", Left: true, Help: "of the dataset"},
	}}
	for i, c := range all {
		id := view.N(float64(c.Dataset))
		if c.Dataset == 0 {
			id = view.N(measure.NaN)
		}
		cells := append(clock(c.At), view.T(c.Actor), view.T(c.Action), id)
		cells = append(append(cells, clock(c.Over.Start)...), clock(c.Over.End)...)
		t.Rows = append(
			t.Rows, view.Row{Key: strconv.Itoa(i), Cells: append(cells, view.TOrNull(c.Query))},
		)
	}
	if len(t.Rows) == 0 {
		t.Notes = append(t.Notes, "nothing was changed")
	}
	return t
}
