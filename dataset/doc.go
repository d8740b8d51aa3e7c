// Package dataset knows which statistics there are, checks what is asked of them, and turns a query into a running source
// and its batches into answers. Equal questions share one source.
//
// It refuses to measure and to keep for long: sources and stores come in as interfaces.
package dataset
