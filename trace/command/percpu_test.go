package command

import (
	"strings"
	"testing"

	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// A per-CPU variable of the kernel is that of the current CPU.
func TestPerCPUVariables(t *testing.T) {
	if _, _, err := tracetest.Here(t).Symbol("", "__per_cpu_offset"); err != nil {
		t.Skip("needs: kernel feature KALLSYMS_ALL")
	}
	const calls = 50
	_, out, errs := traced(t, program("%s", "syscall::getppid:entry /pid == $pid/ "+
		"{ @[`runqueues.cpu == cpu, `runqueues.curr == curthread] = count(); } "+
		`END { printa("%d %d %@d\n", @); }`), func() {
		for range calls {
			unix.Getppid()
		}
	})
	if errs != "" || strings.TrimSpace(out) != "1 1 50" {
		t.Errorf("%q and %q, want 1 1 50", out, errs)
	}
}
