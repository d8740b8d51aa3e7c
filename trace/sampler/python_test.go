package sampler

import (
	"fmt"
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

// pythonProgram spends 70 % of its time in seventy and 30 % in thirty. Between recurse and key is a
// function of C; thirty is called by a generator. With an argument it has three threads.
const pythonProgram = `import sys, threading
def leaf(n):
    x = 1
    for i in range(n):
        x = x * 3 % 1000003
    return x
def seventy():
    return leaf(7000)
def thirty():
    return leaf(3000)
def generate():
    for i in range(1):
        yield thirty()
def key(x):
    return seventy()
class Work:
    def recurse(self, n):
        if n == 0:
            return sorted([1], key=key)
        return self.recurse(n - 1)
def main():
    while True:
        Work().recurse(3)
        for x in generate():
            pass
def one(): main()
def two(): main()
def three(): main()
if len(sys.argv) > 1:
    for f in one, two, three:
        threading.Thread(target=f).start()
else:
    main()
`

// pythonsHere returns the interpreters of this machine by version: python3.8 and others.
func pythonsHere(t *testing.T, versions ...string) map[string]string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	out := map[string]string{}
	home, _ := os.UserHomeDir() // without it there are fewer
	for _, v := range versions {
		found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin/python"+v))
		if p, err := exec.LookPath("python" + v); err == nil {
			found = append(found, p)
		}
		for _, p := range found {
			if exec.Command(p, "-c", "").Run() == nil {
				out[v] = p
			}
		}
	}
	if len(out) == 0 {
		t.Skip("needs: tool python3")
	}
	return out
}

// table: never changed
var pythonVersions = []string{"3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"}

