// Package term is the terminal: the command line, tables on a screen or in a pipe, JSON and CSV,
// and the text of a diagnosis. What it shows comes from view's tools through a Machine; it measures
// nothing itself.
package term
