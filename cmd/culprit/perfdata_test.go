package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
	"culprit/view/term"
)

// split spends seven tenths of its time in one function.
const split = `
volatile long s;
__attribute__((noinline)) void inner(int n) { for (int i = 0; i < n; i++) s += i; s++; }
__attribute__((noinline)) void seventy(void) { inner(7000000); s++; }
__attribute__((noinline)) void thirty(void) { inner(3000000); s++; }
int main(void) { for (int i = 0; i < 10; i++) { seventy(); thirty(); } return 0; }`

// culprit flame reads perf.data as perf script prints it: equal stacks, names and amounts. One file
// is written to disk, one is compressed, one is a pipe's.
func TestPerfDataEqualsPerfScript(t *testing.T) {
	tracetest.Needs(t, feature.PerfEvents)
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("needs: tool perf")
	}
	work := tracetest.CompileC(t, split, "-O1", "-fno-omit-frame-pointer",
		"-fno-optimize-sibling-calls")
	dir := t.TempDir()
	t.Setenv("HOME", dir) // where perf caches programs
	record := func(args ...string) []byte {
		t.Helper()
		c := exec.Command(perf, append([]string{"record", "-q", "-e", "cpu-clock", "-F", "499", "-g"},
			append(args, work)...)...)
		var errs bytes.Buffer
		c.Stderr, c.Dir = &errs, dir
		out, err := c.Output()
		if err != nil {
			t.Fatalf("perf record %v: %v, %s", args, err, errs.String())
		}
		return out
	}
	for name, args := range map[string][]string{
		"plain": {"-o", "plain"}, "packed": {"-z", "-o", "packed"}, "pipe": {"-o", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if out := record(args...); len(out) > 0 {
				if err := os.WriteFile(file, out, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			text, err := exec.Command(perf, "script", "-i", file).Output()
			if err != nil {
				t.Fatal(err)
			}
			got, want := flameOf(t, file, nil), flameOf(t, "", text)
			if len(want) == 0 || !maps.Equal(got, want) {
				t.Errorf("got\n%v\nwant\n%v", got, want)
			}
			shares := map[string]float64{}
			for stack, amount := range got {
				for _, f := range []string{"seventy", "thirty"} {
					if strings.Contains(stack, ";"+f+";inner") {
						shares[f] += amount
					}
				}
			}
			if part := shares["seventy"] / (shares["seventy"] + shares["thirty"]); part < 0.6 ||
				part > 0.8 {
				t.Errorf("seventy has %.2f of the time: %v", part, got)
			}
		})
	}
}

// flameOf returns the folded stacks of culprit flame below main, of a file or of text.
func flameOf(t *testing.T, file string, in []byte) map[string]float64 {
	t.Helper()
	if in != nil {
		file = filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(file, in, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := filepath.Join(t.TempDir(), "out.folded")
	p := term.Program{
		Names: storedNames, Terminal: term.Terminal{Out: os.Stdout, Err: os.Stderr, Width: 120},
	}
	args := []string{"flame", file, "-o", to}
	if status := term.Run(context.Background(), p, args); status != 0 {
		t.Fatalf("status %d", status)
	}
	out, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	stacks := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, ";main;") {
			continue // the dynamic linker: perf script names the function behind a last call
		}
		i := strings.LastIndexByte(line, ' ')
		n, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("%q", line)
		}
		stacks[line[:i]] += n
	}
	return stacks
}
