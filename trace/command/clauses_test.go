package command

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Each of many clauses at one probe counts exactly its own events. CULPRIT_MANY_CLAUSES is their
// number: the kernel needs some seconds to load a thousand.
func TestManyClausesCount(t *testing.T) {
	clauses := 60
	if n, err := strconv.Atoi(os.Getenv("CULPRIT_MANY_CLAUSES")); err == nil {
		clauses = n
	}
	var text, want strings.Builder
	for i := range clauses {
		fmt.Fprintf(&text,
			"syscall::getppid:entry /pid == %d && arg0 > %d/ { @n[%d] = count(); }\n",
			os.Getpid(), i, i)
	}
	text.WriteString(`END { printa("%d %@d\n", @n); }`)
	for i := clauses - 1; i >= 0; i-- { // rows are sorted by value
		fmt.Fprintf(&want, "%d %d\n", i, clauses-i)
	}
	_, out, errs := traced(t, program("%s", text.String()), func() {
		for i := range clauses {
			unix.RawSyscall(unix.SYS_GETPPID, uintptr(i+1), 0, 0)
		}
	})
	if strings.TrimSpace(out) != strings.TrimSpace(want.String()) || errs != "" {
		t.Errorf("said %q; printed\n%s, want\n%s", errs, out, want.String())
	}
}
