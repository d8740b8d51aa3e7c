package command

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"culprit/measure"
	"culprit/trace"
)

// writeCosts prints the run time of each program, over the duration of the script.
func writeCosts(out io.Writer, all []trace.Cost, over time.Duration) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "RUNS\tNS/RUN\tCPU%\tMISSED\t  PROBE")
	for _, c := range all {
		each := "-"
		if c.Runs > 0 {
			each = strconv.FormatInt(int64(c.Time)/int64(c.Runs), 10)
		}
		name := measure.Escape(c.Unit.Probes[0].String())
		if n := len(c.Unit.Probes); n > 1 {
			name += fmt.Sprintf(" and %d more", n-1)
		}
		fmt.Fprintf(
			w, "%d\t%s\t%.3f\t%d\t  %s\n", c.Runs, each, 100*float64(c.Time)/float64(over),
			c.Missed, name,
		)
	}
	w.Flush() //nolint:errcheck // standard error
}
