package symbol

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/symbol/interp"
)

// interpreters returns the programs of the interpreters of this machine by version.
func interpreters(t *testing.T) map[int]string {
	t.Helper()
	out := map[int]string{}
	home, _ := os.UserHomeDir() // without it there are fewer
	for minor := range 20 {
		name := fmt.Sprintf("python3.%d", minor)
		found, _ := filepath.Glob(filepath.Join(home, ".pyenv/versions/*/bin", name))
		if p, err := exec.LookPath(name); err == nil && exec.Command(p, "-c", "").Run() == nil {
			found = append(found, p)
		}
		if len(found) > 0 {
			out[0x300+minor] = found[len(found)-1]
		}
	}
	if len(out) == 0 {
		t.Skip("needs: tool python3")
	}
	return out
}

// describesItself prints the address of each code object of its file, its name, and the line of
// each of its instructions, and stays.
const describesItself = `
import dis, sys, types
def plain(x):
    y = x

    if y > 2:
        y = [i * 2
             for i in range(y)]
    return y
class Outer:
    def method(self):
        for a in range(300):
            self.b = (a +
                a *
                a)
        try:
            return self
        finally:
            self.c = 1
def größe(): return 1
def 名前(): return 2
namespace = {}
exec(compile("def deep():\n" + "\n" * 200 + "    return 7\n", "/tmp/\U0001F40D.py", "exec"), namespace)
def show(code):
    lines = {}
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for at in range(start, end, 2):
                lines[at] = line or 0
    else:
        starts = dict(dis.findlinestarts(code))
        line = code.co_firstlineno
        for at in range(0, len(code.co_code), 2):
            line = starts.get(at, line)
            lines[at] = line
    name = getattr(code, "co_qualname", code.co_name)
    sys.stdout.buffer.write(("%d %s %s %d %s\n" % (id(code), name, code.co_filename,
        code.co_firstlineno, ",".join(str(lines[at]) for at in sorted(lines)))).encode())
for f in (plain, Outer.method, größe, 名前, namespace["deep"], show):
    show(f.__code__)
    for c in f.__code__.co_consts:
        if isinstance(c, types.CodeType):
            show(c)
sys.stdout.buffer.write(b"end\n")
sys.stdout.buffer.flush()
sys.stdin.read()
`

// The names, files and lines of code objects are those that the interpreter reports itself.
func TestFrameNames(t *testing.T) {
	for version, program := range interpreters(t) {
		if version < 0x308 || version > 0x30e {
			continue // there is no table
		}
		t.Run(fmt.Sprintf("3.%d", version&0xff), func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "describe.py")
			if err := os.WriteFile(script, []byte(describesItself), 0o600); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(program, script)
			in, err := c.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			defer c.Wait() //nolint:errcheck // it ends with its input
			defer in.Close()
			l := layoutOfProcess(t, c.Process.Pid)
			seen := 0
			for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
				seen++
				comparePython(t, c.Process.Pid, l, lines.Text())
			}
			if seen < 6 {
				t.Errorf("%d code objects", seen)
			}
		})
	}
}

// layoutOfProcess returns the layout of the interpreter of a process.
func layoutOfProcess(t *testing.T, pid int) interp.Layout {
	t.Helper()
	u := NewUnwinding(kernel.Root{}, nil, nil)
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		code, err := u.Executed(pid)
		if err != nil {
			t.Fatal(err)
		}
		for i := range code {
			if of := code[i].Table; of != nil && of.Interpreter != nil {
				return of.Interpreter
			}
		}
	}
	t.Fatal("the process has no interpreter")
	return nil
}

// comparePython compares a code object with what its interpreter reports.
func comparePython(t *testing.T, pid int, l interp.Layout, reported string) {
	t.Helper()
	var address uint64
	var name, file, list string
	var first int
	if _, err := fmt.Sscan(reported, &address, &name, &file, &first, &list); err != nil {
		t.Fatalf("%q: %v", reported, err)
	}
	lines := strings.Split(list, ",")
	frames := []interp.Frame{{Word: interp.NewWord(address, interp.UnknownInstruction)}}
	for i := range lines {
		frames = append(frames, interp.Frame{Word: interp.NewWord(address, uint64(i))})
	}
	ps := NewProcesses(kernel.Root{})
	defer ps.Close()
	for i, got := range ps.FrameNames(pid, l, frames) {
		line := 0
		if i > 0 {
			fmt.Sscan(lines[i-1], &line) //nolint:errcheck // a number
		}
		want := interp.Name{Function: name, File: file, First: first, Line: line}
		if got != want {
			t.Fatalf("instruction %d: %+v, want %+v", i-1, got, want)
		}
	}
}

// Files without an interpreter have no layout.
func TestNoLayout(t *testing.T) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a, err := (&OwnReader{}).Read(&Request{Op: OpUnwinding, File: f, Text: []byte("python3.11"),
		Limit: time.Minute})
	if err != nil || a.Numbers != nil {
		t.Errorf("layout %v, %v", a.Numbers, err)
	}
}

// Memory that is no code object has no name.
func TestNoCode(t *testing.T) {
	all := interpreters(t)
	for version, program := range all {
		if version < 0x30b || version > 0x30e {
			continue
		}
		c := exec.Command(program, "-c", "import sys; print(id(sys), flush=True); sys.stdin.read()")
		in, _ := c.StdinPipe()   // Start fails too
		out, _ := c.StdoutPipe() // Start fails too
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait() //nolint:errcheck // it ends with its input
		defer in.Close()
		var address uint64
		if _, err := fmt.Fscan(out, &address); err != nil {
			t.Fatal(err)
		}
		ps := NewProcesses(kernel.Root{})
		defer ps.Close()
		frames := []interp.Frame{{Word: interp.NewWord(address, 1)}, {Word: interp.NewWord(8, 1)},
			{Word: interp.NewWord(1<<46, 1)}}
		l := layoutOfProcess(t, c.Process.Pid)
		for i, got := range ps.FrameNames(c.Process.Pid, l, frames) {
			if got != (interp.Name{}) {
				t.Errorf("%x: address %d is %+v", version, i, got)
			}
		}
	}
}
