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

// outputFlags holds the flags for the output of a profile.
type outputFlags struct {
	output   string
	format   string
	title    string
	width    int
	inverted bool
	page     func() *profile.Page // Program.ProfilePage
	table    bool
	lines    bool // only of flame
	rows     int
}

func (o *outputFlags) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(
		&o.output, "output", "o", "",
		"write to this file, in the format of its name's end: "+strings.Join(formatNames(), " "),
	)
	f.StringVar(&o.format, "format", "", "the format, if the name of the file does not show it")
	f.BoolVar(
		&o.table, "table", false, "a table of functions as lockstat's: Count indv cuml CPU Caller",
	)
	f.IntVarP(&o.rows, "rows", "n", 40, "table: N rows, 0 for all")
	f.StringVar(&o.title, "title", "", "title of a picture")
	f.IntVar(&o.width, "width", 1200, "width of an SVG, in pixels")
	f.BoolVar(&o.inverted, "inverted", false, "SVG: the root at the top")
	completeWith(c, "format", formatNames())
}

// outputFormat is a format in which profiles are written.
type outputFormat struct {
	name  string
	write func(io.Writer, *profile.Tree, profile.Picture) error
	// Nil: it can't show a difference.
	differ func(io.Writer, *profile.Diff, profile.Picture) error
	// Smallest share of the whole that is visible; nil: everything is.
	minShare func(profile.Picture) float64
}

// formats returns the formats in which a profile is written to a file.
func formats() []outputFormat {
	return []outputFormat{
		{"svg", profile.WriteSVG, profile.WriteDiffSVG, profile.Picture.Least},
		{"html", profile.WriteHTML, profile.WriteDiffHTML, nil},
		{
			"folded",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error {
				return profile.WriteFolded(w, t)
			},
			func(w io.Writer, d *profile.Diff, _ profile.Picture) error {
				return profile.WriteDiffFolded(w, d)
			},
			nil,
		},
		{
			"pb.gz",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error {
				return profile.WritePProf(w, t)
			},
			nil,
			nil,
		},
		{"firefox.json", func(w io.Writer, t *profile.Tree, p profile.Picture) error {
			return profile.WriteFirefox(w, t, p.Note)
		}, nil, nil},
		{"json", func(w io.Writer, t *profile.Tree, p profile.Picture) error {
			return profile.WriteSpeedscope(w, t, p.Note)
		}, nil, nil},
		{
			"txt",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error {
				return profile.WriteText(w, t)
			},
			nil,
			nil,
		},
	}
}

func formatNames() []string {
	var out []string
	for _, f := range formats() {
		out = append(out, f.name)
	}
	return out
}

