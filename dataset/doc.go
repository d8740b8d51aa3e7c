// Package dataset knows which statistics there are, checks what is asked of them, and turns a query into a running source
// and its batches into answers. Equal questions share one source.
//
// Set is the datasets of a machine that records: their lives, their ticks and what each costs.
//
// It refuses to measure and to keep for long: sources and stores come in as interfaces.
package dataset
