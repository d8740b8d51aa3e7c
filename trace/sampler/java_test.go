package sampler

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// javaProgram spends 70 % of its time in seventy and 30 % in thirty. It is ready after as many
// turns as its argument says.
const javaProgram = `
public class Work {
    static volatile int sink;
    static int leaf(int n) {
        int x = 1;
        for (int i = 0; i < n; i++) x = x * 3 % 1000003;
        return x;
    }
    static void seventy() { sink = leaf(700); }
    static void thirty() { sink = leaf(300); }
    void recurse(int n) {
        if (n > 0) recurse(n - 1);
        else seventy();
    }
    static void work(long turns) {
        Work w = new Work();
        for (long i = 0; i < turns; i++) {
            w.recurse(3);
            thirty();
        }
    }
    public static void main(String[] args) {
        work(Long.parseLong(args[0]));
        System.out.println("ready");
        work(Long.MAX_VALUE);
    }
}
`

// javaSleeps sleeps in methods of several kinds.
const javaSleeps = `
public class Sleeps {
    interface Task { void run() throws Exception; default void twice() throws Exception { run(); run(); } }
    static class Inner implements Task {
        final int n;
        Inner(int n) throws Exception {
            this.n = n;
            pause();
        }
        public void run() throws Exception {
            if (n > 0) { int a = n; int b = a * 2; new Inner(n - 1).run(); }
            pause();
        }
    }
    static void pause() throws Exception {
        Thread.sleep(3);
    }
    static void lambdas() throws Exception {
        Task t = () -> {
            int x = 1;
            pause();
        };
        t.twice();
    }
    public static void main(String[] args) throws Exception {
        System.out.println("ready");
        while (true) {
            new Inner(2).run();
            lambdas();
        }
    }
}
`

// javasHere returns the programs of the virtual machines of this machine by version: 17.0.15. They
// have HotSpot.
func javasHere(t *testing.T) map[string]string {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	if runtime.GOARCH != "amd64" || tracetest.TablesMissing(t) {
		t.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	found, _ := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if p, err := exec.LookPath("java"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			found = append(found, p)
		}
	}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		found = append(found, filepath.Join(home, "bin/java"))
	}
	version := regexp.MustCompile(`(?m)^JAVA_VERSION="([0-9.]+)`)
	out := map[string]string{}
	for _, p := range found {
		home := filepath.Dir(filepath.Dir(p))
		text, err := os.ReadFile(filepath.Join(home, "release"))
		m := version.FindSubmatch(text)
		_, missing := os.Stat(filepath.Join(home, "lib/server/libjvm.so"))
		if err == nil && m != nil && missing == nil {
			out[string(m[1])] = p
		}
	}
	if len(out) == 0 {
		t.Skip("needs: tool java")
	}
	return out
}

