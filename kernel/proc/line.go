package proc

import (
	"strings"

	"culprit/kernel"
)

// Line reads a file of one line below the proc root, without blanks around it; "" where it can't be
// read.
func Line(r kernel.Root, name string) string {
	b, err := ReadProc(r, name, nil)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
