package term

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"culprit/load"
	"culprit/measure"
	"culprit/profile"
	"culprit/view"
	"culprit/view/classic"
	"culprit/view/show"
	"culprit/yamlfile"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program holds what the command line needs from the rest of culprit. A nil function means that
// this program lacks the feature.
type Program struct {
	Version string
	DTrace  bool // the program was started as dtrace
	// The error is a *measure.Diagnostic if the options are invalid.
	Open func(MachineOptions) (Machine, error)
	// Opens the recording in a directory or at the address of a server; "": the default directory.
	Recorded func(dir string) (Recorded, error)
	// Opens the recording of a host in an engine.
	Engine func(EngineHost) (Recorded, error)
	// Opens all hosts of an engine; Host is not used.
	Fleet func(EngineHost) (Fleet, error)
	// Opens the running server of a directory or address, as Recorded.
	Server func(dir string) (Server, error)
	Hosts  func(addresses []string) (Hosts, error) // opens the servers of several machines
	Tokens func(dir string) (Tokens, error)        // opens the tokens of the server of a directory
	// Sessions connects to the server that records in a directory.
	Sessions func(dir string) (Sessions, error)
	Archive  func(dir string) (Archive, error) // opens the archive of a directory, as files
	// Records and serves until the context ends.
	Serve func(context.Context, Serving, *Teller) error
	// Reads the configuration file of a server; nil: this program has none.
	ReadConfig func(path string) (ConfigText, error)
	// Returns what is wrong with what a configuration names: files that can't be read. May be nil.
	CheckServing func(Serving) error
	Trace        Tracer
	// Runs programs of bpftrace.
	Bpftrace Bpftracer
	Profile  Profiler
	Locks    Locker
	Script   Scripter

	// Returns this machine, for the CPU and link columns of load tests.
	LoadMachine func() load.Machine

	// Returns what names the addresses of perf.data with the files of this machine; nil: nothing.
	Names func() profile.Namer
	// Returns the page that an HTML file of a profile has; nil: this program was built without.
	ProfilePage func() *profile.Page
	ReadsFiles  func() // is called when a command starts that only reads files; may be nil
	Terminal    Terminal

	DiagnoseNetns string // MachineOptions.Netns of a diagnosis without --netns
}

// Run runs one command line and returns its exit status: 0 for success, 1 for an error, 2 for wrong
// usage, 3 for findings with --exit-code. A trace returns the status of its exit(). When the
// context ends, it prints averages and returns.
func Run(ctx context.Context, p Program, args []string) int {
	root := p.root()
	if c, _, err := root.Find([]string{"trace"}); err == nil {
		p.addTool(c, args)
	}
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
	var e exitStatus
	var m yamlfile.Mistakes
	switch {
	case errors.As(err, &e):
		return int(e)
	case errors.As(err, &f):
		return exitFindings
	case errors.As(err, &d):
		lines := strings.Split(d.Marked(), "\n")
		for i := range lines { // a hint may contain untrusted names
			lines[i] = view.Clean(lines[i])
		}
		fmt.Fprintf(p.Terminal.Err, "culprit: column %d:\n%s\n", d.Pos+1, strings.Join(lines, "\n"))
		return exitUsage
	case errors.As(err, &m):
		for _, one := range m {
			fmt.Fprintln(p.Terminal.Err, "culprit:", view.Clean(one.Error()))
		}
		return exitUsage
	case errors.As(err, &u):
		fmt.Fprintln(p.Terminal.Err, "culprit:", view.Clean(err.Error()))
		return exitUsage
	}
	if !printMarked(p.Terminal, err) {
		fmt.Fprintln(p.Terminal.Err, "culprit:", view.Clean(err.Error()))
	}
	return exitFailed
}

func (p Program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "culprit",
		Short: "find what limits a Linux machine, and prove it",
		Long: reflow(
			`Without a command culprit watches everything for ten seconds and reports what limits this
machine, with the evidence. The other commands show one resource each, with the columns of the
classic tools.`,
			helpWidth,
		),
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       p.Version,
	}
	root.SetFlagErrorFunc(unknownFlag)
	const whole, tools = "whole", "tools"
	root.AddGroup(
		&cobra.Group{ID: whole, Title: "The whole machine:"},
		&cobra.Group{ID: tools, Title: "One resource:"},
	)
	group := func(id string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = id
		}
		root.AddCommand(commands...)
	}
	group(whole, p.diagnose(), p.top(), p.trace(), p.bpftrace(), p.profile(), p.flame(), p.serve(),
		p.changed(), p.watch())
	if p.Server != nil {
		group(whole, p.datasets())
	}
	if p.Hosts != nil {
		group(whole, p.hosts())
	}
	if p.Tokens != nil {
		group(whole, p.tokens())
	}
	if p.Sessions != nil {
		group(whole, p.sessions())
	}
	if p.Archive != nil {
		group(whole, p.archive())
	}
	group(whole, p.mcp())
	if p.ReadConfig != nil {
		group(whole, p.config())
	}
	for _, t := range classic.All() {
		group(tools, p.tool(t))
	}
	group(tools, p.locks(), p.stat(), p.heat())
	if p.LoadMachine != nil {
		group(whole, p.load())
	}
	root.AddCommand(p.version(), p.schema(), p.man())
	alone := &diagnosis{}
	alone.flags(root)
	root.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(root, args[0])
		}
		return alone.run(c.Context(), p, c)
	}
	root.Args = cobra.ArbitraryArgs
	return root
}

// toolFlags holds the flags of every command that shows tables.
type toolFlags struct {
	plan      showOptions
	look      MachineOptions
	past      pastFlags
	json, csv bool
}

