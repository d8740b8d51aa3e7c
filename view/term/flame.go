package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"culprit/measure"
	"culprit/profile"
	"culprit/view"

	"github.com/spf13/cobra"
)

// pictured is what becomes of a profile: the file and what it shows.
type pictured struct {
	output   string
	format   string
	title    string
	width    int
	inverted bool
	table    bool
	rows     int
}

func (o *pictured) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(
		&o.output, "output", "o", "",
		"write to this file, in the format of its name's end: "+strings.Join(endings(), " "),
	)
	f.StringVar(&o.format, "format", "", "the format, if the name of the file does not show it")
	f.BoolVar(
		&o.table, "table", false, "a table of functions as lockstat's: Count indv cuml CPU Caller",
	)
	f.IntVarP(&o.rows, "rows", "n", 40, "table: N rows, 0 for all")
	f.StringVar(&o.title, "title", "", "title of a picture")
	f.IntVar(&o.width, "width", 1200, "width of an SVG, in pixels")
	f.BoolVar(&o.inverted, "inverted", false, "SVG: the root at the top")
	if err := c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(endings(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was made some lines above
	}
}

// A written is a format that profiles are written in.
type written struct {
	ending string
	write  func(io.Writer, *profile.Tree, profile.Picture) error
	differ func(io.Writer, *profile.Diff, profile.Picture) error // nil: it can't show a difference
	least  func(profile.Picture) float64                         // the share of the whole below which it shows nothing; nil: it shows all
}

// formats are those that can be written.
func formats() []written {
	return []written{
		{"svg", profile.WriteSVG, profile.WriteDiffSVG, profile.Picture.Least},
		{"html", profile.WriteHTML, profile.WriteDiffHTML, nil},
		{
			"folded",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error { return profile.WriteFolded(w, t) },
			func(w io.Writer, d *profile.Diff, _ profile.Picture) error { return profile.WriteDiffFolded(w, d) },
			nil,
		},
		{
			"pb.gz",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error { return profile.WritePProf(w, t) },
			nil,
			nil,
		},
		{"json", func(w io.Writer, t *profile.Tree, p profile.Picture) error {
			return profile.WriteSpeedscope(w, t, p.Note)
		}, nil, nil},
		{
			"txt",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error { return profile.WriteText(w, t) },
			nil,
			nil,
		},
	}
}

func endings() []string {
	var out []string
	for _, f := range formats() {
		out = append(out, f.ending)
	}
	return out
}

// chosen gives the format that is asked for; without one, what a terminal shows.
func (o *pictured) chosen() (written, error) {
	if o.width < 100 || o.width > 100_000 {
		return written{}, usagef("--width %d is out of range: 100 to 100000", o.width)
	}
	if o.table {
		if o.format != "" {
			return written{}, usagef("--table and --format exclude each other")
		}
		return written{
			"table",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error { return profile.WriteTable(w, t, o.rows) },
			nil,
			nil,
		}, nil
	}
	want := o.format
	if want == "" {
		if want = "txt"; o.output != "" && o.output != "-" {
			want = o.output
		}
	}
	for _, f := range formats() {
		if want == f.ending || o.format == "" && strings.HasSuffix(want, "."+f.ending) {
			return f, nil
		}
	}
	if o.format != "" {
		return written{}, usagef(
			"--format %s is none of %s%s", o.format, strings.Join(endings(), " "),
			didYouMean(o.format, endings()),
		)
	}
	return written{}, usagef(
		"-o %s: the format follows from the end of the name, which is none of .%s; or use --format",
		o.output, strings.Join(endings(), " ."),
	)
}

func (o *pictured) picture(note string) profile.Picture {
	return profile.Picture{Title: o.title, Note: note, Width: o.width, Inverted: o.inverted}
}

// put writes a profile to where it was asked.
func (o *pictured) put(t Terminal, p *profile.Tree, note string) error {
	f, err := o.chosen()
	if err != nil {
		return err
	}
	return into(t, o.output, func(w io.Writer) error { return f.write(w, p, o.picture(note)) })
}