func startPython(t *testing.T, python string, args ...string) (pid int, script string) {
	t.Helper()
	script = filepath.Join(t.TempDir(), "split.py")
	if err := os.WriteFile(script, []byte(pythonProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	return tracetest.Start(t, python, append([]string{script}, args...)...), script
}

// pythonFrames returns the functions of Python in a stack, without their classes, innermost first.
// C is for functions of C between them.
func pythonFrames(stack []string) (out []string) {
	for _, f := range stack {
		name, _, is := strings.Cut(f, " (")
		if !is {
			name = "C"
		}
		name = name[strings.LastIndexByte(name, '.')+1:]
		if name != "C" || len(out) > 0 && out[len(out)-1] != "C" {
			out = append(out, name)
		}
	}
	return out
}

// Stacks of CPython have its functions in place of the evaluator, in the order of calls, with
// functions of C between them, and in the right shares.
func TestProfileOfPythonFrames(t *testing.T) {
	pythons := pythonsHere(t, pythonVersions...)
	p := Profile{Hz: 499, User: true, For: measure.Span(6 * time.Second)}
	versions, scripts := map[int]string{}, map[int]string{}
	for v, python := range pythons {
		pid, script := startPython(t, python)
		versions[pid], scripts[pid] = v, script
		p.Threads.PIDs = append(p.Threads.PIDs, pid)
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type counts struct {
		seventy, thirty, whole, other int64
		odd                           []string
	}
	of := map[string]*counts{}
	for s := range got.Stacks {
		v := versions[s.PID]
		c := of[v]
		if c == nil {
			c = &counts{}
			of[v] = c
		}
		names := strings.Join(pythonFrames(s.User), " ")
		_, names, leaf := strings.Cut(" "+names+" ", " leaf ")
		if !leaf {
			c.other += s.Count
			continue
		}
		names = strings.ReplaceAll(names, "C ", "")
		switch {
		case strings.HasPrefix(names, "seventy "):
			c.seventy += s.Count
			names = strings.TrimPrefix(names, "seventy key recurse recurse recurse recurse ")
		case strings.HasPrefix(names, "thirty "):
			c.thirty += s.Count
			names = strings.TrimPrefix(names, "thirty generate ")
		}
		where := fmt.Sprintf("leaf (%s:2)", scripts[s.PID])
		evaluator := slices.ContainsFunc(s.User, func(f string) bool {
			return strings.HasSuffix(f, "_PyEval_EvalFrameDefault")
		})
		if names == "main <module> " && slices.Contains(s.User, where) && !evaluator {
			c.whole += s.Count
		} else {
			c.odd = s.User
		}
	}
	for v := range pythons {
		t.Run(v, func(t *testing.T) {
			c := of[v]
			if c == nil {
				t.Fatal("there are no samples")
			}
			all := c.seventy + c.thirty
			t.Logf("%d and %d, of them %d whole; %d elsewhere", c.seventy, c.thirty, c.whole, c.other)
			if all < 20 || c.whole < all*95/100 || c.other > all/4+5 {
				t.Errorf("of %d samples %d are whole, %d elsewhere; others as %q", all, c.whole,
					c.other, c.odd)
			}
			checkShares(t, float64(c.seventy), float64(c.thirty))
		})
	}
}

// A function of C between functions of Python stays between them.
func TestProfileOfPythonAndC(t *testing.T) {
	pythons := pythonsHere(t, pythonVersions...)
	for v, python := range pythons {
		t.Run(v, func(t *testing.T) {
			pid, _ := startPython(t, python)
			p := Profile{Hz: 499, User: true, Threads: ThreadFilter{PIDs: []int{pid}},
				For: measure.Span(3 * time.Second)}
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var all, between int64
			for s := range got.Stacks {
				names := strings.Join(pythonFrames(s.User), " ")
				if strings.Contains(names, "seventy") {
					all += s.Count
					if strings.Contains(names, "key C recurse") {
						between += s.Count
					}
				}
			}
			if all < 10 || between < all*95/100 {
				t.Errorf("of %d samples %d have C between", all, between)
			}
		})
		break // the order of frames is that of TestProfileOfPythonFrames
	}
}

// With places a frame has the line that runs.
func TestProfileOfPythonLines(t *testing.T) {
	pythons := pythonsHere(t, pythonVersions...)
	p := Profile{Hz: 499, User: true, Offsets: true, For: measure.Span(4 * time.Second)}
	scripts := map[int]string{}
	for _, python := range pythons {
		pid, script := startPython(t, python)
		scripts[pid] = script
		p.Threads.PIDs = append(p.Threads.PIDs, pid)
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string][]int{"leaf": {3, 4, 5, 6}, "seventy": {8}, "thirty": {10},
		"generate": {13}, "key": {15}, "Work.recurse": {19, 20}, "recurse": {19, 20},
		"main": {23, 24, 22}, "<module>": {33}}
	var all, right int64
	var odd []string
	for s := range got.Stacks {
		all += s.Count
		if !slices.ContainsFunc(s.User, func(f string) bool { return strings.HasPrefix(f, "leaf (") }) {
			continue
		}
		good := true
		for _, f := range s.User {
			name, _, is := strings.Cut(f, " (")
			if is && !slices.ContainsFunc(lines[name], func(n int) bool {
				return f == fmt.Sprintf("%s (%s:%d)", name, scripts[s.PID], n)
			}) {
				good = false
			}
		}
		if good {
			right += s.Count
		} else {
			odd = s.User
		}
	}
	t.Logf("of %d samples %d have the lines", all, right)
	if all < 30 || right < all*8/10 {
		t.Errorf("of %d samples %d have the lines; others as %q", all, right, odd)
	}
}

// Each thread has its own frames.
func TestProfileOfPythonThreads(t *testing.T) {
	pythons := pythonsHere(t, pythonVersions...)
	p := Profile{Hz: 499, User: true, ByThread: true, For: measure.Span(4 * time.Second)}
	for _, python := range pythons {
		pid, _ := startPython(t, python, "threads")
		p.Threads.PIDs = append(p.Threads.PIDs, pid)
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of, seen := map[int]string{}, map[string]bool{}
	var all, known int64
	for s := range got.Stacks {
		all += s.Count
		names := pythonFrames(s.User)
		for _, f := range []string{"one", "two", "three"} {
			if !slices.Contains(names, f) {
				continue
			}
			known += s.Count
			if before := of[s.TID]; before != "" && before != f {
				t.Errorf("thread %d runs %s and %s", s.TID, before, f)
			}
			of[s.TID] = f
			seen[fmt.Sprint(s.PID, f)] = true
		}
	}
	t.Logf("of %d samples %d have frames; %v", all, known, of)
	if known < 30 || known < all*8/10 || len(seen) < 2*len(pythons) {
		t.Errorf("of %d samples %d have frames, of %d threads", all, known, len(seen))
	}
}

// Stacks of versions without a table say so, and keep the frames of the evaluator.
func TestProfileOfPythonWithoutTable(t *testing.T) {
	for v, python := range pythonsHere(t, "2.7", "3.6", "3.7") {
		t.Run(v, func(t *testing.T) {
			pid, _ := startPython(t, python)
			p := Profile{Hz: 499, User: true, Threads: ThreadFilter{PIDs: []int{pid}},
				For: measure.Span(3 * time.Second)}
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var all, explained int64
			for s := range got.Stacks {
				n := 0
				for i, f := range s.User {
					if f == "[Python: no table for "+v+"]" && i > 0 &&
						strings.Contains(s.User[i-1], "PyEval_EvalFrame") {
						n++
					}
				}
				all += s.Count
				if n == 1 {
					explained += s.Count
				}
			}
			if all < 10 || explained < all*9/10 {
				t.Errorf("of %d samples %d say why", all, explained)
			}
		})
	}
}

// With -X perf, CPython calls the evaluator by generated functions with names of their own. Each
// function of Python is in the stack once.
func TestProfileOfPythonWithTrampolines(t *testing.T) {
	for v, python := range pythonsHere(t, "3.12", "3.13", "3.14") {
		t.Run(v, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "split.py")
			if err := os.WriteFile(script, []byte(pythonProgram), 0o600); err != nil {
				t.Fatal(err)
			}
			pid := tracetest.Start(t, python, "-X", "perf", script)
			t.Cleanup(func() {
				os.Remove(fmt.Sprintf("/tmp/perf-%d.map", pid)) //nolint:errcheck // it may have none
			})
			p := Profile{Hz: 499, User: true, Threads: ThreadFilter{PIDs: []int{pid}},
				For: measure.Span(4 * time.Second)}
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var all, whole int64
			var odd []string
			for s := range got.Stacks {
				all += s.Count
				names := strings.Join(s.User, " ")
				if strings.Count(names, "leaf") == 1 && strings.Count(names, "main") >= 1 &&
					strings.Contains(names, "`__libc_start") && !strings.Contains(names, "py::leaf") {
					whole += s.Count
				} else {
					odd = s.User
				}
			}
			t.Logf("of %d samples %d are whole", all, whole)
			if all < 20 || whole < all*8/10 {
				t.Errorf("of %d samples %d are whole; others as %q", all, whole, odd)
			}
		})
	}
}

// Functions of processes that run for some tenths of a second have names too.
func TestProfileOfShortPython(t *testing.T) {
	for v, python := range pythonsHere(t, "3.11", "3.12") {
		t.Run(v, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "short.py")
			text := "def work():\n    x = 0\n    for i in range(3000000): x += i\nwork()\n"
			if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			p := Profile{Hz: 499, User: true, For: measure.Span(7 * time.Second),
				Threads: ThreadFilter{Processes: []string{filepath.Base(python)}}}
			go func() {
				for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
					if exec.CommandContext(t.Context(), python, script).Run() != nil {
						return
					}
				}
			}()
			got, err := p.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var named, unnamed int64
			for s := range got.Stacks {
				for _, f := range s.User {
					if f == fmt.Sprintf("work (%s:1)", script) {
						named += s.Count
					} else if strings.HasPrefix(f, "[Python: name") {
						unnamed += s.Count
						break
					}
				}
			}
			t.Logf("%d samples have names, %d have none", named, unnamed)
			if named < 20 || unnamed > named/2 {
				t.Errorf("%d samples have names, %d have none", named, unnamed)
			}
		})
	}
}
