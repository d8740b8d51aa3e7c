package symbol

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Readable gives a symbol's name as its programmers wrote it: names of C++ and Rust without their encoding, their parameters
// left out, everything else as it is.
func Readable(name string) string {
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") && !strings.HasPrefix(name, "__Z") {
		return clean(name)
	}
	const longest = 12 // as a power of two: names of templates can grow without bounds
	return clean(demangle.Filter(name, demangle.NoParams, demangle.NoEnclosingParams, demangle.MaxLength(longest)))
}
