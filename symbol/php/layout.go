// Package php knows the structs of PHP: where the current call is, and where functions have their
// names and files. It parses bytes of files and memory that others have written, and opens nothing.
package php

import (
	"fmt"

	"culprit/symbol/interp"
)

// A Layout describes an interpreter in a file. The offsets in structs are those of its version.
type Layout struct {
	Version Version
	Threads bool // it was built for threads
	Debug   bool // it was built with debugging
	// From and To are the addresses in the file of the function that runs operations: execute_ex().
	From, To uint64
	// Head is the address in the file of the pointer to the current call; 0: not known.
	Head uint64
}

// A Version is the version of the interface of modules, which is a date: 20220829 is PHP 8.2.
type Version uint32

// releases are the releases of PHP by version.
//
// table: never changed
var releases = map[Version]string{20200930: "8.0", 20210902: "8.1", 20220829: "8.2",
	20230831: "8.3", 20240924: "8.4"}

// String returns the release, as in 8.2.
func (v Version) String() string {
	if name, known := releases[v]; known {
		return name
	}
	return fmt.Sprintf("modules of version %d", uint32(v))
}

// offsets are members of a function (zend_op_array) that differ by version, on x86-64.
type offsets struct {
	Opcodes, Count uint32 // its operations, and how many they are
	File, Line     uint32 // its file, and the line on which it begins
}

// table: never changed
var versions = map[Version]offsets{
	20220829: {Opcodes: 88, Count: 80, File: 152, Line: 160},
}

// Language implements interp.Layout.
func (l *Layout) Language() interp.Language { return interp.PHP }

// Why implements interp.Layout.
func (l *Layout) Why() string {
	if _, known := versions[l.Version]; !known {
		return "no table for " + l.Version.String()
	}
	switch {
	case l.Threads:
		return "no table for builds with threads"
	case l.Debug:
		return "no table for builds with debugging"
	case l.Head == 0:
		return "the file does not show where calls are"
	}
	return ""
}

// Numbers implements interp.Layout.
func (l *Layout) Numbers() []uint64 {
	n := []uint64{uint64(l.Version), 0, 0, l.From, l.To, l.Head}
	if l.Threads {
		n[1] = 1
	}
	if l.Debug {
		n[2] = 1
	}
	return n
}

// FromNumbers returns the layout that Numbers has returned; nil: a number is out of range.
func FromNumbers(n []uint64) interp.Layout {
	if l := fromNumbers(n); l != nil {
		return l
	}
	return nil
}

func fromNumbers(n []uint64) *Layout {
	const numbers = 6
	if len(n) != numbers || n[0] >= 1<<32 || n[1] > 1 || n[2] > 1 || n[3] >= n[4] ||
		n[4] > interp.MostAddress || n[5] > interp.MostAddress {
		return nil
	}
	return &Layout{Version: Version(n[0]), Threads: n[1] == 1, Debug: n[2] == 1, From: n[3],
		To: n[4], Head: n[5]}
}

// Kernel implements interp.Layout.
func (l *Layout) Kernel() interp.Kernel {
	o, known := versions[l.Version], uint32(1)
	if l.Why() != "" {
		known = 0
	}
	return interp.Kernel{From: l.From, To: l.To, Head: l.Head,
		Numbers: [interp.KernelNumbers]uint32{known, o.Opcodes, o.Count, o.File}}
}
