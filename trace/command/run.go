package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/trace"
	"culprit/trace/probe"
)

// Run runs the request until it is done or the context ends, and returns the status of exit(). It
// fails with a syntax.Diagnostics when the script is wrong, and when a process or a file does not
// exist or the kernel cannot run the script.
func (r *Request) Run(ctx context.Context, std trace.Streams) (status int, err error) {
	s, err := r.text(std.In)
	if err != nil {
		return 0, err
	}
	if r.headersShown() {
		for _, h := range s.included {
			fmt.Fprintf(std.Err, "%s %s\n", strings.Repeat(".", h.Depth), h.Name)
		}
	}
	for _, w := range s.warnings {
		fmt.Fprintf(std.Err, "%s: warning: %s\n", std.Name, w.Marked())
	}
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()
	env.Files = r.Files
	when, err := r.stopAt(s)
	if err != nil {
		return 0, err
	}
	target, err := r.target(when, std.Plain, std.Err)
	if err != nil {
		return 0, err
	}
	defer target.close()
	env.Processes, env.Started = target.all, target.started()
	options := check.Options{
		Destructive: r.Destructive,
		Probes:      r.Zero,
		Args:        append([]string{s.name}, r.Args...),
		Target:      int64(target.first),
		All:         r.settings(),
		Words:       trace.ProcessMacros(),
	}
	if r.List {
		return 0, r.list(env, s, options, std.Out)
	}
	c, err := compile(s, options, env, std)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(std.Out, 64<<10)
	defer func() {
		if e := out.Flush(); err == nil && e != nil {
			err = fmt.Errorf("print: %w", e)
		}
	}()
	if r.Listing {
		c.Disassemble(out)
	}
	if r.CompileOnly {
		return 0, nil
	}
	session, err := load(ctx, c, env, std)
	if err != nil && ctx.Err() != nil {
		return 0, errStopped
	}
	if err != nil {
		return 0, err
	}
	defer session.Close()
	return r.runSession(ctx, session, s, target, out, std)
}

// compile compiles a script and prints its warnings. Errors have dtrace's tags with -x errtags.
func compile(
	s source, options check.Options, env *probe.Env, std trace.Streams,
) (*trace.Compiled, error) {
	script := trace.Script{
		Text:    s.text,
		File:    s.file,
		Mode:    s.mode,
		Options: options,
		Origins: s.origins,
	}
	c, err := trace.Compile(script, env, gen.Limits{})
	if err != nil {
		var ds syntax.Diagnostics
		if _, tags := options.All["errtags"]; tags && errors.As(err, &ds) {
			err = tagged(ds)
		}
		return nil, err
	}
	for _, w := range c.Program.Warnings {
		// dtrace warns of this when the script runs.
		if w.Code == check.UnknownOption && std.Name == "dtrace" {
			continue
		}
		fmt.Fprintf(std.Err, "%s: warning: %s\n", std.Name, w.Marked())
	}
	return c, nil
}

// errStopped is the error of a request that was stopped early.
var errStopped = errors.New("stopped before the kernel had loaded the program")

// load loads a script, prints its caveats and sets its budget. The caller closes the session.
func load(
	ctx context.Context, c *trace.Compiled, env *probe.Env, std trace.Streams,
) (s *trace.Session, err error) {
	session, err := trace.LoadUntil(ctx, c, env)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			session.Close()
		}
	}()
	for _, caveat := range session.Caveats() {
		fmt.Fprintf(std.Err, "%s: warning: %s\n", std.Name, caveat)
	}
	_, cost := c.Program.Options.All["cost"]
	if budget, ok := c.Program.Options.All["budget"]; ok {
		if session.Budget, err = trace.ParseBudget(budget); err != nil {
			return nil, err
		}
	}
	if cost || session.Budget > 0 {
		if err := session.CountCosts(); err != nil {
			return nil, err
		}
	}
	return session, nil
}

// runSession runs a loaded script, whose commands start when its clauses run.
func (r *Request) runSession(
	ctx context.Context, session *trace.Session, s source, target *targets, out *bufio.Writer,
	std trace.Streams,
) (status int, err error) {
	p := trace.NewPrinter(session, out, std)
	reportMatches(p, session, s)
	var to trace.Listener = p
	if r.JSON {
		to = trace.NewJSONPrinter(session, out, std)
	}
	if std.First != nil {
		session.RunOn = std.First
	}
	target.arrived = session.AtEntryPoint()
	session.OnStart = func() {
		target.release() // after the clauses run, so that a command is traced from its begin
		if r.begun != nil {
			go r.begun()
		}
	}
	if session.HasOption("cost") {
		end := reportCosts(session, std.Err, func(c *costReport) {
			if r.JSON {
				c.lines(out, false) //nolint:errcheck // Run flushes out again
			} else {
				c.write(std.Err)
			}
		})
		defer end()
	}
	status, err = session.Run(ctx, to, target.ended())
	if errors.Is(err, trace.ErrNoReader) {
		err = nil
	}
	return status, err
}

// tagged returns diagnostics whose messages begin with dtrace's tag of the error, for programs that
// parse them.
func tagged(ds syntax.Diagnostics) syntax.Diagnostics {
	out := make(syntax.Diagnostics, len(ds))
	for i, d := range ds {
		t := *d
		if t.Tag != "" {
			t.Message = "[" + t.Tag + "] " + t.Message
		}
		out[i] = &t
	}
	return out
}

// reportMatches prints how many probes each program of a request matched, and which could not be
// attached.
func reportMatches(p *trace.Printer, session *trace.Session, s source) {
	quiet := session.HasOption("quiet")
	if session.HasOption("destructive") && !quiet {
		p.Say("allowing destructive actions")
	}
	if !quiet {
		for _, part := range s.parts {
			n := 0
			for _, c := range session.Program().Clauses {
				if at := int(c.At.From); at >= part.from && at < part.to && !c.Hidden {
					n += len(c.Probes)
				}
			}
			what := "description"
			if part.flag == 's' {
				what = "script"
			}
			word := "probes"
			if n == 1 {
				word = "probe"
			}
			p.Say("%s '%s' matched %d %s", what, part.name, n, word)
		}
	}
	if a := session.Attachment(); len(a.Skipped)+len(a.Passed) > 0 {
		p.Say("%v", a)
	}
}
