package sampler

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// goLeaves spends its time in a function without a frame, 70 % of it called by one function and
// 30 % by another one.
const goLeaves = `package main

import "time"

//go:noinline
func leaf(x uint64, n int) uint64 {
	for i := 0; i < n; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

//go:noinline
func seventy(x uint64) uint64 { return leaf(x, 7000) + 1 }

//go:noinline
func thirty(x uint64) uint64 { return leaf(x, 3000) + 2 }

//go:noinline
func loop(x uint64, end time.Time) uint64 {
	for time.Now().Before(end) {
		for i := 0; i < 1000; i++ {
			x = thirty(seventy(x))
		}
	}
	return x
}

func main() { println(loop(88172645463325252, time.Now().Add(time.Minute))) }
`

// The caller of a Go function without a frame is in every stack, also without symbols.
func TestProfileOfGoLeaves(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs on x86-64")
	}
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs: tool go")
	}
	for _, flags := range []string{"", "-s -w"} {
		dir := t.TempDir()
		source, bin := filepath.Join(dir, "x.go"), filepath.Join(dir, "leaves")
		if err := os.WriteFile(source, []byte(goLeaves), 0o600); err != nil {
			t.Fatal(err)
		}
		build := exec.Command(compiler, "build", "-ldflags="+flags, "-o", bin, source)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		pid := tracetest.Start(t, bin)
		p := Profile{
			Hz:      499,
			User:    true,
			Threads: ThreadFilter{PIDs: []int{pid}},
			For:     measure.Span(3 * time.Second),
		}
		got, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all, seventy, thirty, lost int64
		for s := range got.Stacks {
			leaf := slices.IndexFunc(
				s.User, func(f string) bool { return strings.HasSuffix(f, "`main.leaf") },
			)
			if leaf < 0 || strings.Contains(strings.Join(s.User, " "), "not loaded yet") {
				continue
			}
			all += s.Count
			switch {
			case tracetest.HasChain(s.User[leaf+1:], "main.seventy", "main.loop", "main.main", "runtime.main"):
				seventy += s.Count
			case tracetest.HasChain(s.User[leaf+1:], "main.thirty", "main.loop", "main.main", "runtime.main"):
				thirty += s.Count
			default:
				lost += s.Count
				t.Logf("%d of %q", s.Count, s.User)
			}
		}
		if all < 50 || lost > 0 || float64(seventy) < 0.5*float64(all) || thirty < all/10 {
			t.Errorf(
				"%q: of %d samples %d by seventy, %d by thirty, %d without caller", flags, all,
				seventy, thirty, lost,
			)
		}
	}
}
