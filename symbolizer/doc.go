// Package symbolizer reads symbols in a process of its own. Client is a symbol.Reader that passes
// open files to that process; Serve answers in it. The process needs no privilege: it opens
// nothing, and may be killed at any time. docs/FORMATS.md draws the frames, and
// docs/decisions/0009 has the reasons.
package symbolizer
