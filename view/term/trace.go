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
	"culprit/view"

	"github.com/spf13/cobra"
)

// Tracing is what `culprit trace` was asked. Its flags are those of dtrace.
type Tracing struct {
	Parts       []TracePart
	Args        []string // of the script: $1, $2 ...; $$0 is its name
	Options     []string // -x name[=value], and flags that stand for one
	Commands    []string // -c: start it, and end with it
	Processes   []int    // -p: end with them
	Output      string   // file; "" standard output. What is there is added to
	List        bool     // probes, and nothing runs
	Verbose     bool     // with arguments of probes
	CompileOnly bool
	Listing     bool // of the instructions
	Destructive bool
	Zero        bool // descriptions that match nothing are allowed
	JSON        bool
}

// A TracePart is one program, or the name of one, as it was given.
type TracePart struct {
	Flag byte // n: a program; s: the file of one; P, m, f, i: a provider, module, function or number with what may follow it
	Text string
}

// traceParts keeps programs in the order in which flags gave them.
type traceParts struct {
	to   *[]TracePart
	flag byte
}

// String gives nothing: there is no usual program.
func (p *traceParts) String() string { return "" }

// Type gives what the help calls the value.
func (p *traceParts) Type() string {
	switch p.flag {
	case 's':
		return "file"
	case 'i':
		return "number"
	}
	return "text"
}

// Set adds a program.
func (p *traceParts) Set(text string) error {
	*p.to = append(*p.to, TracePart{p.flag, text})
	return nil
}

// traceOptions keeps options in the order in which flags gave them. A flag that stands for an
// option has its name.
type traceOptions struct {
	to     *[]string
	option string // "": the flag is -x, and the value is all
	alone  bool   // it has no value
}

// String gives nothing: there is no usual option.
func (o *traceOptions) String() string { return "" }

// Type gives what the help calls the value.
func (o *traceOptions) Type() string {
	switch {
	case o.alone:
		return "bool"
	case o.option == "incdir":
		return "dir"
	}
	return "text"
}

// Set adds an option.
func (o *traceOptions) Set(text string) error {
	if o.option != "" {
		text = o.option + "=" + text
	}
	*o.to = append(*o.to, text)
	return nil
}

// exitStatus ends the program with a status that somebody else chose, and says nothing.
type exitStatus int

// Error gives the status.
func (s exitStatus) Error() string { return "exit status " + strconv.Itoa(int(s)) }

// ownProbes says how programs get probes of their own on Linux.
const ownProbes = "the macros of <sys/sdt.h> (SystemTap's, package systemtap-sdt-dev) give a program probes of its own without header or object, and culprit finds them (-l -n 'PROVIDER$target:::' -c COMMAND)"

// refusals are flags of dtrace for what is not done here, and why.
//
// table: never changed
var refusals = []struct{ flag, short, why string }{
	{"link", "G", "no object with probes is made of a program: " + ownProbes},
	{
		"anonymous",
		"A",
		"nothing is traced before a system is up: begin with the system's own services, as a unit that runs culprit trace",
	},
	{"claim", "a", "there is no anonymous tracing whose state could be claimed"},
}

func (p Program) trace() *cobra.Command {
	var t Tracing
	var buffer string
	var quiet, indent bool
	c := &cobra.Command{
		Use:   "trace [flags] [-n PROGRAM | -s FILE] [argument]...",
		Short: "trace the running kernel and programs, in D",
		Long: reflow(
			`Compiles a program in D, the language of DTrace, loads it into the running kernel, and prints its
output until it calls exit(), the commands of -c end, or Ctrl-C. Flags are those of dtrace.
Aggregations are printed at the end. Nothing stays in the kernel afterwards.

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
	option("headers", "H", "cpphdrs", "of -C: tell which files are included", true)
	option("stdc", "X", "stdc", "of -C: how closely to C's standard: a, c, s or t", false)
	f.Bool("help", false, "this text, like -h alone")
	header := f.BoolP("header", "h", false, "")
	f.Lookup("header").Hidden = true
	var refused []string // flags of dtrace that there is no such thing for
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
		if *header && len(t.Parts) == 0 && len(args) == 0 {
			return c.Help()
		}
		for _, r := range refusals {
			if f.Changed(r.flag) {
				refused = append(refused, "-"+r.short+": "+r.why)
			}
		}
		if *header {
			refused = append(refused, "-h: no header file is made of a program: "+ownProbes)
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
			fmt.Fprintln(p.Terminal.Out, "dtrace: D 2.0") // as scripts that ask want it
			return nil
		}
		if *version {
			fmt.Fprintf(
				p.Terminal.Out, "culprit %s: D, as the DTrace guide has it, on Linux\n", p.Version,
			)
			return nil
		}
		if x := f.Lookup("stdc"); x.Changed &&
			!slices.ContainsFunc(
				[]string{"a", "c", "s", "t"},
				func(m string) bool { return slices.Contains(t.Options, "stdc="+m) },
			) {
			return usagef("-X takes one of a, c, s, t")
		}
		if len(t.Parts) == 0 && !t.List {
			if len(args) > 0 {
				return usagef("%q: give a program with -n, or its file with -s", args[0])
			}
			return usagef(
				"give a program: -n 'syscall:::entry { @[execname] = count(); }', or -s FILE; -l lists probes",
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

// complained prints an error that shows where in a text it is, and says whether it was one.
func complained(t Terminal, err error) bool {
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

// Scripter lets a program in D measure: its aggregations are statistics of the machine that it
// gives. The program begins with the first Watch and ends with it; a Watch ends when the program
// does, and says why if that was not its own will. What it prints goes to says. name stands in the
// statistics, file before places in the text ("" for one of a command line). The caller calls done.
type Scripter func(ctx context.Context, name, file, text string, says *os.File) (m Machine, done func(), err error)

// Tracer runs a program in D; the status is what its exit() said.
type Tracer func(context.Context, Tracing, Terminal) (status int, err error)
