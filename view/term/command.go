package term

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is what the command line needs from the rest of culprit.
type Program struct {
	Version  string
	Open     func(Look) (Machine, error) // a *measure.Diagnostic for a Look that can't be
	Terminal Terminal

	DiagnoseNetns string // the Look.Netns of a diagnosis when the user names none
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
	var f errFindings
	switch {
	case errors.As(err, &f):
		return exitFindings
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
		Use:   "culprit",
		Short: "find what holds a Linux machine back, and prove it",
		Long: reflow(`Without a command culprit looks at everything for ten seconds and names what holds this machine back, with the evidence. The
other commands show one resource each, with the columns of the classic tools.`, helpWidth),
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       p.Version,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{nearFlag(c, err)} })
	const whole, tools = "whole", "tools"
	root.AddGroup(&cobra.Group{ID: whole, Title: "The whole machine:"}, &cobra.Group{ID: tools, Title: "One resource:"})
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
		}
		root.AddCommand(commands...)
	}
	group(whole, p.diagnose(), p.top())
	for _, t := range view.Tools() {
		group(tools, p.tool(t))
	}
	group(tools, p.stat())
	root.AddCommand(p.version(), p.man())
	alone := &diagnosis{}
	alone.flags(root)
	root.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			var names []string
			for _, c := range root.Commands() {
				names = append(names, c.Name())
			}
			return usagef("there is no command %q%s (`culprit -h` shows all)", args[0], didYouMean(args[0], names))
		}
		return alone.run(c.Context(), p, c)
	}
	root.Args = cobra.ArbitraryArgs
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

// common is what every command that shows tables takes.
type common struct {
	plan      plan
	look      Look
	json, csv bool
}

func (m *common) flags(f *pflag.FlagSet) {
	f.BoolVar(&m.json, "json", false, "one JSON object an interval, one line each")
	f.BoolVar(&m.csv, "csv", false, "comma-separated values with a head line")
	f.StringVar(&m.plan.sortBy, "sort", "", "order rows by this column, largest first")
	f.BoolVar(&m.plan.reverse, "reverse", false, "smallest first")
	f.IntVarP(&m.plan.rows, "rows", "n", -1, "show the first N rows, 0 for all")
	f.BoolVarP(&m.plan.wide, "wide", "w", false, "all columns, however narrow the terminal")
	f.StringVar(&m.look.Netns, "netns", "", "network namespace to look at: a name, or all")
	f.BoolVar(&m.look.SinceBoot, "since-boot", false, "the first line covers the time since boot")
}

// times reads the arguments [interval [count]] and the format.
func (m *common) times(args []string) error {
	switch {
	case m.json && m.csv:
		return usagef("--json and --csv exclude each other")
	case m.json:
		m.plan.format = "json"
	case m.csv:
		m.plan.format = "csv"
	}
	return parseTimes(args, &m.plan)
}

// tool makes the command of one tool.
func (p Program) tool(t *view.Tool) *cobra.Command {
	m := &common{plan: plan{step: measure.Second, count: 1}}
	if t.Once {
		m.plan.step = 250 * measure.Millisecond
	}
	c := &cobra.Command{
		Use:               t.Name + " [interval [count]]",
		Short:             t.Short,
		Long:              reflow(t.Long+"\n\n"+intervals, helpWidth),
		Example:           examples(t.Examples),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	bools, texts, lists := map[string]*bool{}, map[string]*string{}, map[string]*[]string{}
	for _, fl := range t.Flags {
		help := fl.Help
		if len(fl.Values) > 0 {
			help += ": " + strings.Join(fl.Values, ", ")
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
			if err := c.RegisterFlagCompletionFunc(fl.Name, cobra.FixedCompletions(fl.Values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
				panic(err) // the flag was made a few lines above
			}
		}
	}
	m.flags(f)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := m.times(args); err != nil {
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
				if len(fl.Values) > 0 && !slices.Contains(fl.Values, v) {
					return usagef("--%s %q is none of %s%s", fl.Name, v, strings.Join(fl.Values, ", "), didYouMean(v, fl.Values))
				}
			}
		}
		machine, err := p.Open(m.look)
		if err != nil {
			return err
		}
		return show(c.Context(), machine, p.Terminal, t, o, m.plan)
	}
	return c
}

