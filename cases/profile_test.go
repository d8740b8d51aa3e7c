package cases

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The programs below spend 70 % of their time in one function and 30 % in another, for ever; each
// says a line when it does.

const splitC = `
#include <stdio.h>
volatile unsigned long kept;
__attribute__((noinline)) void seventy(void) { unsigned long x = kept; for (long i = 0; i < 700000; i++) x = x * 6364136223846793005UL + 1442695040888963407UL; kept = x; }
__attribute__((noinline)) void thirty(void) { unsigned long x = kept; for (long i = 0; i < 300000; i++) x = x * 6364136223846793005UL + 1442695040888963407UL; kept = x; }
int main(void) { puts("begun"); fflush(stdout); for (;;) { seventy(); thirty(); } }`

const splitGo = `package main

import "fmt"

var kept uint64

//go:noinline
func seventy() { x := kept; for i := 0; i < 700000; i++ { x = x*6364136223846793005 + 1442695040888963407 }; kept = x }

//go:noinline
func thirty() { x := kept; for i := 0; i < 300000; i++ { x = x*6364136223846793005 + 1442695040888963407 }; kept = x }

func main() { fmt.Println("begun"); for { seventy(); thirty() } }
`

const splitNode = `
let kept = 1;
function seventy() { let x = kept; for (let i = 0; i < 700000; i++) x = (Math.imul(x, 1103515245) + 12345) | 0; kept = x; }
function thirty() { let x = kept; for (let i = 0; i < 300000; i++) x = (Math.imul(x, 1103515245) + 12345) | 0; kept = x; }
for (let i = 0; i < 200; i++) { seventy(); thirty(); }
console.log("begun");
for (;;) { seventy(); thirty(); }`

const splitJava = `
public class Split {
	static long kept = 1;
	static void seventy() { long x = kept; for (int i = 0; i < 700000; i++) x = x * 6364136223846793005L + 1442695040888963407L; kept = x; }
	static void thirty() { long x = kept; for (int i = 0; i < 300000; i++) x = x * 6364136223846793005L + 1442695040888963407L; kept = x; }
	public static void main(String[] args) {
		for (int i = 0; i < 20000; i++) { seventy(); thirty(); if (i == 2000) { System.out.println("begun"); System.out.flush(); } }
		for (;;) { seventy(); thirty(); }
	}
}`

const splitPython = `
kept = 1
def seventy():
    x = 0
    for i in range(70000): x = x * 3 % 1000003
def thirty():
    x = 0
    for i in range(30000): x = x * 3 % 1000003
print("begun", flush=True)
while True:
    seventy(); thirty()`

// splits starts one of the programs and returns its process.
func splits(t *testing.T, dir string, line ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(line[0], line[1:]...)
	c.Dir = dir
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(
			syscall.SIGTERM,
		) //nolint:errcheck // a virtual machine tidies up then
		c.Wait() //nolint:errcheck // it was ended by a signal
		os.Remove(
			fmt.Sprintf("/tmp/perf-%d.map", c.Process.Pid),
		) //nolint:errcheck // there may be none
	})
	b := make([]byte, 1)
	if _, err := out.Read(b); err != nil {
		t.Fatalf("%v: %v", line, err)
	}
	return c
}

