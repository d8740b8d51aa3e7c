package term

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Flags of dtrace for what is not done here are refused, with what does the same on Linux; -h alone is help.
func TestTraceRefusals(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"-h", 0, "Compiles a program in D"},
		{"--help", 0, "Compiles a program in D"},
		{"-h -s probes.d -o probes.h", 2, "-h: no header file is made"},
		{"-G -s probes.d", 2, "<sys/sdt.h>"},
		{"-A -n BEGIN", 2, "-A: nothing is traced before a system is up"},
		{"-a", 2, "no anonymous tracing"},
		{"-n BEGIN", 0, "traced BEGIN"},
	} {
		t.Run(c.args, func(t *testing.T) {
			status, out, errs := runTrace(t, append([]string{"trace"}, strings.Fields(c.args)...)...)
			if status != c.status || !strings.Contains(out+errs, c.says) || (status == 0) != (errs == "") {
				t.Errorf("status %d, out %q, errors %q; want %d and %q", status, out, errs, c.status, c.says)
			}
		})
	}
}

// runTrace runs a command line whose tracer says what it was asked.
func runTrace(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var files [2]*os.File
	for i := range files {
		var err error
		if files[i], err = os.Create(filepath.Join(t.TempDir(), "out")); err != nil {
			t.Fatal(err)
		}
		defer files[i].Close()
	}
	status = Run(t.Context(), Program{Terminal: Terminal{Out: files[0], Err: files[1], Width: 80}, Trace: func(_ context.Context, asked Tracing, to Terminal) (int, error) {
		for _, part := range asked.Parts {
			fmt.Fprint(to.Out, "traced ", part.Text)
		}
		return 0, nil
	}}, args)
	var texts [2]string
	for i, f := range files {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(b)
	}
	return status, texts[0], texts[1]
}