func (m *toolFlags) flags(f *pflag.FlagSet) {
	m.tableFlags(f)
	f.StringVar(&m.look.Netns, "netns", "", "network namespace: a name, or all")
	f.BoolVar(&m.look.SinceBoot, "since-boot", false, "the first line covers the time since boot")
	m.past.flags(f, true)
}

// tableFlags adds the flags for the format of tables.
func (m *toolFlags) tableFlags(f *pflag.FlagSet) {
	f.BoolVar(&m.json, "json", false, "one JSON object per interval, on one line")
	f.BoolVar(&m.csv, "csv", false, "comma-separated values with a header line")
	f.StringVar(&m.plan.sortBy, "sort", "", "sort rows by this column, largest first")
	f.BoolVar(&m.plan.reverse, "reverse", false, "smallest first")
	f.IntVarP(&m.plan.rows, "rows", "n", -1, "show N rows, 0 for all")
	f.BoolVarP(&m.plan.wide, "wide", "w", false, "all columns, whatever the width of the terminal")
}

// open returns the machine to measure, now or in the past, and adjusts the show options to it.
// Unless it returns an error, the caller must call done.
func (m *toolFlags) open(p Program, args []string) (machine Machine, done func(), err error) {
	if !m.past.isSet() {
		if err := m.past.checkTimeGiven("--from or --at"); err != nil {
			return nil, nil, err
		}
		m.look.Alone = true
		machine, err = p.Open(m.look)
		return machine, func() {}, err
	}
	if len(args) == 0 {
		m.plan.step = show.RecordedStep
	}
	if err := show.CheckRecordedStep(m.plan.step); err != nil {
		return nil, nil, err
	}
	r, err := p.archives().replay(&m.past, m.look, m.plan.step*measure.Span(max(1, m.plan.count)))
	if err != nil {
		return nil, nil, err
	}
	if len(args) == 0 { // one table over the whole time
		m.plan.step = r.Over.Span()
	}
	m.plan.past = true
	printNotes(p.Terminal.Err, r.Notes)
	return r, r.Close, nil
}

// times parses the arguments [interval [count]] and sets the format.
func (m *toolFlags) times(args []string) error {
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

// tool returns the command of one tool.
func (p Program) tool(t *view.Tool) *cobra.Command {
	m := &toolFlags{plan: showOptions{step: measure.Second, count: 1}}
	if t.Once {
		m.plan.step = 250 * measure.Millisecond
	}
	c := &cobra.Command{
		Use:               t.Name + operandUse(t) + " [interval [count]]",
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
			completeWith(c, fl.Name, fl.Values)
		}
	}
	m.flags(f)
	m.past.registerCompletions(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if named := lists[t.Operand]; named != nil {
			var words []string
			words, args = splitOperands(args)
			if err := oldOptions(t.Name, words); err != nil {
				return err
			}
			*named = append(*named, words...)
		}
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
				o[name] = view.CommaList(*v)
			}
		}
		for _, fl := range t.Flags {
			for _, v := range o[fl.Name] {
				if len(fl.Values) > 0 && !slices.Contains(fl.Values, v) {
					return usagef(
						"--%s %q is none of %s%s", fl.Name, v, strings.Join(fl.Values, ", "),
						didYouMean(v, fl.Values),
					)
				}
			}
		}
		machine, done, err := m.open(p, args)
		if err != nil {
			return err
		}
		defer done()
		return showTool(c.Context(), machine, p.Terminal, t, o, m.plan)
	}
	return c
}

// operandUse returns the place of the operands in the usage of a tool: " [INTERFACE]..."; "" if it
// takes none.
func operandUse(t *view.Tool) string {
	if t.Operand == "" {
		return ""
	}
	return " [" + strings.ToUpper(t.Operand) + "]..."
}

// splitOperands divides arguments into the names before the interval, which may be comma lists, and
// the rest. An interval begins with a digit or a dot: a name that does needs its flag.
func splitOperands(args []string) (names, rest []string) {
	for i, a := range args {
		if a == "" || a[0] == '.' || a[0] >= '0' && a[0] <= '9' {
			return names, args[i:]
		}
		names = append(names, strings.Split(a, ",")...)
	}
	return names, nil
}

const helpWidth = 96 // width of help texts in columns

// reflow wraps the paragraphs of a text at the width. Paragraphs are separated by empty lines.
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

const intervals = `Without an interval it shows one line or table; with an interval it continues until Ctrl-C or until the
count, and then prints the average. Each line covers the time that was measured, also the first. "-"
(null in JSON) means not known; shares are ratios from 0 to 1 in JSON and CSV.

With --from and --to, or --at, it shows what culprit serve recorded, in the same columns: one line
over all of that time, or with an interval one line for each. Time that was not recorded is reported
and never shown as 0.`

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

// completeWith lets the shell complete the values of a flag that exists. It panics otherwise.
func completeWith(c *cobra.Command, flag string, values []string) {
	complete := cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	if err := c.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err)
	}
}

// version returns the command that prints the version.
func (p Program) version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "version of culprit and of what it was built with",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !asJSON {
				_, err := fmt.Fprintf(
					p.Terminal.Out, "culprit %s %s/%s %s\n", p.Version, runtime.GOOS,
					runtime.GOARCH, runtime.Version(),
				)
				return err
			}
			return json.NewEncoder(p.Terminal.Out).Encode(map[string]any{
				"format": 1, "version": p.Version, "os": runtime.GOOS, "arch": runtime.GOARCH,
				"go": runtime.Version(),
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return c
}

func didYouMean(word string, all []string) string { return show.DidYouMean(word, all) }

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
