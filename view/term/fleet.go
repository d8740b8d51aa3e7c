package term

import (
	"context"
	"fmt"
	"strings"
	"time"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view/report"
	"culprit/view/show"
	"culprit/view/term/output"

	"github.com/spf13/cobra"
)

// Fleet is all hosts of an engine.
type Fleet interface {
	// Overview returns the hosts at a time, with the means of a span before it.
	Overview(ctx context.Context, at measure.Time, span measure.Span) (*fleet.Overview, error)
	// Compare compares a host, or with "" the one that differs most, with the others.
	Compare(
		ctx context.Context, host string, at measure.Time, span measure.Span,
	) (*fleet.Comparison, error)
	// Close closes the connections.
	Close()
}

// defaultFleetSpan is the time of a table without an interval.
const defaultFleetSpan = 2 * measure.Minute

// openFleet opens the hosts of the engine that the flags select.
func (p Program) openFleet(e EngineHost) (Fleet, error) {
	if p.Fleet == nil {
		return nil, fmt.Errorf("this program reads no engines: %w", measure.ErrUnsupported)
	}
	if e.fill(); e.URL == "" {
		return nil, usagef("all hosts are those of an engine: give --engine or $%s", engineVariable)
	}
	return p.Fleet(e)
}

// showFleet shows a table of all hosts at the end of each interval until the count is reached or
// the context ends. The first table is of the interval before now, or before at.
func (p Program) showFleet(
	c *cobra.Command, m *toolFlags, e EngineHost, at string, args []string,
) error {
	if len(args) > 0 && strings.Contains(args[0], "://") {
		return usagef("with --engine there are no addresses: the engine has the hosts")
	}
	m.plan.step = defaultFleetSpan
	if err := m.times(args); err != nil {
		return err
	}
	var end measure.Time
	switch {
	case at != "" && len(args) > 1:
		return usagef("--at shows one interval: leave out the count")
	case at != "":
		t, _, err := show.ParseTime(at, time.Now())
		if err != nil {
			return usagef("--at %q: %w", at, err)
		}
		end, m.plan.count = measure.Time(t.UnixNano()), 1
	}
	all, err := p.openFleet(e)
	if err != nil {
		return err
	}
	defer all.Close()
	out, width := m.plan.printer(p.Terminal, false)
	notes := output.NewNotes(p.Terminal.Err)
	defer notes.Finish()
	ctx := c.Context()
	next := time.NewTicker(m.plan.step.AsDuration())
	defer next.Stop()
	for n := 1; ; n++ {
		if at == "" {
			end = measure.Time(time.Now().UnixNano())
		}
		o, err := all.Overview(ctx, end, m.plan.step)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case len(o.Hosts) == 0:
			return fmt.Errorf("no host sent samples to the engine within a day before %s",
				formatTime(end))
		}
		tab := report.Fleet(o, width)
		if m.plan.sortBy != "" {
			i := tab.Column(m.plan.sortBy)
			if i < 0 {
				return show.UnknownColumn(tab, m.plan.sortBy)
			}
			output.SortRows(tab, i, m.plan.reverse)
		}
		output.LimitRows(tab, m.plan.rows)
		if m.plan.format == "" {
			notes.Print(tab)
		}
		if err := out.Table(tab); err != nil {
			return err
		}
		if m.plan.count > 0 && n >= m.plan.count {
			return nil
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return nil
		}
	}
}
