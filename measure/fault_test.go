package measure

import (
	"strings"
	"testing"
)

func TestRecoveredNamesTheLineOfThePanic(t *testing.T) {
	recovered := func(f func()) (got *Fault) {
		defer func() {
			if p := recover(); p != nil {
				got = Recovered("testing", p)
			}
		}()
		f()
		return nil
	}
	var none *Fault
	for name, f := range map[string]func(){
		"panic":       func() { panic("an invariant") },
		"nil pointer": func() { _ = none.Doing },
		"index":       func() { _ = []int{}[len(name0)] },
	} {
		got := recovered(f)
		if got == nil || !strings.Contains(got.Where, "fault_test.go:") ||
			!strings.Contains(got.Error(), "while testing") {
			t.Errorf("%s: %v", name, got)
		}
		if again := recovered(func() { panic(got) }); again != got {
			t.Errorf("%s, passed on: %v", name, again)
		}
	}
}

const name0 = "x"
