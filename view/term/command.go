package term

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is what the command line needs from the rest of culprit.
type Program struct {
	Version  string
	Open     func(Look) Machine
	Terminal Terminal
}

// Run runs one command line and gives its exit status: 0 done, 1 could not, 2 wrong usage. Ends when the context does, after
// printing averages.
func Run(ctx context.Context, p Program, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetOut(p.Terminal.Out)
	root.SetErr(p.Terminal.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var d *measure.Diagnostic
	var u usageError
	switch {
	case errors.As(err, &d):
		fmt.Fprintf(p.Terminal.Err, "culprit: column %d:\n%s\n", d.Pos+1, d.Marked())
		return exitUsage
	case errors.As(err, &u):
		fmt.Fprintln(p.Terminal.Err, "culprit:", view.Clean(err.Error()))
		return exitUsage
	}
	fmt.Fprintln(p.Terminal.Err, "culprit:", view.Clean(err.Error()))
	return exitFailed
}

func (p Program) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "culprit",
		Short:         "find what holds a Linux machine back, and prove it",
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       p.Version,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{nearFlag(c, err)} })
	for _, t := range view.Tools() {
		root.AddCommand(p.tool(t))
	}
	return root
}

// nearFlag adds the nearest flag to cobra's "unknown flag".
func nearFlag(c *cobra.Command, err error) error {
	word, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return fmt.Errorf("%s (`%s -h` shows all flags)", err, c.CommandPath())
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := measure.Nearest(word, names); near != "" {
		return fmt.Errorf("unknown flag --%s; did you mean --%s?", word, near)
	}
	return fmt.Errorf("unknown flag --%s (`%s -h` shows all)", word, c.CommandPath())
}

// tool makes the command of one tool.
func (p Program) tool(t *view.Tool) *cobra.Command {
	pl := plan{step: measure.Second, count: 1}
	if t.Once {
		pl.step = 250 * measure.Millisecond
	}
	var look Look
	var json, csv bool
	c := &cobra.Command{
		Use:     t.Name + " [interval [count]]",
		Short:   t.Short,
		Long:    t.Long,
		Example: examples(t.Examples),
	}
	f := c.Flags()
	f.SortFlags = false
	bools, texts, lists := map[string]*bool{}, map[string]*string{}, map[string]*[]string{}
	for _, fl := range t.Flags {
		help := fl.Help
		if len(fl.Values) > 0 {
			help += " (" + strings.Join(fl.Values, ", ") + ")"
		}
		switch {
		case fl.Value == "":
			bools[fl.Name] = f.BoolP(fl.Name, fl.Letter, false, help)
		case fl.Many:
			lists[fl.Name] = f.StringSliceP(fl.Name, fl.Letter, nil, help)
		default:
			texts[fl.Name] = f.StringP(fl.Name, fl.Letter, "", help)
		}
		if len(fl.Values) > 0 {
			_ = c.RegisterFlagCompletionFunc(fl.Name, cobra.FixedCompletions(fl.Values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	f.BoolVarP(&json, "json", "", false, "one JSON object an interval, one line each")
	f.BoolVarP(&csv, "csv", "", false, "comma-separated values with a head line")
	f.StringVar(&pl.sortBy, "sort", "", "order rows by a column, largest first")
	f.BoolVar(&pl.reverse, "reverse", false, "smallest first")
	f.BoolVarP(&pl.wide, "wide", "w", false, "all columns, however narrow the terminal")
	f.StringVar(&look.Netns, "netns", "", "network namespace to look at: a name, or all")
	f.BoolVar(&look.SinceBoot, "since-boot", false, "the first line is the time since boot")
	c.RunE = func(c *cobra.Command, args []string) error {
		if json && csv {
			return usagef("--json and --csv exclude each other")
		}
		if json {
			pl.format = "json"
		}
		if csv {
			pl.format = "csv"
		}
		if err := parseTimes(args, &pl); err != nil {
			return err
		}
		o := view.Options{}
		for name, v := range bools {
			if *v {
				o[name] = []string{""}
			}
		}
		for name, v := range texts {
			if *v != "" {
				o[name] = []string{*v}
			}
		}
		for name, v := range lists {
			if len(*v) > 0 {
				o[name] = *v
			}
		}
		for _, fl := range t.Flags {
			for _, v := range o[fl.Name] {
				if len(fl.Values) > 0 && !contains(fl.Values, v) {
					return usagef("--%s %q is none of %s%s", fl.Name, v, strings.Join(fl.Values, ", "), didYouMean(v, fl.Values))
				}
			}
		}
		return show(c.Context(), p.Open(look), p.Terminal, t, o, pl)
	}
	return c
}

func contains(all []string, v string) bool {
	for _, a := range all {
		if a == v {
			return true
		}
	}
	return false
}

func didYouMean(word string, all []string) string {
	if near := measure.Nearest(word, all); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func examples(all []view.Example) string {
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "  %s\n      %s", e.Line, e.Means)
	}
	return b.String()
}
