package web

import (
	"fmt"
	"math"

	"culprit/measure"
)

// maxMessageGap is the time between two cells with the same message of the kernel from which on
// they are two marks.
const maxMessageGap = 30 * measure.Second

// messageMarks returns when the kernel wrote messages to its log. A message that is repeated is one
// mark, at the first time, with the number of times.
func messageMarks(a *measure.Answer) (all []timeMark) {
	gap := max(1, int(maxMessageGap/a.Step))
	for i := range a.Series {
		values := a.Series[i].Values
		for c := 0; c < len(values); c++ {
			n := cellEvents(a, i, c)
			if n < 1 {
				continue
			}
			last := c
			for next := c + 1; next < len(values) && next-last <= gap; next++ {
				if more := cellEvents(a, i, next); more >= 1 {
					n, last = n+more, next
				}
			}
			at, within := boundary(a, c+1, 1)
			if within != "" {
				within = " (in the " + cellLength(a.Step) + " before)"
			}
			times := ""
			switch {
			case last > c:
				span := cellLength(measure.Span(last-c) * a.Step)
				times = fmt.Sprintf(" (%.0f times within %s)", n, span)
			case n > 1:
				times = fmt.Sprintf(" (%.0f times)", n)
			}
			text := "kernel, " + a.Label(i, 0)
			if event := a.Label(i, 1); event != "other" {
				text += ", " + event
			}
			text += ": " + a.Label(i, 2)
			all = append(all, timeMark{at: at, kind: "kernel", text: text + times + within})
			c = last
		}
	}
	return all
}

// cellEvents returns the number of events of a row in one cell; 0: unknown too.
func cellEvents(a *measure.Answer, i, c int) float64 {
	if n := math.Round(a.Series[i].Values[c] * a.Elapsed[c].Seconds()); n >= 1 {
		return n
	}
	return 0
}