// javaClasses compiles the programs once and returns the directory of their classes.
func javaClasses(t *testing.T) string {
	t.Helper()
	javac, err := exec.LookPath("javac")
	if err != nil {
		t.Skip("needs: tool javac")
	}
	dir := t.TempDir()
	args := []string{"-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-proc:none", "--release", "11",
		"-d", dir}
	for class, text := range map[string]string{"Work": javaProgram, "Sleeps": javaSleeps} {
		file := filepath.Join(dir, class+".java")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	if out, err := exec.Command(javac, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// startJava starts a class with options, which its arguments follow. wait waits until it is ready.
func startJava(t *testing.T, java, dir string, options ...string) (pid int, wait func()) {
	t.Helper()
	c := exec.Command(java, append([]string{"-XX:+UseSerialGC", "-Xmx64m", "-XX:-UsePerfData",
		"-cp", dir}, options...)...)
	_, out := tracetest.Pipe(t, c)
	t.Cleanup(func() {
		c.Process.Kill() //nolint:errcheck // it may have ended
		c.Wait()         //nolint:errcheck // it was killed
	})
	return c.Process.Pid, func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if lines.Text() == "ready" {
				return
			}
		}
		t.Fatal("the program has ended")
	}
}

// javaFrames returns the methods of Java in a stack, innermost first, without stubs.
func javaFrames(stack []string) (out []string) {
	for _, f := range stack {
		if name, file, is := strings.Cut(f, " ("); is && strings.Contains(file, ".java") {
			out = append(out, name)
		}
	}
	return out
}

// javaModes are how methods are executed: the options, the class, and how many turns it makes
// before it is ready.
//
// table: never changed
var javaModes = map[string][]string{
	"interpreted": {"-Xint", "Work", "100"},
	"C1":          {"-XX:TieredStopAtLevel=1", "-XX:CompileCommand=dontinline,Work.*", "Work", "20000"},
	"inlined by C2": {"-XX:-TieredCompilation", "-XX:CompileCommand=dontinline,Work.leaf", "Work",
		"40000"},
}

// javaCounts are the samples of one program.
type javaCounts struct {
	seventy, thirty, whole, inlined, other int64
	odd                                    map[string]int64 // stacks that are not as expected
}

// add adds a stack.
func (c *javaCounts) add(s *Sampled) {
	callers, leaf := strings.CutPrefix(strings.Join(javaFrames(s.User), " < "), "Work.leaf < ")
	complete := wholeJava(s.User)
	switch {
	case !leaf:
		c.other += s.Count
		complete = false
	case callers == "Work.seventy < Work.recurse < Work.recurse < Work.recurse < Work.recurse < "+
		"Work.work < Work.main":
		c.seventy += s.Count
	case callers == "Work.thirty < Work.work < Work.main":
		c.thirty += s.Count
	default:
		c.other += s.Count
		complete = false
	}
	if complete {
		c.whole += s.Count
	} else {
		c.odd[strings.Join(s.User, "\n\t")] += s.Count
	}
	if slices.Contains(s.User, "Work.seventy (Work.java:9)_[i]") {
		c.inlined += s.Count
	}
}

// Stacks of Java have its methods, in the order of calls and in the right shares, whether they are
// interpreted, compiled, or inlined into their callers.
func TestProfileOfJava(t *testing.T) {
	javas := javasHere(t)
	dir := javaClasses(t)
	p := Profile{Hz: 499, User: true, For: measure.Span(2 * time.Second)}
	names, of := map[int]string{}, map[int]*javaCounts{}
	var waits []func()
	for v, java := range javas {
		for mode, options := range javaModes {
			pid, wait := startJava(t, java, dir, append([]string{"-XX:CompileCommand=quiet"},
				options...)...)
			names[pid], of[pid] = v+" "+mode, &javaCounts{odd: map[string]int64{}}
			p.Threads.PIDs = append(p.Threads.PIDs, pid)
			waits = append(waits, wait)
		}
	}
	for _, wait := range waits {
		wait()
	}
	const least, enough = 8, 90 // samples of each on a machine that is busy, and of all for shares
	few := func() bool {
		for _, c := range of {
			if c.seventy+c.thirty < least {
				return true
			}
		}
		return false
	}
	for until := time.Now().Add(time.Minute); few() && time.Now().Before(until); {
		got, err := p.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for s := range got.Stacks {
			of[s.PID].add(&s)
		}
	}
	var seventy, thirty int64
	for pid, c := range of {
		t.Run(names[pid], func(t *testing.T) {
			all := c.seventy + c.thirty
			t.Logf("%d and %d, of them %d whole; %d elsewhere", c.seventy, c.thirty, c.whole, c.other)
			if all < least || c.whole < all*9/10 || c.other > all/4+5 {
				t.Errorf("of %d samples %d are whole, %d elsewhere", all, c.whole, c.other)
				for stack, n := range c.odd {
					t.Logf("%d times\n\t%s", n, stack)
				}
			}
			if inline := strings.Contains(names[pid], "inlined"); inline != (c.inlined > 0) {
				t.Errorf("seventy is inlined in %d samples", c.inlined)
			}
		})
		seventy, thirty = seventy+c.seventy, thirty+c.thirty
	}
	share := float64(seventy) / float64(max(1, seventy+thirty))
	if seventy+thirty >= enough && (share < 0.5 || share > 0.9) {
		t.Errorf("%d samples are in seventy, %d in thirty", seventy, thirty)
	}
}

// wholeJava reports whether a stack of Java is complete: below its methods are the functions that
// start the virtual machine.
func wholeJava(stack []string) bool {
	text := strings.Join(stack, "\n")
	return strings.Contains(text, "libjvm.so") && !strings.Contains(text, "[unwinding") &&
		!strings.Contains(text, "[caller may")
}

// sleepingJava returns the frames of a thread from the caller of Thread.sleep on, with lines, as
// jstack prints them: Sleeps.main(Sleeps.java:3). "": it is not one of Sleeps.pause.
func sleepingJava(stack []string) string {
	var out []string
	for _, f := range stack {
		name, place, is := strings.Cut(f, " (Sleeps.java")
		if !is {
			continue
		}
		if place == ")" {
			place = ":0)"
		}
		out = append(out, name+"(Sleeps.java"+place)
	}
	if len(out) == 0 || !strings.HasPrefix(out[0], "Sleeps.pause(") {
		return ""
	}
	return strings.Join(out, "\n")
}

// The stacks with which a thread sleeps have the names and lines that jstack prints, in the order
// of calls.
func TestOffCPUOfJava(t *testing.T) {
	javas := javasHere(t)
	dir := javaClasses(t)
	for v, java := range javas {
		t.Run(v, func(t *testing.T) {
			jstack := filepath.Join(filepath.Dir(java), "jstack")
			if _, err := os.Stat(jstack); err != nil {
				t.Skip("needs: tool jstack")
			}
			pid, wait := startJava(t, java, dir, "-Xint", "Sleeps")
			wait()
			want := map[string]bool{}
			frame := regexp.MustCompile(`(?m)^\tat (?:.*//?)?(Sleeps\S*)$`)
			const places = 6 // at least
			for range 6 {    // each takes a second where the machine is busy
				out, err := exec.Command(jstack, fmt.Sprint(pid)).Output()
				if err != nil {
					t.Fatal(err)
				}
				var stack []string
				for _, m := range frame.FindAllSubmatch(out, -1) {
					stack = append(stack, string(m[1]))
				}
				if len(stack) > 0 && strings.HasPrefix(stack[0], "Sleeps.pause(") {
					want[strings.Join(stack, "\n")] = true
					break
				}
			}
			p := Profile{Of: OffCPU, User: true, For: measure.Span(2 * time.Second),
				Threads: ThreadFilter{PIDs: []int{pid}}}
			seen := map[string]bool{}
			missing := func() (out []string) {
				for text := range want {
					if !seen[text] {
						out = append(out, text)
					}
				}
				return out
			}
			for until := time.Now().Add(30 * time.Second); time.Now().Before(until) &&
				(len(seen) < places || missing() != nil); {
				got, err := p.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for s := range got.Stacks {
					if text := sleepingJava(s.User); text != "" {
						seen[text] = true
					}
				}
			}
			if len(want) == 0 || len(seen) < places {
				t.Errorf("%d stacks are reported, %d are measured", len(want), len(seen))
			}
			for _, text := range missing() {
				t.Errorf("not measured:\n%s\nof %q", text, slices.Collect(maps.Keys(seen)))
			}
		})
	}
}
