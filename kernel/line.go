package kernel

import "strings"

// line reads a file of one line, without blanks around it; "" when it can't be had.
func (r Root) Line(name string) string {
	b, err := r.ReadProc(name, nil)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
