package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"

	"culprit/kernel"
	"culprit/lang/bpftrace"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/probe"
	"culprit/trace/stop"

	"golang.org/x/sys/unix"
)

// A BpftraceRequest is a command line of bpftrace.
type BpftraceRequest struct {
	Program string   // the text; "" with File
	File    string   // - is standard input
	Args    []string // $1 ...
	Command string   // -c: start it, and end with it; "": none
	PID     int      // -p; 0: none
	List    bool     // print the probes that Args match, or all
	JSON    bool
	Quiet   bool
	Verbose bool
	DryRun  bool // compile only
	Unsafe  bool
	Cost    bool // print what the clauses cost, at the end and at SIGUSR1
	// Files reads files of processes; nil: this process does.
	Files *symbol.Files

	settings bpftrace.Settings // of the program and the environment
}

// Run runs the request until the program calls exit(), the command ends or the context ends, and
// returns the status of exit(). It fails with a syntax.Diagnostics when the program is wrong, and
// with another error when a process or file does not exist or the kernel cannot run the program.
func (r *BpftraceRequest) Run(ctx context.Context, std trace.Streams) (status int, err error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	env.Files = r.Files
	if r.List {
		return 0, r.list(env, std.Out)
	}
	text, err := r.text(std.In)
	if err != nil {
		return 0, err
	}
	from := &Request{Files: r.Files}
	if r.Command != "" {
		from.Commands = []string{r.Command}
	}
	if r.PID != 0 {
		from.Processes = []int{r.PID}
	}
	target, err := from.target(stop.Exec, std.Plain, std.Err)
	if err != nil {
		return 0, err
	}
	defer target.close()
	env.Processes, env.Started = target.all, target.started()
	script, c, err := r.compile(text, env, int64(target.first))
	if err != nil || r.DryRun {
		return 0, err
	}
	out := bufio.NewWriterSize(std.Out, 64<<10)
	defer func() {
		if e := out.Flush(); err == nil && e != nil {
			err = fmt.Errorf("print: %w", e)
		}
	}()
	p := newBpftracePrinter(script, out, std, r.JSON)
	p.settings = r.settings
	if !r.Quiet {
		p.attaching(attachments(c.Program))
		if err := out.Flush(); err != nil {
			return 0, fmt.Errorf("print: %w", err)
		}
	}
	session, err := trace.LoadUntil(ctx, c, env)
	if err != nil && ctx.Err() != nil {
		return 0, errStopped
	}
	if err != nil {
		return 0, err
	}
	defer session.Close()
	return r.runSession(ctx, session, p, target, std)
}

// text returns the program.
func (r *BpftraceRequest) text(in io.Reader) (string, error) {
	if r.File == "" {
		return r.Program, nil
	}
	b, err := readScript(r.File, in)
	return string(b), err
}

// name returns the file for messages; "" for text of a command line.
func (r *BpftraceRequest) name() string {
	if r.File == "-" {
		return "stdin"
	}
	return r.File
}

// compile parses, translates and compiles a program.
func (r *BpftraceRequest) compile(
	text string, env *probe.Env, target int64,
) (*bpftrace.Script, *trace.Compiled, error) {
	tree, ds := bpftrace.Parse(r.name(), text, r.Args)
	if len(ds) > 0 {
		return nil, nil, ds
	}
	set, err := withEnvironment(tree.Config)
	if err != nil {
		return nil, nil, err
	}
	r.settings = set
	script, ds := bpftrace.Translate(text, tree, bpftrace.Options{
		TAI: taiOffset(), Stacks: set["stack_mode"],
		File: r.name(), Unsafe: r.Unsafe, PID: r.PID, Target: target,
		Address: func(name string) (uint64, bool) {
			n, _, err := env.Symbol("", name)
			if err != nil {
				n, _, ok := env.KernelSymbols().Function(name)
				return n, ok
			}
			return n, true
		},
		Cgroup: cgroupID,
	})
	if len(ds) > 0 {
		return nil, nil, ds
	}
	length := stringLength(set["max_strlen"])
	all := map[string]string{}
	if r.Cost {
		all["cost"] = ""
	}
	missing := set["missing_probes"]
	size := int64(length)
	switch {
	case script.Joins:
		size = 1024
	case script.Paths:
		size = max(size, pathLength)
	}
	c, err := trace.Compile(trace.Script{
		Text: text, File: r.name(), Tree: script.Tree, Loops: loops(script),
		Locals: script.Locals,
		Options: check.Options{
			Bpftrace: true, StrSize: size, StrMost: int64(length) - 1, Target: target,
			Probes:      missing == "warn" || missing == "ignore",
			Destructive: r.Unsafe, All: all, Words: trace.ProcessMacros(),
		},
	}, env, gen.Limits{})
	if errors.As(err, &ds) {
		err = inBpftrace(ds)
	}
	return script, c, err
}

// pathLength is the size of strings in programs with path(): few paths are shorter than str().
const pathLength = 256

// cgroupID returns the ID of a cgroup's directory: its inode.
func cgroupID(path string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, kernel.AsError(err)
	}
	return st.Ino, nil
}

// ownNames matches the variables of the translation: this->$x#3 is $x, as is $(macro 1)x#3.
var ownNames = regexp.MustCompile(
	`(?:this->)?\$(?:\([\w ]+\))?([A-Za-z0-9_]+)(?:\.\d+)?#\d+`,
)

// inBpftrace returns diagnostics of D in the names of the program.
func inBpftrace(ds syntax.Diagnostics) syntax.Diagnostics {
	out := make(syntax.Diagnostics, len(ds))
	for i, d := range ds {
		own := *d
		own.Tag = ""
		own.Message = ownNames.ReplaceAllString(d.Message, "$$$1")
		own.Hint = ownNames.ReplaceAllString(d.Hint, "$$$1")
		out[i] = &own
	}
	return out
}

// attachments returns how many probes a program has: a probe counts once per clause.
func attachments(p *check.Program) int {
	n := 0
	for _, c := range p.Clauses {
		if c.At.To > c.At.From && !c.Continues { // not a clause of the translation
			n += len(c.Probes)
		}
	}
	return n
}

// runSession runs a loaded program, whose command starts when its clauses run.
func (r *BpftraceRequest) runSession(
	ctx context.Context, session *trace.Session, p *bpftracePrinter, target *targets,
	std trace.Streams,
) (status int, err error) {
	p.session = session
	for _, caveat := range session.Caveats() {
		fmt.Fprintf(std.Err, "%s: warning: %s\n", std.Name, caveat)
	}
	if a := session.Attachment(); len(a.Skipped)+len(a.Passed) > 0 {
		fmt.Fprintf(std.Err, "%s: warning: %v\n", std.Name, a)
	}
	if std.First != nil {
		session.RunOn = std.First
	}
	target.arrived = session.AtEntryPoint()
	session.OnStart = target.release
	if r.Cost {
		if err := session.CountCosts(); err != nil {
			return 0, err
		}
		end := reportCosts(session, std.Err, func(c *costReport) {
			if r.JSON {
				c.lines(p.out, true) //nolint:errcheck // Run flushes it again
			} else {
				c.write(std.Err)
			}
		})
		defer end()
	}
	status, err = session.Run(ctx, p, target.ended())
	if errors.Is(err, trace.ErrNoReader) {
		err = nil
	}
	return status, err
}
