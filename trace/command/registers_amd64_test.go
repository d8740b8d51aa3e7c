package command

import "testing"

// Registers that the kernel does not save at an interrupt are read from the thread.
func TestThreadRegisters(t *testing.T) {
	text := `BEGIN { printf("%d %d %d", uregs[R_FS] == curthread->thread.fsbase, uregs[R_FS] != 0, uregs[R_GS] == curthread->thread.gsbase); exit(0); }`
	if status, out, errs := traced(t, program("%s", text), nil); status != 0 || out != "1 1 1\n" ||
		errs != "" {
		t.Errorf("status %d, printed %q and said %q", status, out, errs)
	}
}
