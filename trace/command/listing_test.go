package command

import (
	"fmt"
	"strings"
	"testing"
)

// What is asked for on one CPU takes a timer on that one, and a CPU that is not there is told of.
func TestProfileOfOneCPU(t *testing.T) {
	for _, cpu := range []int{0, 4095} {
		_, out, errs := traced(
			t,
			program(`profile-997 /cpu == %d/ { @[cpu] = count(); } tick-300ms { exit(0); }`, cpu),
			nil,
		)
		told := fmt.Sprintf(
			"culprit: 0 of 1 attached; 1 skipped because CPU %d is not online: profile:::profile-997\n",
			cpu,
		)
		if cpu == 0 {
			told = ""
		}
		if errs != told || (cpu == 0) != (len(out) > 10) {
			t.Errorf("CPU %d: printed %q and %q", cpu, out, errs)
		}
	}
}

// The listing tells what of the text the instructions come from, once for each run of them.
func TestListing(t *testing.T) {
	r := program("BEGIN\n{\n  x = 3;\n  @[x] = count();\n}\n")
	r.Listing, r.CompileOnly = true, true
	_, out, _ := traced(t, r, nil)
	if n := strings.Count(out, "; 4: @[x] = count()\n"); n != 1 ||
		!strings.Contains(out, "dtrace:::BEGIN: ") {
		t.Errorf("%d times in %q", n, out)
	}
}
