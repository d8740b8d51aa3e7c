// Package proc reads files of /proc, /sys and tracefs: it keeps them open, reads them again without
// allocating, and parses the numbers in their text.
package proc
