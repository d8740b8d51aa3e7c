package sampler

import (
	"bufio"
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

// nodeProgram spends 70 % of its time in seventy and 30 % in thirty.
const nodeProgram = `
function leaf(n) { let x = 1; for (let i = 0; i < n; i++) x = x * 3 % 1000003; return x; }
function seventy() { return leaf(7000); }
function thirty() { return leaf(3000); }
function recurse(n) { return n > 0 ? recurse(n - 1) + 1 : seventy(); }
function work(turns) {
  let sum = 0;
  for (let i = 0; i < turns; i++) sum += recurse(3) + thirty();
  return sum;
}
work(300);
console.log('ready');
while (true) work(100);
`

// nodeNames runs in functions of many kinds. Each line with a comment has one.
const nodeNames = `
const { Worker, isMainThread } = require('worker_threads');
function spin() { let x = 1; for (let i = 0; i < 3e4; i++) x = x * 3 % 1000003; return x; } // spin
class Outer {
  static begin() { return spin() + 1; } // begin
  method() { return this.#secret(); }
  #secret() { return spin() + 1; } // #secret
  get prop() { return spin() + 1; } // get prop
}
function größe() { return spin() + 1; } // größe
const 名前 = function() { return spin() + 1; }; // 名前
const outside = {};
outside.inside = function() { return spin() + 1; }; // outside.inside
const arrow = () => spin() + 1; // arrow
function closure(k) {
  return function inner() { return spin() + k; }; // inner
}
function* generator() { yield spin() + 1; } // generator
async function later() { await null; return spin() + 1; } // later
const made = (() => function() { return spin() + 1; })(); // (anonymous)
const evaluated = eval('(function evaluated(spin) { return spin() + 1; })');
async function all() {
  Outer.begin(); new Outer().method(); new Outer().prop; größe(); 名前(); outside.inside(); arrow();
  closure(1)(); [...generator()]; made(); evaluated(spin);
  [1].forEach(function each() { return spin() + 1; });
  await later();
}
function worker() { while (true) spin(); } // worker
if (!isMainThread) worker();
else new Worker(__filename).on('online', async () => { console.log('ready'); while (true) await all(); });
`

// nodesHere returns the programs of Node.js of this machine by version: v20.1.2. NODES has further
// paths, separated by colons.
func nodesHere(t *testing.T) map[string]string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	found := filepath.SplitList(os.Getenv("NODES"))
	if p, err := exec.LookPath("node"); err == nil {
		found = append(found, p)
	}
	out := map[string]string{}
	for _, p := range found {
		text, err := exec.Command(p, "--version").Output()
		var major int
		if err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		version := strings.TrimSpace(string(text))
		if _, err := fmt.Sscanf(version, "v%d.", &major); err == nil && major >= 18 && major <= 24 {
			out[version] = p
		}
	}
	if len(out) == 0 {
		t.Skip("needs: tool node, 18 to 24")
	}
	return out
}

// startNode starts a program of JavaScript with options and waits until it is ready.
func startNode(t *testing.T, node, program string, options ...string) (pid int, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "program.js")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(node, append(options, file)...)
	_, out := tracetest.Pipe(t, c)
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "ready" {
			return c.Process.Pid, file
		}
	}
	t.Fatal("the program has ended")
	return 0, ""
}

// nodeFrames returns the functions of a program in a stack, innermost first.
func nodeFrames(stack []string) (out []string) {
	for _, f := range stack {
		if name, file, is := strings.Cut(f, " ("); is && strings.Contains(file, "program.js:") {
			out = append(out, name)
		}
	}
	return out
}

// nodeModes are how functions are executed, as options.
//
// table: never changed
var nodeModes = map[string][]string{
	"interpreted": {"--jitless"},
	"baseline":    {"--always-sparkplug", "--no-opt"},
	"optimized":   {"--no-turbo-inlining"},
}

