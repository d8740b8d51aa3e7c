package command

import (
	"fmt"
	"strings"
	"testing"
)

// A predicate on one CPU uses a timer only on that CPU. A CPU that does not exist is reported.
func TestProfileOfOneCPU(t *testing.T) {
	for _, cpu := range []int{0, 4095} {
		_, out, errs := traced(
			t,
			program(`profile-997 /cpu == %d/ { @[cpu] = count(); } tick-300ms { exit(0); }`, cpu),
			nil,
		)
		matched := fmt.Sprintf(
			"culprit: 0 of 1 attached; 1 skipped because CPU %d is not online: profile:::profile-997\n",
			cpu,
		)
		if cpu == 0 {
			matched = ""
		}
		if errs != matched || (cpu == 0) != (len(out) > 10) {
			t.Errorf("CPU %d: printed %q and %q", cpu, out, errs)
		}
	}
}

// The listing shows the text that instructions were generated from, once for each run of them.
func TestListing(t *testing.T) {
	r := program("BEGIN\n{\n  x = 3;\n  @[x] = count();\n}\n")
	r.Listing, r.CompileOnly = true, true
	_, out, _ := traced(t, r, nil)
	if n := strings.Count(out, "; 4: @[x] = count()\n"); n != 1 ||
		!strings.Contains(out, "dtrace:::BEGIN: ") {
		t.Errorf("%d times in %q", n, out)
	}
}
