// Command culprit finds what holds a Linux machine back, and proves it. This file wires the rooms together and decides nothing.
package main

import (
	"context"
	"os"
	"os/signal"

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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	status := term.Run(ctx, term.Program{Version: version, Open: open, Terminal: term.ReadTerminal(), DiagnoseNetns: diagnoseNetns()}, os.Args[1:])
	stop()
	os.Exit(status)
}

func open(l term.Look) term.Machine {
	source := collect.New(collect.Env{Netns: l.Netns, SinceBoot: l.SinceBoot}, collect.All()...)
	return machine{dataset.New(source)}
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
