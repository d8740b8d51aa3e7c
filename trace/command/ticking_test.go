package command

import (
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ticks that could not run in time run later, before those that were due after them.
func TestLateTicksFire(t *testing.T) {
	for range 2 * runtime.NumCPU() { // programs that take the CPUs
		c := exec.Command("sh", "-c", "while :; do :; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			c.Process.Kill() //nolint:errcheck // it was started here
			c.Wait()         //nolint:errcheck // it was killed
		}()
	}
	_, out, errs := tracedWhole(t, program(`
		tick-1ms { @["1 ms"] = count(); } tick-10ms { @["10 ms"] = count(); } tick-97 { @["97"] = count(); } tick-100us { @["100 us"] = count(); }
		tick-2s { exit(0); }`), nil)
	for _, tt := range []struct {
		name string
		want int
	}{{"1 ms", 2000}, {"10 ms", 200}, {"97", 194}, {"100 us", 20000}} {
		m := regexp.MustCompile(`(?m)^\s+` + tt.name + `\s+(\d+)$`).FindStringSubmatch(out)
		if n, err := strconv.Atoi(append(m, "", "")[1]); err != nil || n < tt.want-1 ||
			n > tt.want+1 {
			t.Errorf("tick-%s fired %d times, want %d: %q %q", tt.name, n, tt.want, out, errs)
		}
	}
}

// A culprit that was stopped for a second and goes on has fired as many ticks as the time asks for.
func TestTicksOfAStoppedProcess(t *testing.T) {
	command := help(t, "ticks")
	c := exec.Command("sh", "-c", command)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // the test checks its output
	var pid, n int
	if _, err := fmt.Fscanf(out, "ticking %d\n", &pid); err != nil {
		t.Skip("needs: root")
	}
	time.Sleep(200 * time.Millisecond)
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, err := fmt.Fscanf(out, "%d\n", &n); err != nil && n == 0; _, err = fmt.Fscanf(out, "%d\n", &n) {
		if err.Error() == "EOF" {
			break
		}
	}
	if n != 2000 {
		t.Errorf(
			"tick-1ms fired %d times in two seconds, one of which the process stood still; want 2000",
			n,
		)
	}
}
