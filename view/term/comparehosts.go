package term

import (
	"context"
	"fmt"
	"time"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view/report"

	"github.com/spf13/cobra"
)

// comparisonFormat is the version of the JSON of a comparison of hosts.
const comparisonFormat = 1

// compareHosts prints how a host of an engine differs from the others. With --exit-code it returns
// errFindings if it does.
func (d *diagnosis) compareHosts(ctx context.Context, p Program, c *cobra.Command) error {
	if c.Flags().Changed("netns") || c.Flags().Changed("for") {
		return usagef("--hosts excludes --netns and --for: the time is that of --from and --to")
	}
	if d.past.dir != "" || d.past.server != "" {
		return usagef("--hosts needs --engine: it has all hosts")
	}
	end := measure.Time(time.Now().UnixNano())
	span := defaultFleetSpan
	if d.past.isSet() {
		r, err := d.past.parse(end.AsTime())
		if err != nil {
			return err
		}
		if end = r.Over.End; r.Over.Start != 0 {
			span = r.Over.Span()
		}
		printNotes(p.Terminal.Err, r.Notes)
	}
	all, err := p.openFleet(d.past.engine)
	if err != nil {
		return err
	}
	defer all.Close()
	found, err := all.Compare(ctx, d.past.engine.Host, end, span)
	if err != nil {
		return err
	}
	if d.json {
		err = writeJSON(p.Terminal.Out, struct {
			Format int `json:"format"`
			*fleet.Comparison
		}{comparisonFormat, found})
	} else {
		text := report.Comparison(found, p.Terminal.Width, p.Terminal.Colour)
		_, err = fmt.Fprint(p.Terminal.Out, text)
	}
	if n := len(found.Differences) + len(found.Only); err == nil && d.exit && n > 0 {
		return errFindings{fmt.Errorf("%d differences and findings of its own", n)}
	}
	return err
}
