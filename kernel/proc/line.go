package proc

import (
	"strings"

	"culprit/kernel"
)

// line reads a file of one line, without blanks around it; "" when it can't be had.
func Line(r kernel.Root, name string) string {
	b, err := ReadProc(r, name, nil)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
