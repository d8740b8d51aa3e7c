package procfs

import (
	"bytes"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
)

// CutLine returns the first line of b without its newline, and the rest.
func CutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// ParseCPUList parses a list like "0-3,8,10-11\n" and appends the numbers to dst. An empty list is
// valid. It returns false for anything else.
func ParseCPUList(dst []int, b []byte) ([]int, bool) {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	for len(b) > 0 {
		var part []byte
		part, b = CutAt(b, ',')
		from, to := CutAt(part, '-')
		lo, err := proc.ParseUint(from)
		hi := lo
		if err == nil && to != nil {
			hi, err = proc.ParseUint(to)
		}
		if err != nil || hi < lo || hi >= 1<<16 {
			return dst, false
		}
		for ; lo <= hi; lo++ {
			dst = append(dst, int(lo))
		}
	}
	return dst, true
}

// CutAt splits b at the first sep. rest is nil if there is none.
func CutAt(b []byte, sep byte) (part, rest []byte) {
	for i, c := range b {
		if c == sep {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// ReadSysWord returns the content of a file of sysfs without spaces at its ends; "" if it cannot be
// read.
func ReadSysWord(root kernel.Root, name string) string {
	b, err := proc.ReadSys(root, name, make([]byte, 0, 128)) // most files hold one word
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
