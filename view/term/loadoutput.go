package term

import (
	"fmt"
	"strings"

	"culprit/load"
	"culprit/view/report"
	"culprit/view/term/output"
)

// loadOutput prints a load test while it runs.
type loadOutput struct {
	q   *loadFlags
	t   Terminal
	out output.Printer
	err error // first error of writing
}

func (o *loadOutput) begin(server string) {
	q := o.q
	switch {
	case q.json:
		o.out = &output.JSON{Out: o.t.Out}
	case q.csv:
		o.out = &output.CSV{Out: o.t.Out}
	default:
		o.out = &output.Text{Out: o.t.Out, Width: o.t.Width, Lines: o.t.Lines, Bold: o.t.Colour}
		o.printLine(reflow(loadTitle(&q.test, server, q.runs), max(40, o.t.Width)))
	}
}

// loadTitle describes the test.
func loadTitle(t *load.Test, server string, runs int) string {
	count := func(n int, one string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %ss", n, one)
	}
	text := fmt.Sprintf("%s of %v, %s", count(runs, "run"), t.For, count(t.Streams, "connection"))
	switch {
	case t.UDP:
		text += " over UDP"
	case t.Connect:
		text = strings.Replace(text, "connection", "thread", 1) + ", each transaction connects"
	}
	if t.Kind == load.Exchange {
		text = fmt.Sprintf(
			"requests of %d B and responses of %d B with %s: %s", t.Ask, t.Answer, server, text,
		)
		if t.Pace > 0 {
			text += fmt.Sprintf(", %g begun per second", t.Pace)
		}
		return text
	}
	way := map[load.Way]string{
		load.Up: "stream to ", load.Down: "stream from ", load.Both: "streams to and from ",
	}[t.Way]
	text = way + server + ": " + text
	if t.Rate > 0 {
		text += ", at most " + load.Bits(load.Number(t.Rate))
	}
	if t.UDP {
		return text + fmt.Sprintf(", datagrams of %d B", t.Size)
	}
	if !t.Copy {
		text += "; what comes in is not copied (--copy)"
	}
	return text
}

func (o *loadOutput) printLine(text string) { o.recordError(fmt.Fprintln(o.t.Out, text)) }

func (o *loadOutput) recordError(_ int, err error) {
	if o.err == nil {
		o.err = err
	}
}

func (o *loadOutput) interval(i *load.Interval) {
	if o.q.unit == "" && o.q.test.Kind == load.Stream {
		o.q.unit = report.LoadUnitFor(
			float64(max(i.Throughput(load.Up), i.Throughput(load.Down), 0)),
		)
		for _, w := range []load.Way{load.Up, load.Down} {
			if v := i.Throughput(w); v.Known() {
				o.q.unit = report.LoadUnitFor(float64(v))
			}
		}
	}
	o.recordError(0, o.out.Table(report.LoadInterval(&o.q.test, i, o.q.unit)))
}

func (o *loadOutput) run(r *load.Run) {
	if !o.q.json && !o.q.csv {
		o.printLine(reflow(report.LoadRun(&o.q.test, r), max(40, o.t.Width)))
	}
}

func (o *loadOutput) result(r *load.Result) {
	switch {
	case o.q.json:
		o.recordError(0, writeJSON(o.t.Out, r))
	case o.q.csv: // the intervals are all of its output
	default:
		o.recordError(fmt.Fprint(o.t.Out, "\n"+report.LoadResult(r, o.t.Width, o.t.Colour)))
	}
}
