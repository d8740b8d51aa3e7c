package command

import (
	"slices"
	"testing"
)

func TestSplitCommand(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"  ls  -l\t/ ", []string{"ls", "-l", "/"}},
		{`sh -c 'a; b'`, []string{"sh", "-c", "a; b"}},
		{`sh -c "a 'b' \"c\""`, []string{"sh", "-c", `a 'b' "c"`}},
		{`x '' "" a'b c'd`, []string{"x", "", "", "ab cd"}},
		{`a\ b 'c\d' e\\`, []string{"a b", `c\d`, `e\`}},
		{"", nil},
	} {
		got, err := splitCommand(tt.line)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, %v", tt.line, got, err)
		}
	}
	for _, line := range []string{`sh -c 'a`, `a "b`} {
		if got, err := splitCommand(line); err == nil {
			t.Errorf("%s: %q without an error", line, got)
		}
	}
}