func written(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func made(t *testing.T, dir string, line ...string) {
	t.Helper()
	c := exec.Command(line[0], line[1:]...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if b, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %.1000s", line, err, b)
	}
}

// folded reads folded stacks: the sum of all, and of those with a function whose name has the text.
func folded(out []byte, functions ...string) (all float64, each []float64) {
	each = make([]float64, len(functions))
	for line := range strings.Lines(string(out)) {
		at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if at < 0 {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(line)[at+1:], 64)
		if err != nil {
			continue
		}
		all += n
		for i, f := range functions {
			if strings.Contains(line[:at], f) {
				each[i] += n
			}
		}
	}
	return all, each
}

// TestProfileSharesOfLanguages: whatever a program is written in, the shares of its functions are
// those that it spends, within five standard deviations of so many samples and two hundredths for
// what is not the loop, and those that perf finds.
func TestProfileSharesOfLanguages(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	bin := needProgram(t)
	for _, l := range []struct {
		name  string
		tools []string
		start func(t *testing.T, dir string) *exec.Cmd
	}{
		{"C", []string{"gcc"}, func(t *testing.T, dir string) *exec.Cmd {
			made(t, dir, "gcc", "-O2", "-fno-omit-frame-pointer", "-o", "split", written(t, dir, "split.c", splitC))
			return splits(t, dir, filepath.Join(dir, "split"))
		}},
		{"Go", []string{"go"}, func(t *testing.T, dir string) *exec.Cmd {
			made(t, dir, "go", "build", "-o", "split", written(t, dir, "split.go", splitGo))
			return splits(t, dir, filepath.Join(dir, "split"))
		}},
		{"Node", []string{"node"}, func(t *testing.T, dir string) *exec.Cmd {
			return splits(t, dir, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", written(t, dir, "split.js", splitNode))
		}},
		{"Java", []string{"java", "javac", "jcmd"}, func(t *testing.T, dir string) *exec.Cmd {
			made(t, dir, "javac", written(t, dir, "Split.java", splitJava))
			// Inlined into main, the two are one: perf maps have no inlined functions.
			c := splits(t, dir, "java", "-XX:+PreserveFramePointer", "-XX:CompileCommand=dontinline,Split.*", "-cp", dir, "Split")
			waitJava(t, c.Process.Pid)
			return c
		}},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel() // each is one busy thread, whose shares are compared
			needTools(t, l.tools...)
			c := l.start(t, t.TempDir())
			pid := strconv.Itoa(c.Process.Pid)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var one, other, whole float64
			for whole < 400 && ctx.Err() == nil { // beside others it gets its share of a CPU
				out, err := output(
					ctx,
					exec.CommandContext(
						ctx, bin, "profile", "--pid", pid, "--user", "--hz", "499", "--for", "2",
						"--format", "folded",
					),
				)
				if err != nil {
					t.Fatal(err)
				}
				all, each := folded(out, "seventy", "thirty")
				one, other, whole = one+each[0], other+each[1], whole+all
			}
			share, within := one/(one+other), 5*math.Sqrt(0.21/(one+other))+0.02
			t.Logf("%.1f%% and %.1f%% of %.0f samples", 100*one/whole, 100*other/whole, whole)
			if one+other < 0.9*whole || !(math.Abs(share-0.7) <= within) {
				t.Errorf(
					"the functions have %.1f%% and %.1f%% of %.0f samples; 70%% and 30%%, within %.1f%%, is true",
					100*one/whole, 100*other/whole, whole, 100*within,
				)
			}
			besidePerf(t, bin, pid, share)
		})
	}
}

// waitJava has the virtual machine write down what it compiled, once it has compiled both
// functions.
func waitJava(t *testing.T, pid int) {
	t.Helper()
	name := fmt.Sprintf("/tmp/perf-%d.map", pid)
	var said []byte
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var err error
		if said, err = exec.Command("jcmd", strconv.Itoa(pid), "Compiler.perfmap").CombinedOutput(); err != nil {
			if strings.Contains(string(said), "Unknown") ||
				strings.Contains(string(said), "unknown") {
				t.Skip("needs: tool jcmd with Compiler.perfmap")
			}
		}
		b, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(b), "seventy") &&
			strings.Contains(string(b), "thirty") {
			return
		}
	}
	t.Fatalf("the virtual machine wrote no names: %s", said)
}

