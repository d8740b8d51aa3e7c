package main

import (
	"context"
	"os"
	"runtime"

	"culprit/trace"
	"culprit/trace/command"
	"culprit/view/term"
)

// runBpftrace runs a program of bpftrace and returns the exit status. first runs a function on the
// first thread of the process; nil: any thread will do.
func runBpftrace(
	ctx context.Context, t term.Bpftracing, terminal term.Terminal, first func(func()),
) (int, error) {
	// The buffers of a busy program must be drained while its output is written.
	runtime.GOMAXPROCS(runtime.NumCPU())
	files, end := toolFiles()
	defer end()
	r := command.BpftraceRequest{
		Files:   files,
		Program: t.Program, File: t.File, Args: t.Args, Command: t.Command, PID: t.PID,
		List: t.List, JSON: t.JSON, Quiet: t.Quiet, Verbose: t.Verbose, DryRun: t.DryRun,
		Unsafe: t.Unsafe, Cost: t.Cost,
	}
	out := terminal.Out
	if t.Output != "" {
		f, err := os.Create(t.Output)
		if err != nil {
			return 1, err
		}
		defer f.Close()
		out = f
	}
	return r.Run(ctx, trace.Streams{
		In: os.Stdin, Out: out, Err: terminal.Err, Plain: terminal.Out, Name: programName(),
		First: first,
	})
}

// bpftraceOnAnyThread is runBpftrace without a first thread.
func bpftraceOnAnyThread(
	ctx context.Context, t term.Bpftracing, terminal term.Terminal,
) (int, error) {
	return runBpftrace(ctx, t, terminal, nil)
}
