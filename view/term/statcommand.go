package term

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
)

// stat returns the command that shows any statistic.
func (p Program) stat() *cobra.Command {
	m := &toolFlags{plan: showOptions{step: measure.Second, count: 1}}
	var list bool
	var script string
	c := &cobra.Command{
		Use:   "stat QUERY [interval [count]]",
		Short: "any statistic by any of its fields, such as disk.bytes by device",
		Long: reflow(`A query is: statistic by field,field where field = "value" and ...
Comparisons are = != < <= > >=, ~ and !~ (patterns with * and ?), in (a, b). Values of statistics
that count events are per second. --list shows all statistics with their fields; words after it
select some.

--script runs a D program, given as text or as a file name, and makes statistics of its
aggregations: trace.script.bytes of @bytes, with its keys as fields. Without a query the first of
them is shown by all its fields. count() and sum() are shown per second; min(), max() and avg() per
interval; quantize() and similar functions as mean, quantiles and maximum.

`+intervals, helpWidth),
		Example: examples([]view.Example{
			{
				Line:  "culprit stat 'net.device.bytes by device,direction' 1",
				Means: "bytes per second of each interface",
			},
			{
				Line:  `culprit stat 'process.cpu by process where mode = "sys"' 5 3`,
				Means: "which processes spend time in the kernel",
			},
			{Line: "culprit stat --list tcp", Means: "the statistics that have tcp in their name"},
			{
				Line:  `culprit stat --script 'syscall::read:return /arg0 > 0/ { @bytes[execname] = sum(arg0); }' 1`,
				Means: "bytes per second that each program reads",
			},
		}),
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVarP(
		&list, "list", "l", false,
		"list statistics, their kinds, units and fields; with --json as one object",
	)
	c.Flags().StringVar(
		&script, "script", "", "a D program or its file; its aggregations are the statistics",
	)
	m.flags(c.Flags())
	m.past.registerCompletions(c)
	c.ValidArgsFunction = func(
		*cobra.Command, []string, string,
	) ([]string, cobra.ShellCompDirective) {
		machine, err := p.Open(MachineOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, st := range machine.Stats() {
			names = append(names, string(st.ID)+"\t"+st.Help)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case script != "":
			return p.Script.show(c.Context(), p.Terminal, m, script, list, args)
		case list:
			machine, err := p.Open(m.look)
			if err != nil {
				return err
			}
			return printStats(p.Terminal.Out, machine.Stats(), args, m.json)
		case len(args) == 0:
			return usagef("which statistic? `culprit stat --list` shows them")
		}
		if err := m.times(args[1:]); err != nil {
			return err
		}
		if !c.Flags().Changed("netns") && selectsNetns(args[0]) {
			m.look.Netns = "all"
		}
		machine, done, err := m.open(p, args[1:])
		if err != nil {
			return err
		}
		defer done()
		q, err := machine.Parse(args[0])
		if err != nil {
			return err
		}
		for _, st := range machine.Stats() {
			if st.ID == q.Stat {
				return showTool(c.Context(), machine, p.Terminal, view.Stat(q, &st), nil, m.plan)
			}
		}
		return fmt.Errorf("statistic %s: %w", q.Stat, measure.ErrUnsupported)
	}
	return c
}

// selectsNetns reports whether a query has a predicate on the network namespace, as those of a
// diagnosis do. Then it needs all namespaces.
func selectsNetns(query string) bool {
	q, err := measure.ParseQuery(query)
	return err == nil &&
		slices.ContainsFunc(q.Where, func(t measure.Term) bool { return t.Field == "netns" })
}

// show shows a statistic of a D program.
func (run Scripter) show(
	ctx context.Context, terminal Terminal, m *toolFlags, script string, list bool, args []string,
) error {
	if run == nil {
		return fmt.Errorf("this program traces nothing: %w", measure.ErrUnsupported)
	}
	if m.past.isSet() || m.past.dir != "" || m.past.server != "" || m.past.engine.isSet() {
		return usagef(
			"--script measures now; without it stat shows what a server recorded of a script",
		)
	}
	query := ""
	if len(args) > 0 {
		if _, err := parseInterval(args[0]); err != nil {
			query, args = args[0], args[1:]
		}
	}
	if err := m.times(args); err != nil && !list {
		return err
	}
	name, file, text, err := readScript(script)
	if err != nil {
		return err
	}
	machine, done, err := run(ctx, name, file, text, terminal.Err)
	if err != nil {
		return err
	}
	defer done()
	stats := machine.Stats()
	switch {
	case len(stats) == 0:
		return usagef("the script has no aggregation: culprit trace runs it")
	case list:
		return printStats(terminal.Out, stats, args, m.json)
	}
	var q measure.Query
	if query != "" {
		if q, err = machine.Parse(query); err != nil {
			return err
		}
	} else {
		q.Stat = stats[0].ID
		for _, f := range stats[0].Fields {
			q.By = append(q.By, f.Name)
		}
	}
	for _, st := range stats {
		if st.ID == q.Stat {
			return showTool(ctx, machine, terminal, view.Stat(q, &st), nil, m.plan)
		}
	}
	return fmt.Errorf("statistic %s: %w", q.Stat, measure.ErrUnsupported)
}

// readScript returns the text that --script means: a text with a brace is a program, else it is the
// name of a file, or - for standard input. name is the base name of the file.
func readScript(given string) (name, file, text string, err error) {
	if strings.Contains(given, "{") {
		return "script", "", given, nil
	}
	f := os.Stdin
	name = "script"
	if given != "-" {
		if f, err = os.Open(given); err != nil {
			return "", "", "", fmt.Errorf("read the script: %w", err)
		}
		defer f.Close()
		base, _, _ := strings.Cut(filepath.Base(given), ".")
		if word := measure.NameOf(base); word != "" {
			name = word
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<24)) // the parser reports a text that is too long
	if err != nil {
		return "", "", "", fmt.Errorf("read the script: %w", err)
	}
	return name, given, string(b), nil
}