// besidePerf holds the share of the first function against what perf record finds, where perf is
// there and can sample.
func besidePerf(t *testing.T, bin, pid string, ours float64) {
	t.Helper()
	if needTool("perf") != "" {
		return
	}
	data := filepath.Join(t.TempDir(), "perf.data")
	perf := exec.Command(
		"perf", "record", "-q", "-e", "cpu-clock:u", "-F", "499", "-g", "-p", pid, "-o", data,
		"--", "sleep", "2",
	)
	if b, err := perf.CombinedOutput(); err != nil {
		t.Logf("perf can't sample here: %v: %.300s", err, b)
		return
	}
	script, err := exec.Command("perf", "script", "-i", data).Output()
	if err != nil {
		t.Logf("perf script: %v", err)
		return
	}
	c := exec.Command(bin, "flame", "--format", "folded")
	c.Stdin = strings.NewReader(string(script))
	out, err := c.Output()
	if err != nil {
		t.Fatalf("flame of what perf script prints: %v", err)
	}
	_, each := folded(out, "seventy", "thirty")
	n := (each[0] + each[1]) * 499 / 1e9 // amounts are ns there
	if n < 50 {
		t.Logf("perf has %.0f samples of them", n)
		return
	}
	theirs, within := each[0]/(each[0]+each[1]), 5*math.Sqrt(0.21/n)+5*math.Sqrt(0.21/400)+0.02
	if !(math.Abs(ours-theirs) <= within) {
		t.Errorf(
			"the first function has %.1f%%, and by perf %.1f%% of %.0f samples", 100*ours,
			100*theirs, n,
		)
	}
	t.Logf("by perf %.1f%% of %.0f samples", 100*theirs, n)
}

// TestProfilePython: of a Python program the interpreter's own functions are seen. Which functions
// of Python they execute is not.
func TestProfilePython(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	bin := needProgram(t)
	needTools(t, "python3")
	c := splits(t, t.TempDir(), "python3", "-c", splitPython)
	var named, whole float64
	for deadline := time.Now().Add(time.Minute); whole < 200 && time.Now().Before(deadline); {
		out, err := output(
			t.Context(),
			exec.Command(
				bin, "profile", "--pid", strconv.Itoa(c.Process.Pid), "--user", "--hz", "499",
				"--for", "2", "--format", "folded",
			),
		)
		if err != nil {
			t.Fatal(err)
		}
		all, each := folded(out, "Py")
		named, whole = named+each[0], whole+all
	}
	if named < 0.8*whole || whole == 0 {
		t.Errorf("of %.0f samples %.0f are of functions of the interpreter", whole, named)
	}
}

// TestProfileOrdinary: without capabilities the messages name the missing ones and what still
// works, and that works; with the rights to sample alone, the kernel's functions are without names,
// which is said.
func TestProfileOrdinary(t *testing.T) {
	if quick() {
		return
	}
	l := open(t)
	bin := forAll(t, l, needProgram(t))
	needTools(t, "setpriv")
	nobody := func(before []string, args ...string) (string, string, error) {
		line := append(append(asNobody(), before...), bin)
		line = append(line, args...)
		c := l.Command(line[0], line[1:]...)
		var out, said strings.Builder
		c.Stdout, c.Stderr = &out, &said
		err := c.Run()
		return out.String(), said.String(), err
	}
	for _, args := range [][]string{
		{"profile", "--for", "1"},
		{"profile", "--off-cpu", "--for", "1"},
		{"profile", "--locks", "--for", "1"},
		{"locks", "1", "1"},
	} {
		out, said, err := nobody(nil, args...)
		if err == nil ||
			!strings.Contains(said, "denied, needs CAP_BPF and CAP_PERFMON, or root") ||
			!strings.Contains(said, "kernel.perf_event_paranoid") ||
			strings.Count(said, "\n") > 1 {
			t.Errorf("%v: %v, printed %s, said %s", args, err, out, said)
		}
	}
	if out, said, err := nobody(nil, "cpu", "1", "1"); err != nil ||
		!strings.Contains(out, "idle") {
		t.Errorf("cpu: %v, %s%s", err, out, said)
	}
	file := written(t, l.Dir(), "some.folded", "main;f 70\nmain;g 30\n")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, said, err := nobody(nil, "flame", file, "--table"); err != nil ||
		!strings.Contains(out, "70%") {
		t.Errorf("flame: %v, %s%s", err, out, said)
	}
	for _, rights := range []struct{ caps, lacks string }{
		{"+bpf", "CAP_PERFMON"}, {"+perfmon", "CAP_BPF"},
	} {
		caps := []string{"--inh-caps", rights.caps, "--ambient-caps", rights.caps}
		if _, said, err := nobody(caps, "profile", "--for", "1"); err == nil ||
			!strings.Contains(said, "needs "+rights.lacks+", or root") {
			t.Errorf("with %s: %v, said %s", rights.caps, err, said)
		}
	}
	out, said, err := nobody(
		[]string{"--inh-caps", "+bpf,+perfmon", "--ambient-caps", "+bpf,+perfmon"}, "profile",
		"--for", "1", "--idle", "--table",
	)
	if err != nil || !strings.Contains(out, "Count indv cuml  CPU Caller") ||
		!strings.Contains(said, "CAP_SYSLOG") && strings.Contains(out, "0xffff") {
		t.Errorf("with the rights to sample: %v, said %s, printed %s", err, said, out)
	}
}

