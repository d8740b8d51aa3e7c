// Package phrase formats numbers and names for the texts of findings: a rate, a share, a list of
// words, a process, a command for a shell. Numbers have three significant digits. Names are
// cleaned: a process may name itself anything, terminal escapes too.
package phrase
