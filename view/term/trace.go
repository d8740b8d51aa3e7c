package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/trace/tool"
	"culprit/view"

	"github.com/spf13/cobra"
)

// Tracing is the request of `culprit trace`. Its flags are those of dtrace.
type Tracing struct {
	Parts       []TracePart
	Tool        string   // name of the ready-made tool that the only part is; "": none
	Args        []string // of the script: $1, $2 ...; $$0 is its name
	Options     []string // -x name[=value], and flags for such options
	Commands    []string // -c: start them, and end with them
	Processes   []int    // -p: end with them
	Output      string   // file to append to; "": standard output
	List        bool     // list probes and trace nothing
	Verbose     bool     // with the arguments of probes
	CompileOnly bool
	Listing     bool // print the instructions
	Destructive bool
	Zero        bool // allow descriptions that match no probe
	JSON        bool
}

// A TracePart is one program, or a description of probes.
type TracePart struct {
	// N: a program; s: its file; P, m, f, i: a provider, module, function or number, and what
	// follows it.
	Flag byte
	Text string
}

// traceParts keeps programs in the order of the flags.
type traceParts struct {
	to   *[]TracePart
	flag byte
}

// String returns "", the default.
func (p *traceParts) String() string { return "" }

// Type returns the placeholder of the value in the help.
func (p *traceParts) Type() string {
	switch p.flag {
	case 's':
		return "file"
	case 'i':
		return "number"
	}
	return "text"
}

// Set appends a program.
func (p *traceParts) Set(text string) error {
	*p.to = append(*p.to, TracePart{p.flag, text})
	return nil
}

// traceOptions keeps options in the order of the flags.
type traceOptions struct {
	to     *[]string
	option string // option that the flag sets; "": the flag is -x
	alone  bool   // the flag takes no value
}

// String returns "", the default.
func (o *traceOptions) String() string { return "" }

// Type returns the placeholder of the value in the help.
func (o *traceOptions) Type() string {
	switch {
	case o.alone:
		return "bool"
	case o.option == "incdir":
		return "dir"
	}
	return "text"
}

// Set appends an option.
func (o *traceOptions) Set(text string) error {
	if o.option != "" {
		text = o.option + "=" + text
	}
	*o.to = append(*o.to, text)
	return nil
}

// exitStatus ends the program with a status and without a message.
type exitStatus int

// Error returns the status as text.
func (s exitStatus) Error() string { return "exit status " + strconv.Itoa(int(s)) }

// ownProbes explains how programs define probes on Linux.
const ownProbes = "the macros of <sys/sdt.h> (SystemTap's, package systemtap-sdt-dev) define " +
	"probes of a program without header or object, and culprit finds them " +
	"(-l -n 'PROVIDER$target:::' -c COMMAND)"

// refusals are the flags of dtrace that culprit lacks, with the reasons.
//
// table: never changed
var refusals = []struct{ flag, short, why string }{
	{"link", "G", "culprit makes no object with probes: " + ownProbes},
	{
		"anonymous",
		"A",
		"culprit traces nothing during boot: start a systemd unit that runs culprit trace",
	},
	{"claim", "a", "culprit has no anonymous tracing"},
}