// TestTables plays the stories of tables, and samples meanwhile what the kernel does for their
// loads: the network's lookup function is what a machine with long hash chains does more of, and
// the first that the comparison names; a machine with as many connections in a wide table does not.
func TestTables(t *testing.T) {
	if quick() {
		return
	}
	needLab(t)
	bin := needProgram(t)
	dir := t.TempDir()
	const lookup = "__inet_lookup_established"
	shares := map[string]float64{}
	timeout := time.Now().Add(time.Minute)
	for _, story := range tableStories() {
		t.Run(story.Name, func(t *testing.T) {
			played(t, story, bin, timeout, func(ctx context.Context, sc *Scene) error {
				share, err := profileOfScene(
					ctx, t, sc, bin, filepath.Join(dir, story.Name+".folded"), lookup,
				)
				shares[story.Name] = share
				return err
			})
		})
	}
	if len(shares) < len(tableStories()) || t.Failed() {
		return // one of them alone was asked for, or has said what is wrong
	}
	t.Logf("%s has, of what the kernel does: %v", lookup, shares)
	if shares["table-long"] < 0.05 || shares["table-long"] < 4*shares["table-empty"] ||
		shares["table-long"] < 4*shares["table-wide"] {
		t.Errorf("the shares of %s don't tell which table is long: %v", lookup, shares)
	}
	rank := func(before, after string) (first string, gone, come float64) {
		out, err := output(
			t.Context(),
			exec.Command(
				bin, "flame", "--diff", filepath.Join(dir, before+".folded"),
				filepath.Join(dir, after+".folded"), "--json",
			),
		)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Functions []struct {
				Function string
				Before   float64 `json:"self_before"`
				After    float64 `json:"self_after"`
			}
		}
		if err := json.Unmarshal(out, &d); err != nil || len(d.Functions) == 0 {
			t.Fatalf("%v: %.500s", err, out)
		}
		return d.Functions[0].Function, d.Functions[0].Before, d.Functions[0].After
	}
	first, before, after := rank("table-empty", "table-long")
	t.Logf("first is %s: %.1f%% before, %.1f%% after", first, 100*before, 100*after)
	if first != lookup || after < before+0.05 || math.Abs(after-shares["table-long"]) > 0.01 {
		t.Errorf("what explains most of the difference is %s (%.3f, %.3f)", first, before, after)
	}
	if first, _, _ := rank("table-empty", "table-wide"); first == lookup {
		t.Errorf("a wide table's difference is %s too", first)
	}
}

// profileOfScene samples what the kernel does for the loads of a scene, and returns the share of a
// function.
func profileOfScene(
	ctx context.Context, t *testing.T, sc *Scene, bin, file, function string,
) (float64, error) {
	t.Helper()
	args := []string{"profile", "--kernel", "--hz", "997", "--for", "4", "-o", file}
	for _, d := range sc.Loads { // packets are received by whoever sends them, on a virtual cable
		args = append(args, "--pid", strconv.Itoa(d.PID))
	}
	if _, err := output(ctx, sc.Lab.Command(bin, args...)); err != nil {
		return 0, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	all, each := folded(b, function)
	t.Logf("%s: %.0f samples", sc.Story, all)
	return each[0] / all, nil
}
