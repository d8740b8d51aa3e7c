package procfs

import (
	"bytes"
	"strings"

	"culprit/kernel"
)

// CutLine parts the first line of b from the rest.
func CutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i], b[i+1:]
	}
	return b, nil
}

// ParseCPUList reads a list as "0-3,8,10-11\n", appending to dst. False when it is something else; an empty list is one.
func ParseCPUList(dst []int, b []byte) ([]int, bool) {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	for len(b) > 0 {
		var part []byte
		part, b = CutAt(b, ',')
		from, to := CutAt(part, '-')
		lo, err := kernel.ParseUint(from)
		hi := lo
		if err == nil && to != nil {
			hi, err = kernel.ParseUint(to)
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

// CutAt parts b at the first sep; rest is nil where there is none.
func CutAt(b []byte, sep byte) (part, rest []byte) {
	for i, c := range b {
		if c == sep {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// ReadSysWord gives the text of a file of sysfs without its newline; "" when it can't be read.
func ReadSysWord(root kernel.Root, name string) string {
	b, err := root.ReadSys(name, make([]byte, 0, 128)) // most hold a word
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
