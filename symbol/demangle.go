package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Readable gives a symbol's name as its programmers wrote it: names of C++ and Rust without their encoding, their parameters
// left out, everything else as it is. The version of a library's symbol, as of memcpy@@GLIBC_2.14, is no
// part of the name: it differs from machine to machine.
func Readable(name string) string {
	name = unversioned(name)
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") && !strings.HasPrefix(name, "__Z") {
		return clean(name)
	}
	const longest = 12 // as a power of two: names of templates can grow without bounds
	return clean(demangle.Filter(name, demangle.NoParams, demangle.NoEnclosingParams, demangle.MaxLength(longest)))
}

// unversioned returns a name without the version that a linker put behind it: an @ or two, and a word in
// capitals, an underscore and digits or PRIVATE. An @ of other sorts, as of names of Swift or Objective-C, stays.
func unversioned(name string) string {
	i := strings.LastIndexByte(name, '@')
	if i <= 0 {
		return name
	}
	version := name[i+1:]
	under := strings.LastIndexByte(version, '_')
	if under <= 0 || under+1 == len(version) ||
		strings.Trim(version[under+1:], "0123456789.") != "" && version[under+1:] != "PRIVATE" ||
		strings.Trim(version[:under], "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return name
	}
	return strings.TrimSuffix(name[:i], "@")
}
