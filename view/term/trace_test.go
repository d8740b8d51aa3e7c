package term

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// Flags of dtrace for what is not done here are refused, with what does the same on Linux; -h alone
// is help.
func TestTraceRefusals(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"-h", 0, "Compiles a program in D"},
		{"--help", 0, "Compiles a program in D"},
		{"-h -s probes.d -o probes.h", 2, "-h: culprit makes no header file"},
		{"-G -s probes.d", 2, "<sys/sdt.h>"},
		{"-A -n BEGIN", 2, "-A: culprit traces nothing during boot"},
		{"-a", 2, "no anonymous tracing"},
		{"-n BEGIN", 0, "traced BEGIN"},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, out, errs := runTrace(
				t,
				append([]string{"trace"}, strings.Fields(c.args)...)...)
			if status != c.status || !strings.Contains(out+errs, c.says) ||
				(status == 0) != (errs == "") {
				t.Errorf(
					"status %d, out %q, errors %q; want %d and %q", status, out, errs, c.status,
					c.says,
				)
			}
		})
	}
}

// runTrace runs a command line whose tracer says what it was asked.
func runTrace(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	return runProgram(
		t,
		Program{Trace: func(_ context.Context, asked Tracing, to Terminal) (int, error) {
			for _, part := range asked.Parts {
				fmt.Fprint(to.Out, "traced ", part.Text)
			}
			return 0, nil
		}},
		args,
	)
}
