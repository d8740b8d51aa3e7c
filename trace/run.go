package trace

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"culprit/kernel"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/trace/probe"

	"golang.org/x/sys/unix"
)

// Streams are where a request reads from and prints to.
type Streams struct {
	In  *os.File
	Out *os.File // what the script prints
	Err *os.File
	// Plain is the standard output, which commands that the script starts have.
	Plain *os.File
	Name  string // what the program was called: what it says of itself stands behind it
	// First runs a function on the first thread of the process, where tid is pid in BEGIN and ticks; nil: any thread does.
	First func(func())
}

// Run does what the request asks until it is over or the context ends. The status is that of exit(). A syntax.Diagnostics
// tells what is wrong with the script.
func (r *Request) Run(ctx context.Context, std Streams) (status int, err error) {
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
	options := check.Options{Destructive: r.Destructive, Probes: r.Zero, Args: append([]string{s.name}, r.Args...), Target: int64(target.first), All: r.settings(), Words: macros()}
	if r.List {
		return 0, r.list(env, s, options, std.Out)
	}
	c, err := Compile(Script{Text: s.text, File: s.file, Mode: s.mode, Options: options, origins: s.origins}, env, gen.Limits{})
	if err != nil {
		var ds syntax.Diagnostics
		if _, tags := options.All["errtags"]; tags && errors.As(err, &ds) {
			err = tagged(ds)
		}
		return 0, err
	}
	for _, w := range c.Program.Warnings {
		if w.Code == check.UnknownOption && std.Name == "dtrace" { // which tells it when it runs
			continue
		}
		fmt.Fprintf(std.Err, "%s: warning: %s\n", std.Name, w.Marked())
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
	session, err := Load(c, env)
	if err != nil {
		return 0, err
	}
	defer session.Close()
	for _, caveat := range session.caveats() {
		fmt.Fprintf(std.Err, "%s: warning: %s\n", std.Name, caveat)
	}
	_, cost := c.Program.Options.All["cost"]
	if budget, ok := c.Program.Options.All["budget"]; ok {
		if session.Budget, err = ParseBudget(budget); err != nil {
			return 0, err
		}
	}
	if cost || session.Budget > 0 {
		if err := session.count(); err != nil {
			return 0, err
		}
	}
	p := newPrinter(session, out, std)
	p.begun(s)
	var to Listener = p
	if r.JSON {
		to = newJSONPrinter(session, out, std)
	}
	began := time.Now()
	if std.First != nil {
		session.first = std.First
	}
	if namesUser(c.Program.Text) && (session.unwinder != nil || session.follower == nil) {
		target.arrived = session.arrived(session.unwinder)
	}
	session.begun = func() {
		target.release() // not sooner: what a command does first is seen
		if r.begun != nil {
			go r.begun()
		}
	}
	status, err = session.Run(ctx, to, target.ended())
	if cost {
		if all, e := session.Costs(); e == nil {
			writeCosts(std.Err, all, time.Since(began))
		}
	}
	if errors.Is(err, errGone) {
		err = nil
	}
	return status, err
}

// tagged gives diagnostics with dtrace's name of each mistake before it, for what reads them.
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

// macros gives the words that tell of this process.
func macros() map[string]string {
	out := map[string]string{}
	for name, n := range map[string]int{
		"pid": os.Getpid(), "ppid": os.Getppid(), "uid": os.Getuid(), "euid": os.Geteuid(), "gid": os.Getgid(), "egid": os.Getegid(),
		"pgid": unix.Getpgrp(), "projid": 0, "taskid": os.Getpid(),
	} {
		out[name] = strconv.Itoa(n)
	}
	if n, err := unix.Getsid(0); err == nil {
		out["sid"] = strconv.Itoa(n)
	}
	return out
}
