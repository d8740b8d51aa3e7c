package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// symbolsName is the name of the process that reads symbols, as ps shows it.
const symbolsName = "culprit-symbols"

// statusOf returns fields of /proc/PID/status by their names.
func statusOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		all[name] = strings.Join(strings.Fields(value), " ")
	}
	return all
}

// checkSymbolizer checks that a symbolizer has no privilege.
func checkSymbolizer(t *testing.T, pid int) {
	t.Helper()
	status := statusOf(t, pid)
	for name, want := range map[string]string{
		"CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapInh": "0000000000000000",
		"Seccomp": "2", "NoNewPrivs": "1", "Uid": "61101 61101 61101 61101",
		"Gid": "61101 61101 61101 61101", "Groups": "",
	} {
		if got := status[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	score, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
	if err != nil || strings.TrimSpace(string(score)) != "900" {
		t.Errorf("oom_score_adj is %s, %v", score, err)
	}
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil || !strings.Contains(string(limits), fmt.Sprint(256<<20)) {
		t.Errorf("limits, %v:\n%s", err, limits)
	}
}

// TestProfileReadsSymbolsApart: a profile that root takes has its names from a process without
// privileges, which ends with it.
func TestProfileReadsSymbolsApart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	out := filepath.Join(t.TempDir(), "profile.folded")
	c := startWithFile(t, "profile", "--for", "3s", "-o", out)
	pid := 0
	eventually(t, "a symbolizer runs", time.Minute, func() error {
		if pid = children(t, c.Process.Pid)[symbolsName]; pid == 0 {
			return fmt.Errorf("the children are %v", children(t, c.Process.Pid))
		}
		if statusOf(t, pid)["Seccomp"] != "2" {
			return fmt.Errorf("it is not confined yet")
		}
		return nil
	})
	checkSymbolizer(t, pid)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(b), ";main") &&
		!strings.Contains(string(b), "runtime.") {
		t.Errorf("no names of programs, %v:\n%.2000s", err, b)
	}
	eventually(t, "the symbolizer has ended", 10*time.Second, func() error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return fmt.Errorf("process %d runs", pid)
		}
		return nil
	})
}

// TestServeReadsSymbolsApart: a server's profile has its names from a process without privileges.
// Its death costs no second and no name of the time after.
func TestServeReadsSymbolsApart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	busy := exec.Command("sh", "-c", "while :; do :; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() }) // killed
	dir := t.TempDir()
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	c.waitForLine(t, "?token=", 20*time.Second)
	eventually(t, "a symbolizer runs", time.Minute, func() error {
		pid := children(t, c.Process.Pid)[symbolsName]
		if pid == 0 || statusOf(t, pid)["Seccomp"] != "2" {
			return fmt.Errorf("the children are %v", children(t, c.Process.Pid))
		}
		return nil
	})
	checkSymbolizer(t, children(t, c.Process.Pid)[symbolsName])
	query := fmt.Sprintf("cpu.stack.samples by user where pid = %d", busy.Process.Pid)
	began := now().Add(2 * measure.Second)
	began -= began % measure.Time(measure.Second)
	recordedUntil(t, dir, query, began, began.Add(3*measure.Second))
	for range 3 {
		c.kill(t, symbolsName)
	}
	killed := now()
	a := recordedUntil(t, dir, query, began, killed.Add(4*measure.Second))
	checkComplete(t, a)
	a = recordedUntil(t, dir, query, killed.Add(measure.Second), killed.Add(4*measure.Second))
	named := false
	for _, f := range a.Frames {
		named = named || strings.Contains(f.Module, "sh") && f.Symbol != "["+f.Module+"]"
	}
	if !named {
		t.Errorf("no frame of the shell has a name: %v", a.Frames)
	}
}
