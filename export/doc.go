// Package export contains the table of what leaves the machine: for each statistic whether it is
// exported, the name of its metric, its labels and its bound. Scrapes, remote write and the query
// API read it. docs/METRICS.md is written from it.
package export
