package profile

import (
	"strings"
	"testing"
)

func TestWriteWaits(t *testing.T) {
	lines := func() []WaitLine {
		return []WaitLine{{Count: 4, Nanos: 1e6, What: "mutex", Caller: "vmlinux`pipe_write+0x1"},
			{Count: 1, Nanos: 3e6, What: "spin lock", Caller: "evil\x1b[31m"},
			{Count: 2, Nanos: 0, What: "futex", Caller: "(none)"}}
	}
	for most, want := range map[int]string{
		0: `    Count indv cuml        nsec Lock or state          Caller
-------------------------------------------------------------------------------
        1  75%  75%   3,000,000 spin lock              evil�[31m
        4  25% 100%     250,000 mutex                  vmlinux` + "`" + `pipe_write+0x1
        2   0% 100%           0 futex                  (none)
-------------------------------------------------------------------------------
        7 waits
`,
		1: `        1  75%  75%   3,000,000 spin lock              evil�[31m
        6  25% 100%     166,667 (2 others)
`,
	} {
		var b strings.Builder
		if err := WriteWaits(&b, lines(), "waits", most); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("of %d lines at most:\n%s\nwant\n%s", most, b.String(), want)
		}
	}
}
