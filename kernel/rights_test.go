package kernel

import (
	"errors"
	"strings"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestRefused: each set of capabilities, to who holds it, lacks it, or has a part.
func TestRefused(t *testing.T) {
	all := Capabilities(1<<(unix.CAP_LAST_CAP+1) - 1)
	for c := range unix.CAP_LAST_CAP + 1 {
		name, other := capabilityName(c), (c+1)%(unix.CAP_LAST_CAP+1)
		for _, tt := range []struct {
			name    string
			have    Capabilities
			wants   []int
			asksFor string
		}{
			{"held", all, []int{c}, ""},
			{"lacking", all &^ (1 << c) &^ (1 << unix.CAP_SYS_ADMIN), []int{c}, name},
			{"held, and another lacking", 1 << c, []int{c, other}, capabilityName(other)},
			{"none held", 0, []int{c, other}, name + " and " + capabilityName(other)},
		} {
			if tt.name == "held, and another lacking" && c == unix.CAP_SYS_ADMIN {
				continue // which includes some of the others
			}
			t.Run(name+" "+tt.name, func(t *testing.T) {
				err := refused(tt.have, "do it", "", tt.wants)
				if !errors.Is(err, measure.ErrDenied) {
					t.Errorf("%v is not ErrDenied", err)
				}
				want := "do it: denied, needs " + tt.asksFor
				if tt.asksFor == "" {
					want = "do it: refused though " + name + " is held"
				}
				if !strings.HasPrefix(err.Error(), want) || tt.asksFor == "" &&
					strings.Contains(err.Error(), "needs") {
					t.Errorf("%q, want %q", err, want)
				}
				note := refusedNote(tt.have, "lacking "+tt.asksFor, "it", tt.wants)
				if asks := strings.HasPrefix(note, "lacking"); asks != (tt.asksFor != "") {
					t.Errorf("note %q", note)
				}
			})
		}
	}
	for _, part := range []int{unix.CAP_BPF, unix.CAP_PERFMON} {
		if got := lacking(1<<unix.CAP_SYS_ADMIN, []int{part}); len(got) > 0 {
			t.Errorf("CAP_SYS_ADMIN includes %v", got)
		}
	}
}
