// Command culprit finds what holds a Linux machine back, and proves it. This file wires the rooms together and decides nothing.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"culprit/collect"
	"culprit/dataset"
	"culprit/kernel"
	"culprit/measure"
	"culprit/view/term"

	"golang.org/x/sys/unix"
)

// version is set by the build (make build).
var version = "unversioned"

func main() {
	tune()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	status := term.Run(ctx, term.Program{Version: version, Open: open, Terminal: term.ReadTerminal(), DiagnoseNetns: diagnoseNetns()}, os.Args[1:])
	stop()
	os.Exit(status)
}

// tune fits the Go runtime to a tool that wakes once a second, works for a millisecond and sleeps. What the user sets in GOMAXPROCS
// and GOGC stands.
//
// With more than one processor the runtime wakes further threads at each tick, in case there is work for them: half of what
// an interval then costs, and on a busy machine time taken from others. Whoever works on several sets it back.
//
// The heap may grow by half until it is collected, not to the double. With 20,000 connections that keeps 9 MB of 35
// and costs no CPU time that could be measured, since a collection takes 2 ms and most of an interval is spent in the kernel.
func tune() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}

func open(l term.Look) (term.Machine, error) {
	if err := collect.CheckNetns(l.Netns); err != nil {
		return nil, err
	}
	source := collect.New(collect.Env{Netns: l.Netns, SinceBoot: l.SinceBoot}, collect.All()...)
	return machine{dataset.New(source)}, nil
}

// machine is a catalogue whose recordings are readers.
type machine struct{ *dataset.Catalogue }

func (m machine) Record(ctx context.Context, queries []measure.Query, n int, progress func(int)) (measure.Reader, error) {
	return m.Catalogue.Record(ctx, queries, n, progress)
}

// diagnoseNetns gives "all" in the host's own network namespace, else "": who works inside another one means that one.
func diagnoseNetns() string {
	if (kernel.Root{}).InHostNetNS() {
		return "all"
	}
	return ""
}
