package report

import (
	"fmt"
	"strings"

	"culprit/load"
	"culprit/view"
)

// LoadComparison formats the difference of two results.
func LoadComparison(c *load.Comparison, width int, colour bool) string {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour}
	d.paragraph(
		"", fmt.Sprintf("%s, measured by %s", view.Clean(c.Names[1]), view.Clean(c.Names[0])),
	)
	d.line("")
	for _, r := range c.Rows {
		text := func(n load.Number) string {
			switch r.Unit {
			case "bit/s":
				return load.Bits(n)
			case "1/s":
				return fmt.Sprintf("%.1f/s", float64(n))
			}
			return span(n)
		}
		name := r.What
		switch {
		case r.Unit == "ns/GB":
			name = "CPU per GB " + r.Where
		case r.Unit == "ns/transaction":
			name = "CPU per transaction " + r.Where
		case r.Way == load.Down:
			name += " down"
		case r.Way == load.Up:
			name += " up"
		}
		d.hanging("", d.bold(name+":"), loadVerdict(&r))
		d.hanging(
			"  ", "",
			fmt.Sprintf("%s and %s%s", text(r.First.Mean), text(r.Second.Mean), runsOf(&r)),
		)
	}
	for _, t := range c.Times {
		if t.First == nil || t.Second == nil {
			continue
		}
		d.line("")
		d.line(fmt.Sprintf("%-10s %10s %10s %9s", "latency", "first", "second", "change"))
		for _, p := range []struct {
			name string
			a, b load.Number
		}{
			{"min", t.First.Least, t.Second.Least}, {"p50", t.First.P50, t.Second.P50},
			{"p90", t.First.P90, t.Second.P90}, {"p99", t.First.P99, t.Second.P99},
			{"p99.9", t.First.P999, t.Second.P999}, {"max", t.First.Most, t.Second.Most},
		} {
			change := "-"
			if p.a > 0 && p.b.Known() {
				change = fmt.Sprintf("%+.1f %%", float64(p.b/p.a-1)*100)
			}
			d.line(fmt.Sprintf("%-10s %10s %10s %9s", p.name, span(p.a), span(p.b), change))
		}
	}
	if len(c.Notes) > 0 {
		d.line("")
	}
	for _, n := range c.Notes {
		d.paragraph("", "note: "+view.Clean(n))
	}
	return strings.TrimRight(d.b.String(), "\n") + "\n"
}

// loadVerdict returns the size of a difference, and whether it may be chance.
func loadVerdict(r *load.Compared) string {
	change := float64(r.Ratio.Ratio-1) * 100
	word := map[string][2]string{
		"throughput": {"faster", "slower"}, "transactions": {"faster", "slower"},
		"latency": {"longer", "shorter"}, "cpu": {"more expensive", "cheaper"},
	}[r.What]
	by := word[0]
	if change < 0 {
		by = word[1]
	}
	size := change
	if size < 0 {
		size = -size
	}
	switch {
	case !r.Low.Known():
		return fmt.Sprintf("%s by %.1f %%; one run may be chance", by, size)
	case !r.Sure:
		return fmt.Sprintf(
			"no significant difference in %s: %+.1f %%, 95 %% interval %+.1f to %+.1f %%",
			manyRuns(min(r.First.Runs, r.Second.Runs)), change, float64(r.Low-1)*100,
			float64(r.High-1)*100,
		)
	}
	return fmt.Sprintf("%s by %.1f %% +- %.1f %%", by, size, float64(r.High-r.Low)*50)
}

func manyRuns(n int) string {
	words := []string{
		"no",
		"one",
		"two",
		"three",
		"four",
		"five",
		"six",
		"seven",
		"eight",
		"nine",
		"ten",
	}
	switch {
	case n == 1:
		return "one run"
	case n < len(words):
		return words[n] + " runs"
	}
	return fmt.Sprintf("%d runs", n)
}

func runsOf(r *load.Compared) string {
	if r.First.Runs == r.Second.Runs {
		return fmt.Sprintf(", means of %s each", manyRuns(r.First.Runs))
	}
	return fmt.Sprintf(", means of %s and of %s", manyRuns(r.First.Runs), manyRuns(r.Second.Runs))
}
