package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
	"culprit/remote"
	"culprit/trace/sampler"
	"culprit/view/web/client"
)

// burnt receives the results of burnSeventy and burnThirty, so that the compiler keeps their loops.
//
// table: written by one test
var burnt atomic.Uint64

//go:noinline
func burnSeventy(n int) {
	x := uint64(n)
	for range n * 700 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	burnt.Store(x)
}

//go:noinline
func burnThirty(n int) {
	x := uint64(n)
	for range n * 300 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	burnt.Store(x)
}

// perfPrograms returns the number of BPF programs of perf events that a process and its children
// have open.
func perfPrograms(t *testing.T, pid int) (n int) {
	t.Helper()
	for _, name := range descriptors(t, pid) {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), "prog_type:") &&
			strings.Contains(string(b), "prog_type:\t7\n") { // BPF_PROG_TYPE_PERF_EVENT
			n++
		}
	}
	return n
}

// sampledShares runs `culprit profile` on the record of this process. It returns the samples of
// burnSeventy and burnThirty, and the output.
func sampledShares(t *testing.T, dir string) (seventy, thirty int, out string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(
		self, "profile", "--dir", dir, "--from", "-5m", "--pid", strconv.Itoa(os.Getpid()),
		"--format", "folded",
	)
	c.Env = append(os.Environ(), asProgram+"=1")
	b, _ := c.CombinedOutput() // it fails while no sample is recorded
	for line := range strings.Lines(string(b)) {
		stack, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndexByte(strings.TrimSpace(line), ' '); i > 0 {
			stack, count = line[:i], strings.TrimSpace(line[i:])
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			continue
		}
		if strings.Contains(stack, "burnSeventy") {
			seventy += n
		} else if strings.Contains(stack, "burnThirty") {
			thirty += n
		}
	}
	return seventy, thirty, string(b)
}

// TestServerSamples checks the shares of sampled functions: of a running server, of a killed one,
// and of the next one. While the datasets are suspended, nothing is sampled.
func TestServerSamples(t *testing.T) {
	needsTracing(t)
	dir := t.TempDir()
	c := start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0", "--profile", "199")
	c.waitForLine(t, "records in", time.Minute)
	over := atomic.Bool{}
	go func() {
		for !over.Load() {
			burnSeventy(1000)
			burnThirty(1000)
		}
	}()
	defer over.Store(true)
	right := func(when string) int {
		t.Helper()
		var one, other int
		eventually(t, "there are samples "+when, 2*time.Minute, func() error {
			var out string
			if one, other, out = sampledShares(t, dir); one+other < 300 {
				return fmt.Errorf("%d and %d samples in\n%.500s", one, other, out)
			}
			return nil
		})
		if share := float64(one) / float64(one+other); share < 0.55 || share > 0.85 {
			t.Errorf(
				"%s, the function with 70 %% of the time has %.1f %% of %d samples", when,
				100*share, one+other,
			)
		}
		return one + other
	}
	before := right("while it runs")
	over.Store(true)
	if n := perfPrograms(t, c.Process.Pid); n == 0 {
		t.Error("it samples without a program")
	}
	time.Sleep(3 * time.Second) // a kill loses at most two seconds
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.end(t, 10*time.Second)
	if n := right("after kill -9, in the archive"); n < before {
		t.Errorf("%d samples before the kill and %d after it", before, n)
	}
	c = start(t, nil, "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0", "--profile", "199")
	c.waitForLine(t, "records in", time.Minute)
	right("by the next server")

	client, err := client.Dial(t.Context(), socketPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	each := func(do func(context.Context, uint32) error) {
		t.Helper()
		all, err := client.Datasets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, k := range all {
			if strings.HasPrefix(string(k.Dataset.Stat.ID), "cpu.stack.") {
				n++
				if err := do(t.Context(), k.Dataset.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n != 3 {
			t.Fatalf("%d datasets of stacks", n)
		}
	}
	eventually(t, "it samples", 20*time.Second, func() error {
		if perfPrograms(t, c.Process.Pid) == 0 {
			return fmt.Errorf("no program")
		}
		return nil
	})
	each(client.Suspend)
	eventually(t, "a suspended dataset is not sampled", 20*time.Second, func() error {
		if n := perfPrograms(t, c.Process.Pid); n > 0 {
			return fmt.Errorf("%d programs", n)
		}
		return nil
	})
	each(client.Resume)
	eventually(t, "it samples again", 20*time.Second, func() error {
		if perfPrograms(t, c.Process.Pid) == 0 {
			return fmt.Errorf("no program")
		}
		return nil
	})
	right("after suspending and resuming")
}

// TestServerWithoutPrivileges runs a server as nobody: it records everything but stacks, and a note
// says why.
func TestServerWithoutPrivileges(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("/tmp", "culprit-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/proc/self/exe", "serve", "--print-token", "--dir", dir, "--listen", "127.0.0.1:0")
	c.Env = append(os.Environ(), asProgram+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill() // it would run for ever
		_ = c.Wait()         // killed
	}()
	eventually(t, "it says why there are no stacks", 30*time.Second, func() error {
		client, err := client.Dial(t.Context(), socketPath(dir))
		if err != nil {
			return err
		}
		defer client.Close()
		q, err := measure.ParseQuery("cpu.stack.samples by process,kernel,user")
		if err != nil {
			return err
		}
		a, err := client.Ask(t.Context(), q)
		if err != nil {
			return err
		}
		if len(a.Series) > 0 || !slices.ContainsFunc(a.Notes, func(n string) bool {
			return strings.Contains(n, "no stacks are sampled") && strings.Contains(n, "CAP_")
		}) {
			return fmt.Errorf("%d rows, notes %q", len(a.Series), a.Notes)
		}
		if q, err = measure.ParseQuery("cpu.time by mode"); err != nil {
			return err
		}
		if a, err = client.Ask(t.Context(), q); err != nil {
			return err
		}
		if len(a.Series) == 0 {
			return errors.New("there are no rows of CPU time")
		}
		return nil
	})
}

// The length of a profile is the time in which stacks are sampled, without loading and attaching.
func TestSampledLength(t *testing.T) {
	needsTracing(t)
	const length = 300 * measure.Millisecond
	got, err := stackSampler(nil)(
		t.Context(), remote.Sampling{Hz: 99, For: length, Kernel: true, User: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	if got.Took < length {
		t.Errorf("it took %v, want at least %v", got.Took, length)
	}
}

// TestKeptSamples: an iteration of stacks uses the memory of their frames again, as that of waits
// does.
func TestKeptSamples(t *testing.T) {
	want := [][2]string{{"main", "do_wait"}, {"sleep", "nanosleep"}, {"exec", "move_page_tables"}}
	kept := keptSamples(func(yield func(sampler.Sampled) bool) {
		var user, kernel []string
		for _, w := range want {
			user, kernel = append(user[:0], w[0]), append(kernel[:0], w[1])
			if !yield(sampler.Sampled{User: user, Kernel: kernel, Count: 1}) {
				return
			}
		}
		user[0], kernel[0] = "later", "later"
	})
	for i, w := range want {
		if got := [2]string{kept[i].User[0], kept[i].Kernel[0]}; got != w {
			t.Errorf("sample %d has the frames %q, want %q", i, got, w)
		}
	}
}
