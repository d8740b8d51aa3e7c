package probe

import (
	"errors"
	"os"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/syntax"
	"culprit/measure"
)

// needs skips unless the kernel has a feature.
func needs(t testing.TB, f feature.Feature) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	if err := f.Have(kernel.Root{}); err != nil {
		t.Skip("needs: kernel feature " + f.String())
	}
}

// described parses one probe description.
func described(t testing.TB, text string) *syntax.Probe {
	t.Helper()
	list, diags := syntax.ParseProbes(text, syntax.Mode{})
	if len(diags) > 0 || len(list) != 1 {
		t.Fatalf("%s: %v", text, diags)
	}
	return list[0]
}

// here is the Env of the running kernel, or a skip.
func here(t testing.TB) *Env {
	t.Helper()
	e := NewEnv(kernel.Root{})
	t.Cleanup(func() { e.Close() })
	if _, err := e.TraceEvents(); errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: kernel feature TRACEFS")
	} else if err != nil {
		t.Skip("needs: root (trace events)")
	}
	return e
}
