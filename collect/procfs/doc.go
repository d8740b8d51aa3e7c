// Package procfs parses files of /proc and /sys that more than one kind of collector reads. Its
// parsers take the bytes of a file and know nothing of statistics.
package procfs
