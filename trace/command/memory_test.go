package command

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Arguments of copies are evaluated from left to right. The size of copyinstr includes the final 0.
func TestCopiesOfMemory(t *testing.T) {
	_, out, errs := traced(t, program(`BEGIN { n = 4; none = 0; }
		syscall::unlinkat:entry /pid == %d/ { printf("[%%s] [%%s] [%%s] [%%s]", copyinstr(arg1, 5), copyinstr(arg1, n), copyinstr(arg1, none), copyinstr(arg1, 0)); }
		syscall::unlinkat:entry /pid == %[1]d/ { p = (char *)alloca(8); p[3] = p[4] = p[5] = '.'; i = 1; copyinto(arg1 + (i++), (i++), (void *)(p + (i++))); printf(" %%c%%c%%c", p[3], p[4], p[5]); }`, os.Getpid()), func() {
		if err := unix.Unlinkat(unix.AT_FDCWD, "/no/such/file", 0); err != unix.ENOENT {
			t.Error(err)
		}
	})
	if out != "[/no/] [/no] [] [] no.\n" && out != "[/no/] [/no] [] [] no." || errs != "" {
		t.Errorf("printed %q and said %q", out, errs)
	}
}

// The third argument of tracemem limits the bytes that are shown.
func TestTracemem(t *testing.T) {
	_, out, errs := traced(
		t,
		program(
			`BEGIN { s = "abcdef"; n = 2; tracemem(s, 4); tracemem(s, 4, 0); tracemem(s, 4, n); tracemem(s, 4, -1); tracemem(s, 4, 9); exit(0); }`,
		),
		nil,
	)
	var shown []string
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "0:" {
			shown = append(shown, f[len(f)-1])
		}
	}
	if got := strings.Join(shown, " "); got != "abcd ab abcd abcd" || errs != "" {
		t.Errorf("showed %q and said %q", got, errs)
	}
}
