package command

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/symbol"

	"golang.org/x/sys/unix"
)

// sym, mod, stack, ustack, %a and %A print the names of /proc/kallsyms and of the program's
// symbols.
func TestSessionNamesAddresses(t *testing.T) {
	if err := feature.KernelAddresses.Have(kernel.Root{}); err != nil {
		t.Skip("needs: kernel feature kallsyms:", err)
	}
	addr, _, ok := symbol.NewKernel(kernel.Root{}).Lookup("vmlinux", "schedule")
	if !ok {
		t.Fatal("the kernel does not schedule")
	}
	text := fmt.Sprintf(`BEGIN {
	printf("%%a %%a %%a\n", %#[1]x, (void *)%#[2]x, 0x10); printf("%%a %%a\n", sym(%#[2]x), mod(%#[2]x));
	sym(%#[2]x); printf("|"); mod(%#[1]x); printf("|\n");
	@[sym(%#[1]x), mod(%#[1]x)] = count(); @[sym(%#[2]x), mod(%#[2]x)] = count(); printa("%%a %%a %%@d\n", @);
	@k[%#[2]x] = count(); printa("%%a\n", @k); clear(@); trunc(@); trunc(@k); exit(0); }`, addr, addr+4)
	_, out, errs := traced(t, program("%s", text), nil)
	pad := func(s string) string { return fmt.Sprintf("  %-50s", s) }
	want := "vmlinux`schedule vmlinux`schedule+0x4 0x10\nvmlinux`schedule vmlinux\n" +
		pad("vmlinux`schedule") + "|" + pad("vmlinux") + "|\n" + "vmlinux`schedule vmlinux 2\nvmlinux`schedule+0x4\n"
	if strings.TrimSpace(out) != strings.TrimSpace(want) || errs != "" {
		t.Errorf("printed %q and %q, want %q", out, errs, want)
	}

	// A system call of ours: the process's stack has this program's functions, the kernel's has
	// functions of the kernel.
	me := regexp.QuoteMeta(
		symbol.NewProcesses(kernel.Root{}).
			Place(os.Getpid(), uint64(reflect.ValueOf(caller).Pointer())).
			String(),
	)
	for stack, want := range map[string]string{"ustack()": `\n {14}` + me + `\+0x[0-9a-f]+\n`, "stack()": "\n {14}vmlinux`[a-z_0-9]+"} {
		text := fmt.Sprintf(
			`syscall::getpriority:entry /pid == %d/ { @[%s] = count(); exit(0); }`, os.Getpid(),
			stack,
		)
		r := program("%s", text)
		_, out, errs := traced(t, r, caller)
		if errs != "" || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: no %s in %s %s", stack, want, out, errs)
		}
	}
}

// caller calls getpriority, which other programs rarely do.
//
//go:noinline
func caller() {
	for range 100 {
		_, _ = unix.Getpriority(unix.PRIO_PROCESS, 0)
	}
}