// withoutMaglev adds the option by which functions are not inlined by Maglev, where there is one.
func withoutMaglev(version string, options ...string) []string {
	if strings.HasPrefix(version, "v18.") || slices.Contains(options, "--jitless") {
		return options
	}
	return append(slices.Clone(options), "--no-maglev")
}

// Stacks of JavaScript have its functions, in the order of calls and in the right shares, whether
// they are interpreted or compiled.
func TestProfileOfNode(t *testing.T) {
	for version, node := range nodesHere(t) {
		for mode, options := range nodeModes {
			t.Run(version+" "+mode, func(t *testing.T) {
				checkNode(t, node, withoutMaglev(version, options...))
			})
		}
	}
}

// checkNode checks the stacks of nodeProgram with options.
func checkNode(t *testing.T, node string, options []string) {
	t.Helper()
	pid, _ := startNode(t, node, nodeProgram, options...)
	p := Profile{Hz: 499, User: true, For: measure.Span(2 * time.Second),
		Threads: ThreadFilter{PIDs: []int{pid}}}
	const enough = 60
	var seventy, thirty, other, whole int64
	odd := map[string]int64{}
	for until := time.Now().Add(time.Minute); seventy+thirty < enough && time.Now().Before(until); {
		got, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for s := range got.Stacks {
			calls := strings.Join(nodeFrames(s.User), " < ")
			text := strings.Join(s.User, "\n\t")
			switch calls {
			case "":
				continue // another thread: a compiler, the collector
			case "leaf < seventy < recurse < recurse < recurse < recurse < work < (anonymous)":
				seventy += s.Count
			case "leaf < thirty < work < (anonymous)":
				thirty += s.Count
			default:
				other += s.Count
				odd[text] += s.Count
				continue
			}
			if strings.Contains(text, "Builtins_JSEntry") && strings.Contains(text, "_start") &&
				!strings.Contains(text, "[unwinding") && !strings.Contains(text, "[caller may") &&
				!strings.Contains(text, "InterpreterEntryTrampoline") {
				whole += s.Count
			} else {
				odd[text] += s.Count
			}
		}
	}
	all := seventy + thirty
	t.Logf("%d and %d, of them %d whole; %d elsewhere", seventy, thirty, whole, other)
	share := float64(seventy) / float64(max(1, all))
	if all < enough || whole < all*9/10 || other > all/5 || share < 0.5 || share > 0.9 {
		for stack, n := range odd {
			t.Logf("%d times\n\t%s", n, stack)
		}
		t.Errorf("%d samples are in seventy, %d in thirty, %d whole, %d elsewhere", seventy, thirty,
			whole, other)
	}
}

// Functions of all kinds, also in other threads, have their names, files and lines.
func TestNamesOfNode(t *testing.T) {
	for version, node := range nodesHere(t) {
		t.Run(version, func(t *testing.T) {
			pid, file := startNode(t, node, nodeNames, withoutMaglev(version, "--no-opt")...)
			want := map[string]bool{"evaluated": true}
			for i, line := range strings.Split(nodeNames, "\n") {
				if _, name, is := strings.Cut(line, " // "); is {
					want[fmt.Sprintf("%s (%s:%d)", name, file, i+1)] = true
				}
			}
			p := Profile{Hz: 997, User: true, For: measure.Span(2 * time.Second),
				Threads: ThreadFilter{PIDs: []int{pid}}}
			unread, samples := int64(0), int64(0)
			for until := time.Now().Add(time.Minute); len(want) > 0 && time.Now().Before(until); {
				got, err := p.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for s := range got.Stacks {
					for _, f := range s.User {
						delete(want, f)
						if strings.HasPrefix(f, "[JavaScript: ") {
							unread += s.Count
						}
					}
					samples += s.Count
				}
			}
			for name := range want {
				t.Errorf("no sample is in %s", name)
			}
			if unread > samples/50 {
				t.Errorf("%d frames of %d samples have no name", unread, samples)
			}
		})
	}
}
