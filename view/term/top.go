package term

import (
	"fmt"

	"culprit/measure"
	"culprit/view"
	"culprit/view/show"
	"culprit/view/term/fullscreen"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// processFlags are the flags of the tool ps that top takes too.
type processFlags struct {
	all, long, threads bool
	pids, names        []string
}

func (w *processFlags) flags(f *pflag.FlagSet) {
	f.BoolVarP(&w.all, "all", "a", false, "also idle processes; those in D and Z come first")
	f.BoolVarP(&w.long, "long", "l", false,
		"priority, nice value, virtual size and CPU time since the start")
	f.BoolVarP(&w.threads, "threads", "L", false, "threads instead of processes")
	f.StringSliceVarP(&w.pids, "pid", "p", nil, "only these processes (comma list)")
	f.StringSliceVar(&w.names, "name", nil,
		"only processes of these names (comma list with * and ?)")
}

// options returns the options of the tool ps.
func (w *processFlags) options() view.Options {
	o := view.Options{}
	for name, given := range map[string]bool{"all": w.all, "long": w.long, "threads": w.threads} {
		if given {
			o[name] = []string{""}
		}
	}
	if len(w.pids) > 0 {
		o["pid"] = w.pids
	}
	if len(w.names) > 0 {
		o["name"] = w.names
	}
	return o
}

// top returns the command of the full-screen view.
func (p Program) top() *cobra.Command {
	var look MachineOptions
	var past pastFlags
	var processes processFlags
	c := &cobra.Command{
		Use:   "top [interval]",
		Short: "all tools on one screen: sort, filter, and Enter to open a row",
		Long: reflow(
			`Shows one tool at a time below a line that summarizes the machine. Tab and digits choose the tool,
arrows a row and the sort column. Enter opens a row: the threads of a process and then its
connections, the connections of an interface, the interrupts of a CPU. Escape goes back. / filters,
space pauses, + and - change the interval, a shows idle processes too, those in D and Z first, l
the columns of top, ? lists all keys, q ends.
-a, -l, -L, -p and --name are those of culprit ps.`,
			helpWidth,
		),
		Example: examples(
			[]view.Example{
				{Line: "culprit top", Means: "processes, every second"},
				{Line: "culprit top 5", Means: "every five seconds"},
				{Line: "culprit top -l", Means: "with PR, NI, VIRT and TIME"},
				{Line: "culprit top -L -p 1234", Means: "the threads of a process"},
				{
					Line:  "culprit top --at 14:03:22",
					Means: "that second, as culprit serve recorded it; < and > go through time",
				},
			},
		),
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().StringVar(&look.Netns, "netns", "", "network namespace: a name, or all")
	processes.flags(c.Flags())
	past.flags(c.Flags(), false)
	past.registerCompletions(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		pl := showOptions{step: measure.Second}
		if err := parseTimes(args, &pl); err != nil {
			return err
		}
		if !p.Terminal.IsTTY {
			return usagef("top needs a terminal; for a pipe use `culprit ps --json 1`")
		}
		v := &fullscreen.View{Step: pl.step, Processes: processes.options()}
		if past.isSet() {
			if err := show.CheckRecordedStep(pl.step); err != nil {
				return err
			}
			r, err := p.archives().replay(&past, look, pl.step)
			if err != nil {
				return err
			}
			defer r.Close()
			v.Machine, v.End, v.Held = r, r.Over.End, r.Recorded.Held
			printNotes(p.Terminal.Err, r.Notes) // visible again when the view ends
			v.Replay = func(over measure.Interval) fullscreen.Machine {
				return r.Recorded.Replay(over, look.Netns)
			}
		} else if err := past.checkTimeGiven("--at"); err != nil {
			return err
		} else {
			machine, err := p.Open(look)
			if err != nil {
				return err
			}
			v.Machine = machine
		}
		screen, err := tcell.NewScreen()
		if err != nil {
			return fmt.Errorf("open the terminal: %w", err)
		}
		return fullscreen.Run(c.Context(), v, screen)
	}
	return c
}
