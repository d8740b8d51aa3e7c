package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view/classic"
)

// asProgram makes this test binary the program itself: main runs with the arguments.
const asProgram = "CULPRIT_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if runTestWorker() {
		return
	}
	// A child of a role is the program too: the test binary of a tool's symbolizer would run all
	// tests again.
	if os.Getenv(asProgram) != "" || os.Getenv("CULPRIT_PROCESS") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// startWithFile starts this test binary as the program, with its output in a file. It is killed
// when the test ends.
func startWithFile(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe", args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // killed
		if b, err := os.ReadFile(out.Name()); err == nil && t.Failed() {
			t.Logf("culprit %s:\n%s", strings.Join(args, " "), b)
		}
		out.Close()
	})
	return c
}

// TestPastOutlivesTheServer asks a server, kills it, and asks its archive: the output of all tools
// is the same byte for byte.
func TestPastOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	s := startWithFile(t, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	// The first second may lack statistics, and a busy machine may miss later ones. The test uses
	// two seconds that are measured and written to disk.
	var asked measure.Interval
	eventually(t, "four seconds are recorded", time.Minute, func() error {
		c, err := dial(dir)
		if err != nil {
			return err
		}
		defer c.Close()
		held := (&serverRecord{c}).Held()
		asked = measure.Interval{
			Start: held.End.Add(-3 * measure.Second),
			End:   held.End.Add(-measure.Second),
		}
		got, err := recordedRows(c, "cpu.time by mode", asked)
		if err == nil && (held.Span() < 4*measure.Second || len(got) != 2) {
			err = fmt.Errorf("%d seconds of %v are recorded", len(got), held)
		}
		return err
	})
	from, to := asked.Start.AsTime().Format(time.RFC3339), asked.End.AsTime().Format(time.RFC3339)
	ask := func(remark string) map[string][]byte {
		t.Helper()
		all := map[string][]byte{}
		for _, tool := range classic.All() {
			status, out, errs := call(
				t, tool.Name, "--json", "--dir", dir, "--from", from, "--to", to, "1",
			)
			if n := bytes.Count(out, []byte("\n")); status != 0 || n != 2 ||
				bytes.Contains(out, []byte("nothing was recorded")) {
				t.Errorf("culprit %s: status %d, %d lines: %s%s", tool.Name, status, n, errs, out)
			}
			if remark == "" && bytes.Contains(errs, []byte("no server")) ||
				!strings.Contains(string(errs), remark) {
				t.Errorf("culprit %s prints %q, want %q", tool.Name, errs, remark)
			}
			all[tool.Name] = out
		}
		return all
	}
	running := ask("")
	if status, out, errs := call(t, "datasets", "list", "net.device.bytes", "--dir", dir); status != 0 ||
		!bytes.Contains(out, []byte("net.device.bytes by netns,device,direction")) {
		t.Errorf("datasets: status %d, %s%s", status, out, errs)
	}
	if status, _, errs := call(t, "nic", "--dir", dir, "--from", from, "--to", to, "--netns", "no-such"); status != 2 ||
		!strings.Contains(string(errs), "there was no network namespace no-such then") {
		t.Errorf("an unknown namespace: status %d, %s", status, errs)
	}

	below := childList(t, s.Process.Pid)
	if err := s.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = s.Wait() // killed
	eventually(t, "the other processes of the server have ended", time.Minute, func() error {
		for pid, name := range below {
			if now, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil &&
				strings.TrimSpace(string(now)) == name {
				return fmt.Errorf("%s runs", name)
			}
		}
		return nil
	})
	for name, out := range ask("note: no server runs: this was recorded in " + dir) {
		if !bytes.Equal(out, running[name]) {
			t.Errorf(
				"culprit %s from the server:\n%s\nfrom its archive:\n%s", name, running[name], out,
			)
		}
	}
	if status, _, errs := call(t, "datasets", "--dir", dir); status != 1 ||
		!strings.Contains(string(errs), "no server runs in "+dir) {
		t.Errorf("datasets: status %d, %s", status, errs)
	}
}
