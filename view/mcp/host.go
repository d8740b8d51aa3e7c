// Package mcp serves the Model Context Protocol: tools by which programs such as language models
// diagnose a machine. The tools only read. Their output is bounded, and secrets in command lines
// are masked. docs/MCP.md describes them.
package mcp

import (
	"context"
	"time"

	"culprit/measure"
	"culprit/view/show"
)

// Host is the machine that the tools read. Implementations are safe for concurrent use.
type Host interface {
	// Live returns the machine that measures now. netns is a network namespace: a name, or "all".
	// With diagnosing, "" is the default of a diagnosis, and traced statistics have its budget.
	// Otherwise "" is the own namespace. nil without an error: only a recording can be read, and
	// "now" is its newest time.
	Live(netns string, diagnosing bool) (show.Machine, error)
	// Recording opens the recording. The caller closes it.
	Recording() (show.Recorded, error)
	// Stats lists all statistics, sorted.
	Stats() ([]measure.Stat, error)
	// Do calls f within the limits of the host: how many calls run at the same time, and for how
	// long. The error is that of f, or says that the host is busy.
	Do(ctx context.Context, f func(context.Context) error) error
}

// opened is a machine and the time that a tool reads.
type opened struct {
	show.Machine
	over  measure.Interval // zero: it measures when it is asked
	fine  measure.Span     // the time between two recorded ticks; 0: it measures when it is asked
	notes []string
	close func()
}

// isLive reports whether the machine measures when it is asked.
func (o *opened) isLive() bool { return o.over == measure.Interval{} }

// times selects the time of a tool: From and To, or the newest span.
type times struct {
	From, To   string
	Span       measure.Span // without From: the length of the time that ends now
	Netns      string       // "": the default of the tool
	Diagnosing bool
	Names      [2]string // names of the arguments From and To, for messages
}

// open opens the machine for a time. The caller must call close of the result. The error is a
// show.UsageError, or that of the host.
func open(h Host, t times) (*opened, error) {
	if t.From == "" && t.To == "" {
		m, err := h.Live(t.Netns, t.Diagnosing)
		if err != nil {
			return nil, err
		}
		if m != nil {
			return &opened{Machine: m, close: func() {}}, nil
		}
	}
	if t.Netns == "" && t.Diagnosing { // all namespaces are recorded
		t.Netns = "all"
	}
	now := time.Now()
	when := show.When{From: t.From, To: t.To}
	if t.From == "" && t.To == "" {
		when.At = "now"
	}
	if t.Names[0] != "" {
		when.FromName, when.ToName = t.Names[0], t.Names[1]
	}
	over, err := when.Parse(now)
	if err != nil {
		return nil, err
	}
	r, err := h.Recording()
	if err != nil {
		return nil, err
	}
	if e, ok := r.(show.Sent); ok {
		t.Span = max(t.Span, 3*e.Step())
	}
	p, err := show.OpenReplay(r, over, t.Netns, t.Span, now)
	if err != nil {
		return nil, err
	}
	return &opened{Machine: p, over: p.Over, fine: p.Fine, notes: p.Notes, close: p.Close}, nil
}

// openRecorded opens the recording of a time, also if the host can measure now.
func openRecorded(h Host, t times) (*opened, error) {
	if t.From == "" && t.To == "" {
		t.From, t.To = "-"+t.Span.AsDuration().String(), "now"
	}
	return open(h, t)
}