func (p Program) trace() *cobra.Command {
	var t Tracing
	var buffer string
	var quiet, indent, tools bool
	c := &cobra.Command{
		Use:   "trace [flags] [-n PROGRAM | -s FILE] [argument]... | trace TOOL [options]",
		Short: "trace the running kernel and programs, in D",
		Long: reflow(
			`Compiles a program in D, the language of DTrace, loads it into the running kernel, and prints its
output until it calls exit(), the commands of -c end, or Ctrl-C. Flags are those of dtrace.
Aggregations are printed at the end. Nothing stays in the kernel afterwards. The name of a
ready-made tool runs it with options of its own: --tools lists them.

It needs root, or the capabilities CAP_BPF and CAP_PERFMON.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{
				Line:  `culprit trace -n 'syscall:::entry { @[execname] = count(); }'`,
				Means: "system calls by program, until Ctrl-C",
			},
			{
				Line:  `culprit trace -n 'profile-99 /arg0/ { @[stack()] = count(); } tick-10s { exit(0); }'`,
				Means: "where the kernel spends its time",
			},
			{
				Line:  `culprit trace -n 'syscall::read:return { @[execname] = quantize(arg0); }'`,
				Means: "sizes of reads as a distribution",
			},
			{
				Line:  `culprit trace opensnoop -p 1234`,
				Means: "a ready-made tool; --tools lists them",
			},
			{
				Line:  `culprit trace -l -n 'syscall::open*:entry'`,
				Means: "matching probes; with -v also their arguments",
			},
			{
				Line:  `culprit trace -s script.d -c 'make -j4'`,
				Means: "a script, while a command runs",
			},
		}),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	f.VarP(
		&traceParts{&t.Parts, 'n'}, "name", "n",
		"a program or a probe description; may be repeated, like -s, -P, -m, -f and -i",
	)
	f.VarP(&traceParts{&t.Parts, 's'}, "script", "s", "a file with a program; - is standard input")
	f.BoolVarP(&t.List, "list", "l", false, "list the matching probes and trace nothing")
	f.BoolVar(&tools, "tools", false, "list the ready-made tools; with a name, print its script")
	f.BoolVarP(&quiet, "quiet", "q", false, "print only what the program prints")
	option := func(flag, short, option, help string, alone bool) {
		v := f.VarPF(&traceOptions{&t.Options, option, alone}, flag, short, help)
		if alone {
			v.NoOptDefVal = "1"
		}
	}
	option(
		"option", "x", "",
		"an option, NAME or NAME=VALUE: stackframes=100, aggsortkey, strsize=1k, quiet ...", false,
	)
	f.StringVarP(&t.Output, "output", "o", "", "append the output to this file")
	f.StringArrayVarP(
		&t.Commands, "command", "c", nil,
		"start this command, with its process ID in $target, and end with it",
	)
	f.IntSliceVarP(
		&t.Processes, "pid", "p", nil, "end when this process ends; its ID is in $target",
	)
	f.BoolVarP(
		&t.Destructive, "destructive", "w", false,
		"let the program change the system: system(), raise(), copyout() ...",
	)
	f.BoolVarP(&t.Zero, "zero", "Z", false, "allow descriptions that match no probe")
	f.BoolVarP(
		&t.CompileOnly, "exit", "e", false, "compile the program and load nothing into the kernel",
	)
	f.BoolVarP(
		&t.Listing, "instructions", "S", false, "print the instructions of the compiled program",
	)
	f.BoolVarP(
		&t.Verbose, "verbose", "v", false, "print more: arguments of probes, the compiled program",
	)
	f.BoolVarP(&indent, "flowindent", "F", false, "indent by entry and return of functions")
	f.StringVarP(&buffer, "bufsize", "b", "", "size of the buffer of records: 4m")
	f.VarP(&traceParts{&t.Parts, 'P'}, "provider", "P", "all probes of a provider")
	f.VarP(&traceParts{&t.Parts, 'm'}, "module", "m", "all probes of a module, or provider:module")
	f.VarP(
		&traceParts{&t.Parts, 'f'}, "function", "f",
		"all probes of a function, or provider:module:function",
	)
	f.VarP(&traceParts{&t.Parts, 'i'}, "id", "i", "a probe by its number in the list")
	option("preprocess", "C", "cpp", "run C's preprocessor over the program", true)
	option("define", "D", "define", "of -C: a macro, NAME or NAME=VALUE", false)
	option("undef", "U", "undef", "of -C: no macro of this name", false)
	option(
		"include", "I", "incdir", "of -C: a directory to look in for files that are included",
		false,
	)
	option("headers", "H", "cpphdrs", "of -C: print the names of included files", true)
	option("stdc", "X", "stdc", "of -C: how closely to C's standard: a, c, s or t", false)
	f.Bool("help", false, "this text, like -h alone")
	header := f.BoolP("header", "h", false, "")
	f.Lookup("header").Hidden = true
	var refused []string // reasons
	for _, r := range refusals {
		f.BoolP(r.flag, r.short, false, "")
		f.Lookup(r.flag).Hidden = true
	}
	version := f.BoolP("language", "V", false, "print the version of D")
	f.BoolVar(
		&t.JSON, "json", false,
		"one JSON object per line, for each record and each row of an aggregation",
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		t.Args = args
		if tools {
			return p.listTools(args)
		}
		if *header && len(t.Parts) == 0 && len(args) == 0 {
			return c.Help()
		}
		for _, r := range refusals {
			if f.Changed(r.flag) {
				refused = append(refused, "-"+r.short+": "+r.why)
			}
		}
		if *header {
			refused = append(refused, "-h: culprit makes no header file of a program: "+ownProbes)
		}
		if len(refused) > 0 {
			return usagef("%s", strings.Join(refused, "; "))
		}
		for flag, on := range map[string]bool{"quiet": quiet, "flowindent": indent} {
			if on {
				t.Options = append(t.Options, flag)
			}
		}
		if buffer != "" {
			t.Options = append(t.Options, "bufsize="+buffer)
		}
		if *version && p.DTrace {
			fmt.Fprintln(p.Terminal.Out, "dtrace: D 2.0") // scripts expect this text
			return nil
		}
		if *version {
			fmt.Fprintf(
				p.Terminal.Out, "culprit %s: D, as the DTrace guide has it, on Linux\n", p.Version,
			)
			return nil
		}
		valid := func(mode string) bool { return slices.Contains(t.Options, "stdc="+mode) }
		if f.Lookup("stdc").Changed && !slices.ContainsFunc([]string{"a", "c", "s", "t"}, valid) {
			return usagef("-X takes one of a, c, s, t")
		}
		if len(t.Parts) == 0 && !t.List {
			if len(args) > 0 {
				return usagef("%q: give a program with -n, its file with -s, or a tool%s "+
					"(`culprit trace --tools` lists them)", args[0],
					didYouMean(args[0], tool.Names()))
			}
			return usagef(
				"give a program: -n 'syscall:::entry { @[execname] = count(); }', or -s FILE; " +
					"-l lists probes",
			)
		}
		if p.Trace == nil {
			return fmt.Errorf("this program traces nothing: %w", measure.ErrUnsupported)
		}
		status, err := p.Trace(c.Context(), t, p.Terminal)
		if err == nil && status != 0 {
			err = exitStatus(status)
		}
		return err
	}
	return c
}

// printMarked prints an error that has a position in a text, and reports whether err is one.
func printMarked(t Terminal, err error) bool {
	var marked interface {
		error
		Marked() string
	}
	if !errors.As(err, &marked) {
		return false
	}
	fmt.Fprintln(t.Err, "culprit: "+strings.TrimRight(marked.Marked(), "\n"))
	return true
}

// Scripter makes a machine whose statistics are the aggregations of a D program. The program starts
// with the first Watch and ends with it. If it ends earlier, so does the Watch, with an error
// unless the program called exit(). The program prints to output. name is a part of the names of
// the statistics. file is the prefix of positions in messages; "" for a command line. The caller
// must call done.
type Scripter func(
	ctx context.Context, name, file, text string, output *os.File,
) (m Machine, done func(), err error)

// Tracer runs a D program. status is the argument of its exit().
type Tracer func(context.Context, Tracing, Terminal) (status int, err error)
