package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"culprit/dataset"
	"culprit/kernel"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/command"
	"culprit/trace/probe"
	"culprit/view/term"
)

// runTrace runs a D program and returns the exit status. first runs a function on the first thread
// of the process; nil: any thread will do.
func runTrace(
	ctx context.Context, t term.Tracing, terminal term.Terminal, first func(func()),
) (int, error) {
	// The buffers of a busy script must be drained while its output is written.
	runtime.GOMAXPROCS(runtime.NumCPU())
	files, end := toolFiles()
	defer end()
	r := command.Request{
		Files: files, Tool: t.Tool,
		Args: t.Args, Options: t.Options, Commands: t.Commands, Processes: t.Processes,
		List: t.List, Verbose: t.Verbose, CompileOnly: t.CompileOnly, Listing: t.Listing,
		Destructive: t.Destructive, Zero: t.Zero, JSON: t.JSON,
	}
	for _, p := range t.Parts {
		r.Parts = append(r.Parts, command.Part(p))
	}
	out := terminal.Out
	if t.Output != "" {
		f, err := os.OpenFile(t.Output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
		if err != nil {
			return 1, err
		}
		defer f.Close()
		out = f
	}
	return r.Run(
		ctx,
		trace.Streams{
			In:    os.Stdin,
			Out:   out,
			Err:   terminal.Err,
			Plain: terminal.Out,
			Name:  programName(),
			First: first,
		},
	)
}

// traceOnAnyThread is runTrace without a first thread.
func traceOnAnyThread(ctx context.Context, t term.Tracing, terminal term.Terminal) (int, error) {
	return runTrace(ctx, t, terminal, nil)
}

// programName returns the name by which the program was called, without the directory.
func programName() string { return filepath.Base(os.Args[0]) }

// openScript compiles a D program and returns a machine whose statistics are its aggregations. The
// script starts at the first Watch and prints to output. The caller calls the function that ends
// it.
func openScript(
	ctx context.Context, name, file, text string, output *os.File,
) (term.Machine, func(), error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close()          //nolint:errcheck // only read
	env.Files, _ = toolFiles() // it ends with this process
	source, err := trace.NewSource(
		name, trace.Script{Text: text, File: file, Mode: syntax.Mode{Last: syntax.PartName}}, 0,
		env, output,
	)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	m := &scriptMachine{machine: machine{Catalogue: dataset.New(source)}, source: source, ctx: ctx}
	return m, func() {
		cancel()
		m.end()
	}, nil
}

// end returns when the script's programs are out of the kernel. Its context must have ended.
func (s *scriptMachine) end() {
	if s.running {
		<-s.source.Ended()
	} else {
		s.source.Close()
	}
}

// A scriptMachine has the statistics of one script.
type scriptMachine struct {
	machine
	source  *trace.Source
	ctx     context.Context // the script runs until it ends
	running bool            // Watch was called
}

// Watch starts the script at its first call, reports the answers of each tick, and returns when the
// script ends. The error is of the script.
func (s *scriptMachine) Watch(
	ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	if !s.running {
		s.running = true
		go s.source.Live(s.ctx) //nolint:errcheck // the Source keeps the error: Err
	}
	select {
	case <-s.source.Begun():
	case <-s.source.Ended(): // BEGIN has called exit
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := s.Catalogue.Watch(ctx, queries, func(t *measure.Tick) error {
		if t.Over.Span() == 0 {
			select {
			case <-s.source.Ended():
				stop()
				return nil
			default:
			}
		}
		return each(t)
	})
	select {
	case <-s.source.Ended():
		if err == nil {
			err = s.source.Err()
		}
	default:
	}
	return err
}
