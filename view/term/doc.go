// Package term is the command line and the terminal: arguments, tables on a screen or in a pipe,
// JSON and CSV, the live screen, and the text of a diagnosis. Its data comes through the interface
// Machine.
package term
