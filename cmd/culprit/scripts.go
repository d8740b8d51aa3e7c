package main

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"culprit/dataset"
	"culprit/kernel"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/probe"
)

// startScript begins a script of the server's.
func startScript(k measure.Script) (dataset.Runner, error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	said := &tail{}
	source, err := trace.NewSource(
		k.Name, trace.Script{Text: k.Text, Mode: syntax.Mode{Last: syntax.PartName}},
		trace.Budget(k.Budget), env, said,
	)
	if err != nil {
		return nil, diagnosed(k.Text, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go source.Live(ctx) //nolint:errcheck // Why tells it
	select {
	case <-source.Begun():
	case <-source.Ended(): // in BEGIN
	}
	// What the compiler read of the kernel's types is garbage now, tens of megabytes.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	return &runner{source, stop, said}, nil
}

// diagnosed makes what is wrong with a script what the other rooms show, each with its place in the
// whole text.
func diagnosed(text string, err error) error {
	var all syntax.Diagnostics
	if !errors.As(err, &all) {
		return err
	}
	var out []error
	for _, d := range all {
		m := d.Measure()
		m.Text, m.Pos = text, d.Pos
		out = append(out, m)
	}
	return errors.Join(out...)
}

// runner is a script that runs in the server.
type runner struct {
	*trace.Source
	stop context.CancelFunc
	said *tail
}

// Stop ends it, and waits until nothing of it is in the kernel.
func (r *runner) Stop() {
	r.stop()
	<-r.Ended()
}

// Said gives the last of what it printed.
func (r *runner) Output() string { return r.said.String() }

// tail keeps the last of what is written to it.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// mostSaid is how much of what a script prints is kept.
const mostSaid = 32 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if len(t.last) > 2*mostSaid {
		t.last = append(t.last[:0], t.last[len(t.last)-mostSaid:]...)
	}
	return len(b), nil
}

// String gives it from the start of a line on.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.last
	if len(b) > mostSaid {
		b = b[len(b)-mostSaid:]
		for i, c := range b {
			if c == '\n' {
				b = b[i+1:]
				break
			}
		}
	}
	return string(b)
}
