package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view/web/client"
)

// children returns the process IDs of the children of a process by their names.
func children(t *testing.T, pid int) map[string]int {
	t.Helper()
	all := map[string]int{}
	for child, name := range childList(t, pid) {
		all[name] = child
	}
	return all
}

// childList returns the names of the children of a process by their process IDs.
func childList(t *testing.T, pid int) map[int]string {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Skip("needs: kernel feature CONFIG_PROC_CHILDREN")
	}
	all := map[int]string{}
	for _, list := range lists {
		b, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, word := range strings.Fields(string(b)) {
			name, err := os.ReadFile("/proc/" + word + "/comm")
			if err != nil {
				continue
			}
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			all[child] = strings.TrimSpace(string(name))
		}
	}
	return all
}

// descriptors returns the files that describe the descriptors of a process and its children:
// /proc/PID/fdinfo, proc(5).
func descriptors(t *testing.T, pid int) (files []string) {
	t.Helper()
	for _, one := range append(slices.Collect(maps.Values(children(t, pid))), pid) {
		of, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", one))
		if err != nil || len(of) == 0 {
			t.Fatalf("the files of process %d: %v", one, err)
		}
		files = append(files, of...)
	}
	return files
}

// kill kills the child of that name and waits until another one has taken its place.
func (c *culprit) kill(t *testing.T, name string) {
	t.Helper()
	old := children(t, c.Process.Pid)[name]
	if old == 0 {
		t.Fatalf("there is no process %s: %v", name, children(t, c.Process.Pid))
	}
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, name+" is started again", 20*time.Second, func() error {
		if now := children(t, c.Process.Pid)[name]; now == old || now == 0 {
			return fmt.Errorf("its process is %d, was %d", now, old)
		}
		return nil
	})
}

// recordedUntil waits until a statistic is recorded up to a moment, and returns the answer from a
// moment on.
func recordedUntil(t *testing.T, dir, query string, from, until measure.Time) *measure.Answer {
	t.Helper()
	q, err := measure.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	var answer *measure.Answer
	eventually(t, "it is recorded", time.Minute, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		c, err := client.Dial(ctx, socketPath(dir))
		if err != nil {
			return err
		}
		defer c.Close()
		newest := (&serverRecord{c}).Held().End
		if newest < until {
			return fmt.Errorf("the newest tick is %v", newest)
		}
		q.Over, q.Step = measure.Interval{Start: from, End: newest}, measure.Second
		answer, err = c.Ask(ctx, q)
		return err
	})
	return answer
}

// measured returns how much of an answer's time was measured, and the time that it spans.
func measured(a *measure.Answer) (sum, span measure.Span) {
	for _, e := range a.Elapsed {
		sum += e
	}
	return sum, a.Over().Span()
}

// checkComplete fails the test where a second of the range was not measured. Readings late by less
// than half a second make the sum differ from the range.
func checkComplete(t *testing.T, a *measure.Answer) {
	t.Helper()
	if sum, span := measured(a); (sum - span).AsDuration().Abs() > time.Second/2 {
		t.Errorf("%v of %v were measured: %v, notes %q", sum, span, a.Elapsed, a.Notes)
	}
}

func now() measure.Time { return measure.Time(time.Now().UnixNano()) }

// TestKilledProcesses kills the server and the recorder under way. A dead server costs no second; a
// dead recorder costs few, and the data says so.
func TestKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	c.waitForLine(t, "?token=", 20*time.Second)
	const query = "cpu.time by mode"
	began := now().Add(3 * measure.Second)
	began -= began % measure.Time(measure.Second)
	recordedUntil(t, dir, query, began, began.Add(4*measure.Second))
	for range 3 {
		c.kill(t, "culprit-server")
		time.Sleep(1700 * time.Millisecond) // a moment within a second, another one each time
	}
	a := recordedUntil(t, dir, query, began, now().Add(2*measure.Second))
	checkComplete(t, a)
	isNote := func(n string) bool { return strings.Contains(n, "the recorder was started again") }
	if slices.ContainsFunc(a.Notes, isNote) {
		t.Errorf("notes %q", a.Notes)
	}

	began = now()
	began -= began % measure.Time(measure.Second)
	c.kill(t, "culprit-record")
	a = recordedUntil(t, dir, query, began, now().Add(4*measure.Second))
	if sum, span := measured(a); sum < span-4*measure.Second {
		t.Errorf("%v of %v were measured: %v", sum, span, a.Elapsed)
	}
	if !slices.ContainsFunc(a.Notes, isNote) {
		t.Errorf("the notes do not tell of the recorder: %q", a.Notes)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := c.end(t, 20*time.Second); status != 0 {
		t.Errorf("ended by SIGTERM: status %d", status)
	}
}

// TestConfinedProcesses looks at what the kernel says of each process.
func TestConfinedProcesses(t *testing.T) {
	dir := t.TempDir()
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	c.waitForLine(t, "?token=", 20*time.Second)
	all := children(t, c.Process.Pid)
	delete(all, symbolsName) // TestServeReadsSymbolsApart is for it
	if len(all) != 2 {
		t.Fatalf("the processes are %v", all)
	}
	for name, pid := range all {
		got := status(t, pid)
		if got["NoNewPrivs"] != "1" || got["Seccomp"] != "2" {
			t.Errorf("%s: no_new_privs %s, seccomp %s", name, got["NoNewPrivs"], got["Seccomp"])
		}
	}
	got := status(t, all["culprit-server"])
	if got["CapEff"] != "0000000000000000" || got["CapPrm"] != got["CapEff"] {
		t.Errorf("the server has the capabilities %s of %s", got["CapEff"], got["CapPrm"])
	}
	if uid := strings.Fields(got["Uid"]); os.Geteuid() == 0 && slices.Contains(uid, "0") {
		t.Errorf("the server is root: %v", uid)
	}
	// The server's end is final if it says so: nothing is started again, and nothing stays.
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all processes end", 10*time.Second, func() error {
		for name, pid := range all {
			if syscall.Kill(pid, 0) == nil {
				return fmt.Errorf("%s runs, process %d", name, pid)
			}
		}
		return nil
	})
}