// into writes a file, or for "" and - standard output. What could not be written whole is not left
// behind, and a file that was there stays until then.
func into(t Terminal, name string, write func(io.Writer) error) (failed error) {
	if name == "" || name == "-" {
		b := bufio.NewWriterSize(t.Out, 64<<10)
		if err := write(b); err != nil {
			return err
		}
		return b.Flush()
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // /dev/stdout, a pipe
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	defer func() {
		if failed != nil {
			f.Close()           //nolint:errcheck // it was not wanted
			os.Remove(f.Name()) //nolint:errcheck // the same
		}
	}()
	b := bufio.NewWriterSize(f, 64<<10)
	if err := write(b); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := errors.Join(b.Flush(), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}

// differing is how two profiles are compared.
type differing struct {
	on         bool
	per        string
	cpuSeconds string
	work       string
	json       bool
}

func (d *differing) norm() (profile.Norm, error) {
	n := profile.Norm{Per: d.per}
	text, flag := "", ""
	switch {
	case d.cpuSeconds != "" && d.work != "":
		return n, usagef("--cpu-seconds and --work exclude each other")
	case d.cpuSeconds != "":
		text, flag, n.Per = d.cpuSeconds, "--cpu-seconds", "cpu-second"
	case d.work != "":
		text, flag, n.Per = d.work, "--work", "work"
	}
	if d.per != "" && d.per != n.Per {
		return n, usagef("%s %s is not --per %s", flag, text, d.per)
	}
	switch n.Per {
	case "":
		n.Per = "sample"
	case "sample", "cpu-second":
	case "work":
		if text == "" {
			return n, usagef("--per work needs --work BEFORE,AFTER")
		}
	default:
		return n, usagef(
			"--per %q is none of sample, cpu-second, work%s", n.Per,
			didYouMean(n.Per, []string{"sample", "cpu-second", "work"}),
		)
	}
	if text != "" {
		before, after, ok := strings.Cut(text, ",")
		var errs [2]error
		n.Before, errs[0] = strconv.ParseFloat(strings.TrimSpace(before), 64)
		n.After, errs[1] = strconv.ParseFloat(strings.TrimSpace(after), 64)
		if !ok || errors.Join(errs[:]...) != nil || !(n.Before > 0) || !(n.After > 0) {
			return n, usagef("%s %q: give two numbers above 0, BEFORE,AFTER", flag, text)
		}
	}
	return n, nil
}

func (p Program) flame() *cobra.Command {
	var o pictured
	var d differing
	var read profile.Options
	var memory string
	c := &cobra.Command{
		Use:   "flame [flags] [FILE]...",
		Short: "flame graphs of profiles in any common format, and comparison of two",
		Long: reflow(
			`Reads profiles, stacks with an amount each, and writes them as a picture, a page, a table, or in
another format. It reads what DTrace prints of stack() and ustack(), perf script, folded stacks,
pprof (also -raw), speedscope, bpftrace (also -f json), V8's .cpuprofile, jstack, gdb, eu-stack,
Python's faulthandler, sample and xctrace of macOS, GHC's .prof, VTune's and Visual Studio's call
trees, packed by gzip or not. It recognizes the format by the contents. Several files are added up.
Without a file, or for -, it reads standard input. Without -o it prints a call tree.

With --diff it compares two files, or one file of folded stacks with two amounts. It ranks functions
by their share of the difference, alone and with the functions that they call; with -o it draws a
picture, red for more and blue for less. Both profiles are 100 % unless --cpu-seconds or --work say
what to divide by. Changes that may be chance, with so few samples, are listed last and counted.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "perf script | culprit flame -o out.svg", Means: "an SVG for any browser"},
			{Line: "culprit flame out.stacks -o out.html", Means: "a page with zoom and search"},
			{
				Line:  "culprit flame perf.txt --format folded | grep tcp_ | culprit flame -o tcp.svg",
				Means: "only stacks with tcp_",
			},
			{Line: "culprit flame cpu.pb.gz --table", Means: "functions, as lockstat prints them"},
			{
				Line:  "culprit flame --diff fast.folded slow.folded -o diff.svg",
				Means: "what takes more time in the second",
			},
			{
				Line:  "culprit flame --diff a.txt b.txt --work 120000,80000",
				Means: "the same, per served request",
			},
		}),
	}
	f := c.Flags()
	f.SortFlags = false
	o.flags(c)
	f.BoolVar(
		&d.on, "diff", false, "compare two files, BEFORE and AFTER, or the two amounts of one",
	)
	f.StringVar(
		&d.per, "per", "",
		"--diff: what the amounts are divided by: sample, cpu-second, work (default: sample)",
	)
	f.StringVar(
		&d.cpuSeconds, "cpu-seconds", "",
		"--diff: BEFORE,AFTER, the CPU-seconds that the profiles cover",
	)
	f.StringVar(
		&d.work, "work", "", "--diff: BEFORE,AFTER, the work done during each, such as requests",
	)
	f.BoolVar(&d.json, "json", false, "--diff: the ranked functions as JSON")
	f.StringVar(
		&read.Event, "event", "",
		"perf script: the samples of this event (default: the first event)",
	)
	f.StringVar(&read.Value, "value", "", "pprof and GHC: which of the amounts")
	f.StringVar(
		&read.Label, "label", "", "pprof: group by this label below the root, such as thread",
	)
	f.BoolVar(&read.PID, "pids", false, "perf script: one root per process ID")
	f.BoolVar(&read.TID, "tids", false, "perf script: one root per thread ID")
	f.BoolVar(
		&read.Addresses, "addresses", false,
		"perf script: show functions without a name by address",
	)
	f.BoolVar(
		&read.Marks, "marks", false,
		"perf script: append _[k] to kernel functions and _[j] to JIT-compiled ones",
	)
	f.BoolVar(
		&read.Offsets, "offsets", false,
		"DTrace and bpftrace: one frame per call site, not per function",
	)
	f.StringVar(
		&memory, "memory", "8GiB", "fail when reading a profile takes more memory than this",
	)
	for _, flag := range []string{"per"} {
		if err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions([]string{"sample", "cpu-second", "work"}, cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag was made some lines above
		}
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		format, err := o.chosen()
		if err != nil {
			return err
		}
		if read.Memory, err = parseSize("memory", memory); err != nil {
			return err
		}
		if !d.on {
			for _, flag := range []string{"per", "cpu-seconds", "work", "json"} {
				if c.Flags().Changed(flag) {
					return usagef("--%s needs --diff", flag)
				}
			}
			if format.least != nil &&
				len(args) < 2 { // of several, what is little in each may be much in all
				read.Least = format.least(o.picture(""))
			}
			t, err := p.profiles(c.Context(), args, read)
			if err != nil {
				return err
			}
			return o.put(p.Terminal, t, strings.Join(args, ", "))
		}
		norm, err := d.norm()
		switch {
		case err != nil:
			return err
		case len(args) != 2 && (len(args) != 1 || args[0] == "-"):
			return usagef(
				"--diff compares two files, BEFORE and AFTER, or the two amounts of one; there are %d",
				len(args),
			)
		case len(args) == 2 && args[0] == "-" && args[1] == "-":
			return usagef("standard input is one profile: --diff needs two")
		case o.output != "" && (format.differ == nil || o.output == "-"):
			return usagef("-o %s: --diff writes svg, html or folded to a file", o.output)
		case o.table || o.format != "" && o.output == "":
			return usagef("--diff prints a table, or with -o writes svg, html or folded to a file")
		}
		return p.diff(c.Context(), args, read, norm, o, format, d.json)
	}
	return c
}

// profiles reads files, or standard input when there are none, and adds them up. What may mislead
// is told.
func (p Program) profiles(
	ctx context.Context, names []string, o profile.Options,
) (*profile.Tree, error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	if p.Reading != nil {
		p.Reading()
	}
	var all []*profile.Tree
	for _, name := range names {
		t, err := readProfile(ctx, name, o)
		if err != nil {
			return nil, err
		}
		for _, n := range t.Notes {
			fmt.Fprintln(p.Terminal.Err, "culprit: "+view.Clean(name+": "+n))
		}
		all = append(all, t)
	}
	return profile.Merge(all...)
}

func (p Program) diff(
	ctx context.Context, names []string, read profile.Options, n profile.Norm, o pictured,
	format written, asJSON bool,
) error {
	of := names
	if len(names) == 1 { // of folded stacks with two amounts
		of, read.Amount = []string{names[0], names[0]}, 1
	}
	before, err := p.profiles(ctx, names[:1], read)
	if err != nil {
		return err
	}
	if len(names) == 1 {
		read.Amount = 2
	}
	after, err := p.profiles(ctx, of[1:], read)
	if err != nil {
		return err
	}
	d, err := profile.Compare(before, after, n)
	if err != nil {
		return fmt.Errorf("compare %s and %s: %w", of[0], of[1], err)
	}
	if o.output != "" {
		if err := into(p.Terminal, o.output, func(w io.Writer) error { return format.differ(w, d, o.picture(d.NormText)) }); err != nil {
			return err
		}
	}
	return into(p.Terminal, "", func(w io.Writer) error {
		if asJSON {
			return profile.WriteChangesJSON(w, d, o.rows)
		}
		return profile.WriteChanges(w, d, o.rows)
	})
}

// readProfile reads a file, or for - standard input.
func readProfile(
	ctx context.Context, name string, o profile.Options,
) (*profile.Tree, error) {
	if name == "-" {
		return profile.Read(ctx, os.Stdin, "standard input", o)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: %w", name, measure.ErrUnsupported)
	}
	return profile.Read(ctx, f, name, o)
}
