package term

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"culprit/measure"
	"culprit/view"
	"culprit/view/mcp"
	"culprit/view/show"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"
)

// mcp returns the command that serves the Model Context Protocol on standard input and output.
func (p Program) mcp() *cobra.Command {
	h := &toolHost{
		open: p.Open, diagnoseNetns: p.DiagnoseNetns, archives: *p.archives(),
		slots: make(chan struct{}, maxToolCalls), live: map[MachineOptions]Machine{},
	}
	c := &cobra.Command{
		Use:   "mcp",
		Short: "tools for programs such as language models, by the Model Context Protocol",
		Long: reflow(
			`Serves the Model Context Protocol on standard input and output, for a client that starts it. The
tools only read: diagnose, findings, ask, tool, compare, profile_diff. The resource
culprit://catalogue lists the statistics. Without a time, a tool measures this machine now; with one
it reads what culprit serve recorded. With --server or --engine all tools read that recording.
Secrets in command lines are masked, and a result has 64 kB at most.

culprit serve has the same tools at /mcp, for a token that may view.`,
			helpWidth,
		),
		Example: examples([]view.Example{
			{Line: "culprit mcp", Means: "the command line to enter in a client"},
			{
				Line:  "culprit mcp --server https://host:7410/",
				Means: "the tools on the recording of another machine",
			},
		}),
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := c.Flags()
	f.SortFlags = false
	h.past.place(f)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if _, err := h.past.location(); err != nil {
			return err
		}
		err := mcp.New(h, p.Version).Run(c.Context(), &sdk.StdioTransport{})
		if errors.Is(err, context.Canceled) { // a signal
			return nil
		}
		return err
	}
	return c
}

const (
	// maxToolCalls is the number of tools that run at the same time. Others wait.
	maxToolCalls = 2
	// toolTimeout is how long a tool may take.
	toolTimeout = 3 * time.Minute
	// maxLiveMachines bounds the machines that are kept open: one per network namespace.
	maxLiveMachines = 8
)

// toolHost is the machine of `culprit mcp`. It implements mcp.Host.
type toolHost struct {
	archives
	open          func(MachineOptions) (Machine, error)
	diagnoseNetns string
	past          pastFlags // only the place of the recording
	slots         chan struct{}

	mu   sync.Mutex // guards live
	live map[MachineOptions]Machine
}

// Live implements mcp.Host. A machine may have a process that reads symbols, so it is kept.
func (h *toolHost) Live(netns string, diagnosing bool) (show.Machine, error) {
	if h.past.server != "" || h.past.engine.isSet() {
		return nil, nil
	}
	o := MachineOptions{Netns: netns}
	if diagnosing {
		o.Budget = show.DiagnosisBudget
		if netns == "" {
			o.Netns = h.diagnoseNetns
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m := h.live[o]; m != nil {
		return m, nil
	}
	if len(h.live) >= maxLiveMachines {
		return nil, fmt.Errorf("more than %d network namespaces: start culprit mcp again",
			maxLiveMachines)
	}
	m, err := h.open(o)
	if err == nil {
		h.live[o] = m
	}
	return m, err
}

// Recording implements mcp.Host.
func (h *toolHost) Recording() (show.Recorded, error) {
	return h.archives.at(&h.past)
}

// Stats implements mcp.Host.
func (h *toolHost) Stats() ([]measure.Stat, error) {
	m, err := h.Live("", false)
	if err != nil || m != nil {
		return statsOf(m), err
	}
	r, err := h.Recording()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	return statsOf(r.Replay(r.Held(), "")), nil
}

func statsOf(m Machine) []measure.Stat {
	if m == nil {
		return nil
	}
	return m.Stats()
}

// Do implements mcp.Host.
func (h *toolHost) Do(ctx context.Context, f func(context.Context) error) error {
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.slots }()
	ctx, cancel := context.WithTimeoutCause(ctx, toolTimeout,
		fmt.Errorf("it took longer than %v: choose a shorter time", toolTimeout))
	defer cancel()
	return f(ctx)
}
