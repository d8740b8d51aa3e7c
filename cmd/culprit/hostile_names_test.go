package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view/classic"
)

// hostileName is the name of a process that would color the terminal red, forge a line and reverse
// text: 15 bytes, as the kernel keeps them. Its argument sets the title of a terminal.
const (
	hostileName     = "\x1b[31m\u009bQ\u202eZ\r"
	hostileArgument = "\x1b]0;pwned\a\u009b31mQZ\nroot"
)

// startHostile starts a process with a hostile name and argument that uses a CPU until the test
// ends, at most for five minutes.
func startHostile(t *testing.T) int {
	t.Helper()
	const script = `printf %s "$0" > /proc/$$/comm; end=$(($(date +%s) + 300))
while [ $(date +%s) -lt $end ]; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done`
	c := exec.Command("/bin/sh", "-c", script, hostileName, hostileArgument)
	if err := c.Start(); err != nil {
		t.Skip("needs: tool sh")
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // killed
	})
	eventually(t, "the process has its name", 10*time.Second, func() error {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Process.Pid))
		if !strings.HasPrefix(string(b), hostileName) {
			return fmt.Errorf("it is %q, %v", b, err)
		}
		return nil
	})
	return c.Process.Pid
}

// checkShown fails the test if an output has a character that could control a terminal.
func checkShown(t *testing.T, what string, out []byte) {
	t.Helper()
	for i, line := range strings.Split(string(out), "\n") {
		for _, r := range line {
			if !measure.IsShown(r) && r != '\t' { // of the style of an HTML page
				t.Errorf("%s, line %d has %q: %.200q", what, i+1, r, line)
				return
			}
		}
	}
}

// TestHostileNames runs the tools, trace and profile beside a process with a hostile name and
// looks at all that they print.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	pid := startHostile(t)
	runs := map[string][]string{}
	for _, tool := range classic.All() {
		line := []string{tool.Name, "0.3", "1"}
		switch tool.Name {
		case "stat":
			line = append([]string{"stat", "process.cpu by process,pid"}, line[1:]...)
		case "ps":
			line = append(line, "-n", "0", "--wide")
		}
		for _, format := range []string{"", "--csv", "--json"} {
			runs[tool.Name+" "+format] = append(line, strings.Fields(format)...)
		}
	}
	for name, text := range map[string]string{
		"printf":       `{ printf("%s|%10s|%S|%c\n", execname, execname, execname, execname[0]); }`,
		"trace":        `{ trace(execname); trace(curpsinfo->pr_psargs); }`,
		"aggregations": `{ @[execname] = count(); @b[execname, pid] = sum(1); }`,
		"printa":       `{ @[execname] = count(); } END { printa("%s %@d\n", @); }`,
		"stacks":       `{ @[ustack(), execname] = count(); @b[usym(uregs[R_PC])] = count(); }`,
	} {
		program := fmt.Sprintf("profile-97 /pid == %d/ %s tick-1s { exit(0); }", pid, text)
		runs["trace "+name] = []string{"trace", "-n", program}
		runs["trace -q "+name] = []string{"trace", "-q", "-n", program}
		runs["trace --json "+name] = []string{"trace", "--json", "-n", program}
	}
	for _, format := range []string{"txt", "folded", "json", "svg", "html"} {
		runs["profile "+format] = []string{"profile", "--for", "1s", "--format", format}
	}
	runs["profile --table"] = []string{"profile", "--for", "1s", "--table"}
	runs["diagnose"] = []string{"diagnose", "--for", "2s"}
	runs["diagnose --json"] = []string{"diagnose", "--for", "2s", "--json"}
	for name, args := range runs {
		t.Run(name, func(t *testing.T) {
			_, out, errs := call(t, args...)
			checkShown(t, "standard output", out)
			checkShown(t, "standard error", errs)
			shows := strings.HasPrefix(name, "ps ") || strings.HasPrefix(name, "trace ")
			if shows && !strings.Contains(string(out), "[31m") {
				t.Errorf("the process is missing: %.500q %.500q", out, errs)
			}
		})
	}
	t.Run("trace -x raw", func(t *testing.T) {
		program := fmt.Sprintf(
			`profile-97 /pid == %d/ { printf("%%s\n", execname); exit(0); } tick-10s { exit(1); }`,
			pid,
		)
		_, out, errs := call(t, "trace", "-q", "-x", "raw", "-n", program)
		if !strings.Contains(string(out), hostileName) {
			t.Errorf("%q %q", out, errs)
		}
	})
}
