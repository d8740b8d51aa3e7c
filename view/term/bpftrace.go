package term

import (
	"context"
	"fmt"
	"strings"

	"culprit/measure"
	"culprit/view"

	"github.com/spf13/cobra"
)

// Bpftracing is the request of `culprit bpftrace`. Its flags are those of bpftrace.
type Bpftracing struct {
	Program string   // of -e; "" with File
	File    string   // - is standard input
	Args    []string // $1 ...; with List the pattern
	Command string   // -c: start it, and end with it
	PID     int      // -p; 0: none
	Output  string   // file; "": standard output
	List    bool     // list probes and trace nothing
	JSON    bool
	Quiet   bool
	Verbose bool
	DryRun  bool // compile and load nothing
	Unsafe  bool // functions that change the system are allowed
	Cost    bool // print the cost of each clause at the end
}

// A Bpftracer runs a program of bpftrace. status is the argument of its exit().
type Bpftracer func(context.Context, Bpftracing, Terminal) (status int, err error)

// bpftraceVersion is the version of the language, which scripts ask for.
const bpftraceVersion = "v0.17.0"

// bpftraceFlags are flags of bpftrace that have no effect here, with the reason.
//
// table: never changed
var bpftraceFlags = []struct{ name, short, why string }{
	{"include", "", "types come from the kernel's BTF"},
	{"usdt-file-activation", "", "probes of programs are activated by file"},
	{"no-warnings", "", "there are few"},
	{"info", "", "culprit doctor shows what the kernel offers"},
}

func (p Program) bpftrace() *cobra.Command {
	var t Bpftracing
	var format, buffering string
	c := &cobra.Command{
		Use:   "bpftrace [flags] [-e PROGRAM | FILE] [argument]...",
		Short: "run programs and one-liners of bpftrace",
		Long: reflow(
			`Compiles a program in bpftrace's language, loads it into the running kernel, and prints what
bpftrace prints, until it calls exit(), the command of -c ends, or Ctrl-C. A link to culprit by the
name of bpftrace works as well. docs/BPFTRACE.md lists what is supported.

It needs root, or the capabilities CAP_BPF and CAP_PERFMON.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  `culprit bpftrace -e 'tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }'`,
				Means: "system calls by program, until Ctrl-C",
			},
			{
				Line:  `culprit bpftrace opensnoop.bt`,
				Means: "a program in a file",
			},
			{
				Line:  `culprit bpftrace -l 'tracepoint:sched:*' -v`,
				Means: "matching probes with the fields of their args",
			},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&t.Program, "execute", "e", "", "the program")
	f.BoolVarP(&t.List, "list", "l", false, "list the probes that a pattern matches")
	f.StringVarP(&t.Command, "command", "c", "", "start this command, and end with it")
	f.IntVarP(&t.PID, "pid", "p", 0, "end with this process; probes of programs are only its own")
	f.StringVarP(&format, "format", "f", "text", "text or json")
	f.StringVarP(&t.Output, "output", "o", "", "write the output to this file")
	f.BoolVarP(&t.Quiet, "quiet", "q", false, "print only what the program prints")
	f.BoolVarP(&t.Verbose, "verbose", "v", false, "print more: the fields of listed probes")
	f.BoolVarP(&t.DryRun, "dry-run", "d", false, "compile the program and load nothing")
	f.BoolVar(&t.Unsafe, "unsafe", false, "let the program change the system: system(), signal()")
	f.BoolVar(&t.Cost, "cost", false,
		"print runs and CPU time of each probe and clause, at the end and at SIGUSR1")
	f.StringVarP(&buffering, "buffering", "B", "", "line, full or none; has no effect")
	f.BoolP("helper-errors", "k", false, "has no effect")
	f.StringArrayP("incdir", "I", nil, "has no effect: types come from the kernel's BTF")
	for _, flag := range bpftraceFlags {
		f.BoolP(flag.name, flag.short, false, "has no effect: "+flag.why)
		f.Lookup(flag.name).Hidden = true
	}
	version := f.BoolP("version", "V", false, "print the version of the language")
	// Arguments behind the file are those of the program.
	f.SetInterspersed(true)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *version {
			fmt.Fprintf(p.Terminal.Out, "bpftrace %s (culprit %s)\n", bpftraceVersion, p.Version)
			return nil
		}
		switch format {
		case "json":
			t.JSON = true
		case "text", "":
		default:
			return usagef("-f %s: write text or json", format)
		}
		t.Args = args
		if !t.List && !f.Changed("execute") {
			if len(args) == 0 {
				return usagef("give a program: -e 'BEGIN { printf(\"hello\\n\"); }', or a file; " +
					"-l lists probes")
			}
			t.File, t.Args = args[0], args[1:]
		}
		if f.Changed("execute") && strings.TrimSpace(t.Program) == "" {
			return usagef("-e: the program is empty")
		}
		if p.Bpftrace == nil {
			return fmt.Errorf("this program traces nothing: %w", measure.ErrUnsupported)
		}
		status, err := p.Bpftrace(c.Context(), t, p.Terminal)
		if err == nil && status != 0 {
			err = exitStatus(status)
		}
		return err
	}
	return c
}