const helpWidth = 96 // of help texts: readable on a wide terminal, unbroken on most

// reflow breaks the paragraphs of a text (parted by empty lines) anew, at most width wide where words allow.
func reflow(text string, width int) string {
	var out []string
	for _, paragraph := range strings.Split(text, "\n\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			switch {
			case line == "":
				line = word
			case len(line)+1+len(word) > width:
				out = append(out, line)
				line = word
			default:
				line += " " + word
			}
		}
		out = append(out, line, "")
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

const intervals = `Without an interval it shows one; with an interval it goes on until Ctrl-C or until the count, and then prints the
average. Each line covers the time that was measured, also the first. "-" (null in JSON) means not known; shares are ratios from 0 to 1 in JSON and CSV.`

// stat makes the command that shows any statistic.
func (p Program) stat() *cobra.Command {
	m := &common{plan: plan{step: measure.Second, count: 1}}
	var list bool
	c := &cobra.Command{
		Use:   "stat SENTENCE [interval [count]]",
		Short: "any statistic by any of its fields: net.device.bytes by device,direction where device != lo",
		Long: reflow(`A sentence is: statistic by field,field where field = "value" and ...
Comparisons are = != < <= > >=, ~ and !~ (patterns of * and ?), in (a, b). Values of statistics that count events are per second.
--list shows all statistics with their fields; a word after it filters them.

`+intervals, helpWidth),
		Example: examples([]view.Example{
			{Line: "culprit stat 'net.device.bytes by device,direction' 1", Means: "bytes per second of each interface"},
			{Line: `culprit stat 'process.cpu by process where mode = "sys"' 5 3`, Means: "who uses the kernel"},
			{Line: "culprit stat --list tcp", Means: "the statistics that have tcp in their name"},
		}),
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVarP(&list, "list", "l", false, "list statistics, their kinds, units and fields")
	m.flags(c.Flags())
	c.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		machine, err := p.Open(Look{})
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
		machine, err := p.Open(m.look)
		if err != nil {
			return err
		}
		if list {
			return p.list(machine.Stats(), args)
		}
		if len(args) == 0 {
			return usagef("which statistic? `culprit stat --list` shows them")
		}
		if err := m.times(args[1:]); err != nil {
			return err
		}
		q, err := machine.Parse(args[0])
		if err != nil {
			return err
		}
		for _, st := range machine.Stats() {
			if st.ID == q.Stat {
				return show(c.Context(), machine, p.Terminal, view.Stat(q, &st), nil, m.plan)
			}
		}
		return fmt.Errorf("statistic %s: %w", q.Stat, measure.ErrUnsupported) // Parse knows no other
	}
	return c
}

// list prints the statistics whose ID or help has all the words.
func (p Program) list(stats []measure.Stat, words []string) error {
	n := 0
	for _, st := range stats {
		hit := true
		for _, w := range words {
			hit = hit && (strings.Contains(string(st.ID), w) || strings.Contains(st.Help, w))
		}
		if !hit {
			continue
		}
		n++
		var fields []string
		for _, f := range st.Fields {
			fields = append(fields, f.Name)
		}
		if _, err := fmt.Fprintf(p.Terminal.Out, "%-28s %-5s %-9s by %s\n    %s\n", st.ID, st.Kind, st.AnswerUnit(), strings.Join(fields, ","), st.Help); err != nil {
			return err
		}
	}
	if n == 0 {
		return usagef("no statistic has %s in its name or help", strings.Join(words, " and "))
	}
	return nil
}

// version makes the command that says what this is.
func (p Program) version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "version", Short: "version of culprit and of what it was built with", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprintf(p.Terminal.Out, "culprit %s %s/%s %s\n", p.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
				return err
			}
			return json.NewEncoder(p.Terminal.Out).Encode(map[string]string{"version": p.Version, "os": runtime.GOOS, "arch": runtime.GOARCH, "go": runtime.Version()})
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
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
