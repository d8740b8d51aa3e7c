package kernel

import (
	"os"
	"strconv"
	"strings"
)

// ResidentMemory returns the resident bytes of this process (/proc/self/statm, second number); 0
// where it can't be read.
func ResidentMemory() int64 { return residentMemory("/proc/self/statm") }

// ParentMemory returns the resident memory of the parent process in bytes; 0: not known.
func ParentMemory() int64 {
	return residentMemory("/proc/" + strconv.Itoa(os.Getppid()) + "/statm")
}

func residentMemory(statm string) int64 {
	b, err := os.ReadFile(statm)
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
