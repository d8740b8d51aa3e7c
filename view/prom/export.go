package prom

import (
	"slices"

	"culprit/measure"
)

// What leaves the machine follows one rule, for remote write and for /metrics: isWritten. Names, labels and shapes are those of
// the query API (metrics), which alone answers for single processes, threads and connections: it copies nothing elsewhere.

// narrow are the fields with as many values as there were processes, threads, connections, stacks or command lines. A metric with
// one of them is not exported: an engine would keep a series for each value, and command lines and stacks carry secrets.
//
// table: names of fields
var narrow = []string{"pid", "tid", "localport", "peerport", "kernel", "user", "command"}

// idleRow is how long a row that a sparse statistic leaves out while it is 0 is exported as 0.
const idleRow = 5 * measure.Minute

// latePart is how late a source's part of a tick may be added to the recording and still be counted in what is exported.
const latePart = 5 * measure.Second

// isWritten reports whether a metric is exported: a distribution is not, nor the rate of what is exported as a counter, nor a
// metric with a narrow field.
func isWritten(m *metric) bool {
	switch m.shape {
	case distribution:
		return false
	case rate:
		return m.stat.Signed
	}
	return !slices.ContainsFunc(m.by, func(f string) bool { return slices.Contains(narrow, f) })
}
