package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Readable returns a symbol's name as in its source: names of C++ and Rust are demangled, without
// parameters. The version of a library's symbol, as of memcpy@@GLIBC_2.14, is removed, since it
// differs between machines.
func Readable(name string) string {
	name = unversioned(name)
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") &&
		!strings.HasPrefix(name, "__Z") {
		return clean(name)
	}
	const longest = 12 // as a power of two: names of templates can grow without bounds
	return clean(demangle.Filter(name, demangle.NoParams, demangle.NoEnclosingParams,
		demangle.MaxLength(longest)))
}

// mostSignature is the length of the longest signature.
const mostSignature = 240

// signature returns the name of a function of C++ as in its source, with its parameters:
// shop::Cart::add(int). It returns "" for other functions and for long names.
func signature(name string) string {
	if !strings.HasPrefix(name, "_Z") {
		return ""
	}
	const longest = 9 // as a power of two
	s, err := demangle.ToString(name, demangle.NoEnclosingParams, demangle.MaxLength(longest))
	if err != nil || len(s) > mostSignature || !strings.Contains(s, "(") {
		return ""
	}
	return clean(s)
}

// unversioned removes the version that a linker appended to a name: an @ or two, a word in
// capitals, an underscore, and digits or PRIVATE. Any other @ stays, as in names of Swift or
// Objective-C.
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
