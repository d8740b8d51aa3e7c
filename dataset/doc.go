// Package dataset lists the available statistics, checks queries, runs a query's source and turns
// its batches into answers. Equal queries share one source.
//
// Set records the datasets of a machine: it creates and ends them, runs their ticks and accounts
// their cost. The package reads no counters and writes no files: sources and the archive are
// interfaces.
package dataset
