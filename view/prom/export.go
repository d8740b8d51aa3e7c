package prom

import (
	"slices"

	"culprit/measure"
)

// Remote write and /metrics export the same metrics: those that isExported selects. Names, labels
// and shapes are those of the query API. The query API alone also answers for single processes,
// threads and connections.

// highCardinality are the fields with a value for each process, thread, connection, stack or
// command line. A metric with one of them is not exported: the receiver would keep a series for
// each value, and command lines and stacks can contain secrets.
//
// table: names of fields
var highCardinality = []string{"pid", "tid", "localport", "peerport", "kernel", "user", "command"}

// sparseHold is how long a row of a sparse statistic is exported as 0 after it is left out.
const sparseHold = 5 * measure.Minute

// maxLateness is how late a source may record its part of a tick and still be counted in exports.
const maxLateness = 5 * measure.Second

// isExported reports whether a metric leaves the machine by remote write or /metrics.
// Distributions, metrics with a high-cardinality field, and rates that also exist as a counter do
// not.
func isExported(m *metric) bool {
	switch m.shape {
	case distribution:
		return false
	case rate:
		return m.stat.Signed
	}
	return !slices.ContainsFunc(m.by,
		func(f string) bool { return slices.Contains(highCardinality, f) })
}
