package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// Each of many clauses at one probe counts exactly its own events, and in the order of the text.
// CULPRIT_MANY_CLAUSES is their number. More than 400 are in several programs.
func TestManyClausesCount(t *testing.T) {
	clauses := 450
	if n, err := strconv.Atoi(os.Getenv("CULPRIT_MANY_CLAUSES")); err == nil {
		clauses = n
	}
	var text, want strings.Builder
	text.WriteString("BEGIN { last = 0; }\n")
	for i := range clauses {
		fmt.Fprintf(&text,
			"syscall::getppid:entry /pid == %d && arg0 > %d/ "+
				"{ @n[%d] = count(); @bad = sum(last > %d); last = %d; }\n",
			os.Getpid(), i, i, i, i)
	}
	fmt.Fprintf(&text, "syscall::getppid:entry /pid == %d/ { last = 0; }\n", os.Getpid())
	text.WriteString(`END { printa("%d %@d\n", @n); printa("%@d\n", @bad); }`)
	for i := clauses - 1; i >= 0; i-- { // rows are sorted by value
		fmt.Fprintf(&want, "%d %d\n", i, clauses-i)
	}
	want.WriteString("0\n")
	_, out, errs := traced(t, program("%s", text.String()), func() {
		for i := range clauses {
			unix.RawSyscall(unix.SYS_GETPPID, uintptr(i+1), 0, 0)
		}
	})
	if strings.TrimSpace(out) != strings.TrimSpace(want.String()) || errs != "" {
		t.Errorf("said %q; printed\n%s, want\n%s", errs, out, want.String())
	}
}

// A request whose context ends does not wait until the kernel has loaded the program.
func TestStopsWhileLoading(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	var text strings.Builder
	for i := range 1500 { // this-> keeps them in one program, which takes seconds to load
		fmt.Fprintf(&text,
			"syscall::getppid:entry /arg0 == %d/ { this->n = arg1; @n[%d] = sum(this->n); }\n", i, i)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, _, err := session(ctx, t, program("%s", text.String()))
	if !errors.Is(err, errStopped) {
		t.Errorf("the error is %v", err)
	}
}
