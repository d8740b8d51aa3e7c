package main

import (
	"runtime/debug"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/remote"
	"culprit/symbol"
	"culprit/trace"
	"culprit/trace/complete"
	"culprit/trace/probe"
)

// keptEnv is how long the lists and types of the kernel stay in memory after a completion: somebody
// who types asks several times a minute.
const keptEnv = 30 * time.Second

// A completer answers what may be written in D programs, one request after the other.
type completer struct {
	files *symbol.Files // nil: this process reads files of processes
	mu    sync.Mutex    // guards the fields below
	env   *probe.Env    // nil: not open
	used  time.Time     // when env was used last
}

// complete answers a request. The error of a check has a measure.Diagnostic for each mistake.
func (c *completer) complete(q remote.Completing) (*remote.Completion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.env == nil {
		env := probe.NewEnv(kernel.Root{})
		env.Files = c.files
		c.env = env
		time.AfterFunc(keptEnv, c.close)
	}
	defer func() { c.used = time.Now() }()
	var got *complete.Completion
	var err error
	switch {
	case q.Check:
		script := trace.Script{Text: q.Text, Mode: syntax.Mode{Last: syntax.PartName}}
		script.Options.Args, script.Options.Words = []string{"script"}, trace.ProcessMacros()
		if _, err = trace.Compile(script, c.env, gen.Limits{}); err != nil {
			return nil, withPositions(q.Text, err)
		}
		return &remote.Completion{}, nil
	case q.Match != "":
		if got, err = complete.Match(c.env, q.Match); err != nil {
			return nil, withPositions(q.Match, err)
		}
	default:
		if got, err = complete.At(c.env, q.Text, q.Pos); err != nil {
			return nil, err
		}
	}
	out := &remote.Completion{From: got.From, To: got.To, More: got.More}
	for _, w := range got.Words {
		out.Words = append(out.Words, remote.CompletionWord(w))
	}
	return out, nil
}

// close closes env, or looks again later if it was used meanwhile.
func (c *completer) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := keptEnv - time.Since(c.used); left > 0 {
		time.AfterFunc(left, c.close)
		return
	}
	_ = c.env.Close() // only read
	c.env = nil
	time.AfterFunc(time.Second, debug.FreeOSMemory)
}
