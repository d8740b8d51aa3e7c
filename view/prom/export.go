package prom

import "culprit/measure"

// Remote write and /metrics export the same metrics: those of package export's table. Names, labels
// and shapes are those of the query API. The query API alone also answers for single processes,
// threads and connections, and for other breakdowns.

// sparseHold is how long a row of a sparse statistic is exported as 0 after it is left out.
const sparseHold = 5 * measure.Minute

// maxLateness is how late a source may record its part of a tick and still be counted in exports.
const maxLateness = 5 * measure.Second
