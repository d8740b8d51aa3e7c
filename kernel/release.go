package kernel

import (
	"fmt"
	"os"
	"strings"
)

// Before reports whether the kernel's release is older than major.minor; false where the release
// can't be read.
func (r Root) Before(major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(r.Release(), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}

// Release returns the kernel's release, as "6.18.44-cloud"; "" where it can't be read.
func (r Root) Release() string {
	b, err := os.ReadFile(r.InProc("sys/kernel/osrelease"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
