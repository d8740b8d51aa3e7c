package term

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"culprit/load"
	"culprit/measure"
	"culprit/profile"
	"culprit/view"
	"culprit/view/classic"
	"culprit/view/show"
	"culprit/yamlfile"

	"github.com/spf13/cobra"
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
