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
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/probe"
)

// scriptStarter returns a function that starts scripts whose maps take at most that many bytes of
// kernel memory in sum; 0: no limit. files reads files of processes; nil: this process does.
func scriptStarter(memory int64, files *symbol.Files) dataset.Starter {
	var pool *trace.MemoryPool
	if memory > 0 {
		pool = trace.NewMemoryPool(uint64(memory))
	}
	return func(k measure.Script) (dataset.Runner, error) { return startScript(k, pool, files) }
}

// startScript compiles and starts a script on the server. It returns when BEGIN has run. The error
// contains diagnostics, with positions in the script's text.
func startScript(
	k measure.Script, pool *trace.MemoryPool, files *symbol.Files,
) (dataset.Runner, error) {
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	env.Files = files
	output := &outputTail{}
	source, err := trace.NewSource(
		k.Name,
		trace.Script{Text: k.Text, Mode: syntax.Mode{Last: syntax.PartName}, Memory: pool},
		trace.Budget(k.Budget), env, output,
	)
	if err != nil {
		return nil, withPositions(k.Text, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	go source.Live(ctx) //nolint:errcheck // the Source keeps the error: Err
	select {
	case <-source.Begun():
	case <-source.Ended(): // BEGIN has called exit
	}
	// The kernel's types, tens of megabytes, are garbage after compiling.
	time.AfterFunc(time.Second, debug.FreeOSMemory)
	return &scriptRunner{source, stop, output}, nil
}

// withPositions converts syntax.Diagnostics in err to measure.Diagnostics, which carry the whole
// text and the position in it. It returns other errors as they are.
func withPositions(text string, err error) error {
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

// A scriptRunner is a script that runs in the server.
type scriptRunner struct {
	*trace.Source
	stop   context.CancelFunc
	output *outputTail
}

// Stop ends the script, and returns when its programs are out of the kernel.
func (r *scriptRunner) Stop() {
	r.stop()
	<-r.Ended()
}

// Output returns the last lines that the script printed, at most maxOutputTail bytes.
func (r *scriptRunner) Output() string { return r.output.String() }

// An outputTail is a writer that keeps the end of its input. It may be used concurrently.
type outputTail struct {
	mu   sync.Mutex
	last []byte // at most 2*maxOutputTail bytes
}

// maxOutputTail is the number of bytes of a script's output that the server keeps.
const maxOutputTail = 32 << 10

// Write implements io.Writer. It never fails.
// Write implements io.Writer. It never fails.
func (t *outputTail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, b...)
	if len(t.last) > 2*maxOutputTail {
		t.last = append(t.last[:0], t.last[len(t.last)-maxOutputTail:]...)
	}
	return len(b), nil
}

// String returns the last maxOutputTail bytes. If more were written, it starts at a line's start.
func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := t.last
	if len(b) > maxOutputTail {
		b = b[len(b)-maxOutputTail:]
		for i, c := range b {
			if c == '\n' {
				b = b[i+1:]
				break
			}
		}
	}
	return string(b)
}
