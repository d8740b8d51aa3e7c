package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/trace"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// costLines returns the costs among lines of JSON: programs by their probe, and clauses by number.
func costLines(t *testing.T, out string) (programs map[string]jsonCost, clauses []jsonClauseCost) {
	t.Helper()
	programs = map[string]jsonCost{}
	for line := range strings.Lines(out) {
		var p jsonCost
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		switch p.Type {
		case "cost":
			programs[p.Probe] = p
		case "clause_cost":
			var c jsonClauseCost
			if err := json.Unmarshal([]byte(line), &c); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			clauses = append(clauses, c)
		}
	}
	return programs, clauses
}

// Each clause reports how often it began, how often its predicate was true, and a time that is part
// of the time that the kernel counts for the program.
func TestCostOfClauses(t *testing.T) {
	const calls, every = 3000, 3
	heavy := strings.Repeat(`@h[probename, execname] = quantize(arg0); `, 40)
	r := program(`BEGIN { n = 0; }
		syscall::getpgid:entry /pid == $pid/ { n++; }
		syscall::getpgid:entry /pid == $pid && n %% %d == 0/ { @ = count(); }
		syscall::getpgid:entry /pid == $pid/ { %s}
		syscall::getpgid:entry /pid == 1 && arg0 == 12345/ { %s}`, every, heavy, heavy)
	r.Options = append(r.Options, "cost")
	r.JSON = true
	_, out, errs := traced(t, r, func() {
		for range calls {
			unix.Getpgid(0) //nolint:errcheck // it is made to be counted
		}
	})
	programs, clauses := costLines(t, out)
	if len(clauses) != 5 || errs != "" {
		t.Fatalf("%d clauses, messages %q: %s", len(clauses), errs, out)
	}
	for i, want := range []uint64{1, calls, calls / every, calls, 0} {
		c := clauses[i]
		if c.Ran != want || c.Fired < want || c.Clause != i+1 || c.Line != i+1 {
			t.Errorf("clause %d on line %d ran %d of %d, want %d", c.Clause, c.Line, c.Ran,
				c.Fired, want)
		}
	}
	whole := programs["syscall:vmlinux:getpgid:entry"] // of the kernel
	var sum int64
	for _, c := range clauses[1:] {
		if c.Fired < calls || c.Time <= 0 {
			t.Errorf("clause %d began %d times and took %d ns", c.Clause, c.Fired, c.Time)
		}
		sum += c.Time
	}
	// The rest is the time of counting, and runs at other system calls.
	if sum > whole.Time || sum < whole.Time/4 || whole.Runs < calls {
		t.Errorf("clauses took %d ns of the %d ns of %d runs", sum, whole.Time, whole.Runs)
	}
	// It adds 40 times where the others add once at most. Interrupts may take time in all.
	if clauses[3].Time < clauses[1].Time && clauses[3].Time < clauses[4].Time {
		t.Errorf("the clause with the most actions took %d ns of %d ns", clauses[3].Time, sum)
	}
	share := float64(whole.Time) / whole.Share // of one CPU, over the duration
	if d := time.Duration(share); d <= 0 || d > time.Minute {
		t.Errorf("a share of %g for %d ns", whole.Share, whole.Time)
	}
}

// SIGUSR1 prints the costs so far, as text.
func TestCostOnRequest(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	messages, err := os.Create(filepath.Join(dir, "messages"))
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Close()
	reports := func() (string, int) {
		b, err := os.ReadFile(messages.Name())
		if err != nil {
			t.Error(err)
		}
		return string(b), strings.Count(string(b), "NS/FIRED")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := program(`syscall::getpgid:entry /pid == $pid/ { @ = count(); }`)
	r.Options = append(r.Options, "cost")
	r.begun = func() {
		defer cancel()
		unix.Getpgid(0)                      //nolint:errcheck // it is made to be counted
		unix.Kill(os.Getpid(), unix.SIGUSR1) //nolint:errcheck // it is caught
		for ctx.Err() == nil {
			if _, n := reports(); n > 0 {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	_, err = r.Run(ctx, trace.Streams{
		In: os.Stdin, Out: out, Err: messages, Plain: out, Name: "culprit",
	})
	text, n := reports()
	if err != nil || n != 2 {
		t.Errorf("%d reports, want one on request and one at the end, %v:\n%s", n, err, text)
	}
	if !strings.Contains(text, "1:1  syscall::getpgid:entry /pid == $pid/ { @ = count(); }") {
		t.Errorf("no clause in %s", text)
	}
}

// Programs of bpftrace report costs too, and a clause that is translated to several is one.
func TestCostOfBpftrace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	r := BpftraceRequest{Cost: true, JSON: true, Program: `
		tracepoint:syscalls:sys_enter_getpgid, software:cpu-clock:1000000000 /pid == cpid/ { @ = 1; }
		interval:ms:10 { exit(); }`}
	out, messages, err := runBpftrace(t, r)
	if err != nil || messages != "" {
		t.Fatalf("%v, %q", err, messages)
	}
	var kinds []string
	for line := range strings.Lines(out) {
		var m struct {
			Type string
			Data struct {
				Clause int
				Ran    uint64
				Type   *string
			}
		}
		if json.Unmarshal([]byte(line), &m) == nil && strings.HasSuffix(m.Type, "cost") {
			kinds = append(kinds, fmt.Sprint(m.Type, m.Data.Clause, m.Data.Ran))
			if m.Data.Type != nil {
				t.Errorf("the type is written twice: %s", line)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "cost0 0 cost0 0 clause_cost1 0 clause_cost3 1" &&
		got != "cost0 0 cost0 0 clause_cost1 0 clause_cost2 1" {
		t.Errorf("printed %s:\n%s", got, out)
	}
}