// selectFormat returns the selected format. Without --format and -o it is text for a terminal.
func (o *outputFlags) selectFormat() (outputFormat, error) {
	if o.width < 100 || o.width > 100_000 {
		return outputFormat{}, usagef("--width %d is out of range: 100 to 100000", o.width)
	}
	if o.lines {
		if o.format != "" || o.table {
			return outputFormat{}, usagef("--lines excludes --table and --format")
		}
		return outputFormat{"lines", o.writeLines, nil, nil}, nil
	}
	if o.table {
		if o.format != "" {
			return outputFormat{}, usagef("--table and --format exclude each other")
		}
		return outputFormat{
			"table",
			func(w io.Writer, t *profile.Tree, _ profile.Picture) error {
				return profile.WriteTable(w, t, o.rows)
			},
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
		if want == f.name || o.format == "" && strings.HasSuffix(want, "."+f.name) {
			return f, nil
		}
	}
	if o.format != "" {
		return outputFormat{}, usagef(
			"--format %s is none of %s%s", o.format, strings.Join(formatNames(), " "),
			didYouMean(o.format, formatNames()),
		)
	}
	return outputFormat{}, usagef(
		"-o %s: the format follows from the end of the name, which is none of .%s; or use --format",
		o.output, strings.Join(formatNames(), " ."),
	)
}

// writeLines writes the table of source lines.
func (o *outputFlags) writeLines(w io.Writer, t *profile.Tree, _ profile.Picture) error {
	if !t.HasLines() {
		return fmt.Errorf("the frames of this profile have no source lines; those of pprof, "+
			"OpenTelemetry, Firefox and speedscope may: %w", measure.ErrUnsupported)
	}
	return profile.WriteLines(w, t, o.rows)
}

func (o *outputFlags) picture(note string) profile.Picture {
	p := profile.Picture{Title: o.title, Note: note, Width: o.width, Inverted: o.inverted}
	if o.page != nil {
		p.Page = o.page()
	}
	return p
}

// write writes a profile to the selected file.
func (o *outputFlags) write(t Terminal, p *profile.Tree, note string) error {
	f, err := o.selectFormat()
	if err != nil {
		return err
	}
	return writeFile(t, o.output, func(w io.Writer) error { return f.write(w, p, o.picture(note)) })
}

// writeFile writes a file, or standard output for "" and "-". It replaces an existing file only
// after everything was written, and leaves no partial file behind.
func writeFile(t Terminal, name string, write func(io.Writer) error) (failed error) {
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
			f.Close()           //nolint:errcheck // the write has failed already
			os.Remove(f.Name()) //nolint:errcheck // as above
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

// diffFlags holds the flags for comparing two profiles.
type diffFlags struct {
	on         bool
	per        string
	cpuSeconds string
	work       string
	json       bool
}

func (d *diffFlags) norm() (profile.Norm, error) {
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
	o := outputFlags{page: p.ProfilePage}
	var d diffFlags
	var read profile.Options
	var memory string
	c := &cobra.Command{
		Use:   "flame [flags] [FILE]...",
		Short: "flame graphs of profiles in any common format, and comparison of two",
		Long: reflow(
			`Reads profiles, stacks with an amount each, and writes them as a picture, a page, a table, or in
another format. It reads what DTrace prints of stack() and ustack(), perf script, folded stacks,
perf.data, Java's Flight Recorder, pprof (also -raw), OTLP, speedscope, Firefox's and Chrome's
profiles, bpftrace (also -f json), V8's .cpuprofile, jstack, gdb, eu-stack, Python's faulthandler, sample and xctrace of macOS, GHC's .prof, VTune's and Visual Studio's call
trees, packed by gzip, zstd, xz, bzip2 or not. It recognizes the format by the contents. Several files are
added up.
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
			{
				Line:  "perf script -F +pid | culprit flame --by process,thread -o out.html",
				Means: "by process and thread; threads of a pool are one",
			},
			{Line: "culprit flame cpu.pb.gz --table", Means: "functions, as lockstat prints them"},
			{Line: "culprit flame cpu.pb.gz --lines", Means: "source lines"},
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
		"perf and JFR: the samples of this event (default: the first event, of JFR the CPU's)",
	)
	f.StringVar(&read.Value, "value", "", "pprof, OTLP, GHC and JFR: which of the amounts")
	f.StringVar(
		&read.Label, "label", "", "pprof and OTLP: group by this label below the root (thread)",
	)
	byFlag(c, &read.By)
	f.BoolVar(&read.PID, "pids", false, "perf: one root per process ID")
	f.BoolVar(&read.TID, "tids", false, "perf: one root per thread ID")
	f.BoolVar(
		&read.Addresses, "addresses", false,
		"perf: show functions without a name by address",
	)
	f.BoolVar(
		&read.Marks, "marks", false,
		"perf: append _[k] to kernel functions and _[j] to JIT-compiled ones",
	)
	f.BoolVar(
		&read.Offsets, "offsets", false,
		"DTrace and bpftrace: one frame per call site, not per function",
	)
	f.StringVar(
		&memory, "memory", "8GiB", "fail when reading a profile takes more memory than this",
	)
	completeWith(c, "per", []string{"sample", "cpu-second", "work"})
	printer := p.profilePrinter()
	f.BoolVar(
		&o.lines, "lines", false,
		"a table of source lines by their own amount, of profiles whose frames have lines",
	)
	c.RunE = func(c *cobra.Command, args []string) error {
		format, err := o.selectFormat()
		if err != nil {
			return err
		}
		if err := checkBy(c, read.By); err != nil {
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
			// A call that is small in each of several files may be large in their sum.
			if format.minShare != nil && len(args) < 2 {
				read.Least = format.minShare(o.picture(""))
			}
			read.Times = format.name == "html"
			t, err := printer.profiles(c.Context(), args, read)
			if err != nil {
				return err
			}
			return o.write(p.Terminal, t, strings.Join(args, ", "))
		}
		norm, err := d.norm()
		switch {
		case err != nil:
			return err
		case len(args) != 2 && (len(args) != 1 || args[0] == "-"):
			return usagef(
				"--diff compares two files, BEFORE and AFTER, or the two amounts of one; "+
					"there are %d",
				len(args),
			)
		case len(args) == 2 && args[0] == "-" && args[1] == "-":
			return usagef("standard input is one profile: --diff needs two")
		case o.output != "" && (format.differ == nil || o.output == "-"):
			return usagef("-o %s: --diff writes svg, html or folded to a file", o.output)
		case o.table || o.lines || o.format != "" && o.output == "":
			return usagef("--diff prints a table, or with -o writes svg, html or folded to a file")
		}
		return printer.diff(c.Context(), args, read, norm, o, format, d.json)
	}
	return c
}

// profiles reads files, or standard input without names, and adds them up. It prints their notes.
func (p *profilePrinter) profiles(
	ctx context.Context, names []string, o profile.Options,
) (*profile.Tree, error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	if p.readsFiles != nil {
		p.readsFiles()
	}
	if p.names != nil {
		o.Names = p.names()
	}
	var all []*profile.Tree
	for _, name := range names {
		t, err := p.readProfile(ctx, name, o)
		if err != nil {
			return nil, err
		}
		for _, n := range t.Notes {
			fmt.Fprintln(p.terminal.Err, "culprit: "+view.Clean(name+": "+n))
		}
		all = append(all, t)
	}
	return profile.Merge(all...)
}

func (p *profilePrinter) diff(
	ctx context.Context, names []string, read profile.Options, n profile.Norm, o outputFlags,
	format outputFormat, asJSON bool,
) error {
	of := names
	if len(names) == 1 { // folded stacks with two amounts
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
		err := writeFile(p.terminal, o.output, func(w io.Writer) error {
			return format.differ(w, d, o.picture(d.NormText))
		})
		if err != nil {
			return err
		}
	}
	return writeFile(p.terminal, "", func(w io.Writer) error {
		if asJSON {
			return profile.WriteChangesJSON(w, d, o.rows)
		}
		return profile.WriteChanges(w, d, o.rows)
	})
}

// readProfile reads a file, or standard input for "-".
func (p *profilePrinter) readProfile(
	ctx context.Context, name string, o profile.Options,
) (*profile.Tree, error) {
	if name == "-" {
		in, end := p.terminal.progress(os.Stdin, "standard input", 0)
		defer end()
		return profile.Read(ctx, in, "standard input", o)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := int64(0)
	if info, err := f.Stat(); err == nil {
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a directory: %w", name, measure.ErrUnsupported)
		}
		size = info.Size()
	}
	in, end := p.terminal.progress(f, name, size)
	defer end()
	return profile.Read(ctx, in, name, o)
}
