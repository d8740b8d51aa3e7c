package term

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// sampledBy is a Program that has always the same samples.
func sampledBy(t *testing.T, asked *Profiling) (Program, func() (out, errs string)) {
	t.Helper()
	dir := t.TempDir()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	out, errs := file("out"), file("err")
	read := func(f *os.File) string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	p := Program{
		Terminal: Terminal{Out: out, Err: errs, Width: 80},
		Profile: func(_ context.Context, q Profiling) (*Profiled, error) {
			*asked = q
			return &Profiled{
				CPUs:   2,
				Frames: 127,
				Took:   10 * measure.Second,
				Loss:   []measure.Loss{{Reason: "buffer full", Events: 3}},
				Stacks: slices.Values([]ProfiledStack{
					{
						Process: "swapper/0",
						CPU:     0,
						Kernel: []string{
							"vmlinux`pv_native_safe_halt+0xb",
							"vmlinux`default_idle",
						},
						Count:  900,
						Amount: 900,
					},
					{
						Process: "swapper/0",
						CPU:     1,
						Kernel:  []string{"vmlinux`net_rx_action+0x1", "vmlinux`do_idle"},
						Count:   20,
						Amount:  20,
					},
					{
						Process: "prog",
						PID:     7,
						CPU:     1,
						Kernel:  []string{"ext4`ext4_write+0x2f"},
						User:    []string{"libc.so.6`write+0xd", "prog`main+0x2"},
						Count:   60,
						Amount:  60,
					},
					{
						Process: "prog",
						PID:     7,
						CPU:     1,
						User:    []string{"prog`main+0x8"},
						Count:   20,
						Amount:  20,
					},
				}),
			}, nil
		},
	}
	return p, func() (string, string) { return read(out), read(errs) }
}

func TestProfileWrites(t *testing.T) {
	var q Profiling
	p, read := sampledBy(t, &q)
	if status := Run(t.Context(), p, []string{"profile", "--format", "folded", "--hz", "50", "--for", "10s", "--cpu", "0,1"}); status != 0 {
		t.Fatal(read())
	}
	out, errs := read()
	if want := "prog;main 20\nprog;main;write;ext4_write 60\nswapper/0;do_idle;net_rx_action 20\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	for _, want := range []string{"900 of 1000 samples are of idle CPUs", "lost: buffer full (3)"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not said: %s", want, errs)
		}
	}
	if q.Hz != 50 || q.For != 10*time.Second || len(q.CPUs) != 2 || q.ByCPU {
		t.Errorf("asked %+v", q)
	}
}

// TestProfileKeepsNotes: a file that is passed on has what was printed of what is lost or unnamed.
func TestProfileKeepsNotes(t *testing.T) {
	for _, format := range []string{"html", "svg", "json"} {
		var q Profiling
		p, read := sampledBy(t, &q)
		sample := p.Profile
		p.Profile = func(ctx context.Context, q Profiling) (*Profiled, error) {
			got, err := sample(ctx, q)
			short := ProfiledStack{
				Process: "short",
				PID:     8,
				User:    []string{"0x7f1234"},
				Count:   25,
				Amount:  25,
			}
			got.Stacks = slices.Values(append(slices.Collect(got.Stacks), short))
			return got, err
		}
		if status := Run(t.Context(), p, []string{"profile", "--format", format}); status != 0 {
			t.Fatal(read())
		}
		out, errs := read()
		for _, want := range []string{"lost: buffer full (3)", "20.0 % of the samples are in functions without a name"} {
			if !strings.Contains(out, want) || !strings.Contains(errs, want) {
				t.Errorf("%s: %q is not in the file, or not printed: %s", format, want, errs)
			}
		}
	}
}

func TestProfileTable(t *testing.T) {
	var q Profiling
	p, read := sampledBy(t, &q)
	if status := Run(t.Context(), p, []string{"profile", "--table"}); status != 0 {
		t.Fatal(read())
	}
	out, _ := read()
	for _, want := range []string{"    Count indv cuml  CPU Caller\n", "       60  60%  60%    1 ext4`ext4_write+0x2f\n", "       20  20% 100%    1 vmlinux`net_rx_action+0x1\n", "    1 (usermode)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if !q.ByCPU {
		t.Error("CPUs were not separated")
	}
}

func TestProfileRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--hz", "0"},
		{"--hz", "100000"},
		{"--kernel", "--user"},
		{"-o", "out.exe"},
		{"--for", "never"},
		{"--pid", "-3"},
		{"--format", "svgg"},
		{"word"},
		{"--unwind", "dwarf"},
		{"--at", "now", "--unwind", "fp"},
		{"--at", "now", "--off-cpu"},
		{"--from", "-5m", "--locks"},
		{"--at", "now", "--tids"},
		{"--at", "now", "--cgroup", "/x"},
		{"--at", "now", "--hz", "9"},
	} {
		var q Profiling
		p, read := sampledBy(t, &q)
		if status := Run(t.Context(), p, append([]string{"profile"}, args...)); status != exitUsage &&
			args[0] != "word" ||
			status == 0 {
			t.Errorf("%v: status %d", args, status)
			t.Log(read())
		}
	}
}

func TestFlameCommand(t *testing.T) {
	var q Profiling
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := file("a", "main;f 500\nmain;g 500\n"), file("b", "main;f 900\nmain;g 500\n")
	for _, c := range []struct {
		args   []string
		status int
		out    string // in what is printed
	}{
		{[]string{a, b, "--format", "folded"}, 0, "main;f 1400\nmain;g 1000\n"},
		{[]string{a, "--table"}, 0, "      500  50%  50%    - f\n"},
		{[]string{"--diff", a, b}, 0, "f\n"},
		{[]string{"--diff", a, b, "--work", "1,1"}, 0, "Normalised per unit of work"},
		{[]string{"--diff", a}, exitFailed, "a:1: these are not folded stacks with two amounts each"},
		{[]string{"--diff", file("both", "main;f 500 900\nmain;g 500 500\n"), "--work", "1,1"}, 0, "f\n"},
		{[]string{"--diff", a, b, a}, exitUsage, "--diff compares two files"},
		{[]string{"--diff"}, exitUsage, "--diff compares two files"},
		{[]string{a, "--work", "1,2"}, exitUsage, "--work needs --diff"},
		{[]string{"--diff", a, b, "--work", "1"}, exitUsage, "two numbers above 0"},
		{[]string{"--diff", a, b, "--per", "sampel"}, exitUsage, "did you mean sample?"},
		{[]string{"--diff", a, b, "-o", "x.json"}, exitUsage, "svg, html or folded"},
		{[]string{filepath.Join(dir, "none")}, exitFailed, "no such file"},
		{[]string{file("junk", "one\ntwo\n")}, exitFailed, "junk:1: no known format of stacks"},
		{[]string{dir}, exitFailed, "is a directory"},
		{[]string{a, "-o", "x.foo"}, exitUsage, "none of .svg"},
	} {
		p, read := sampledBy(t, &q)
		status := Run(t.Context(), p, append([]string{"flame"}, c.args...))
		out, errs := read()
		if status != c.status || !strings.Contains(out+errs, c.out) {
			t.Errorf("%v: status %d, printed %s%s", c.args, status, out, errs)
		}
	}
	p, read := sampledBy(t, &q)
	svg := filepath.Join(dir, "d.svg")
	if status := Run(t.Context(), p, []string{"flame", "--diff", a, b, "-o", svg, "--json"}); status != 0 {
		t.Fatal(read())
	}
	out, _ := read()
	var got struct{ Functions []struct{ Function string } }
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Functions[0].Function != "f" {
		t.Errorf("%v: %s", err, out)
	}
	if picture, err := os.ReadFile(svg); err != nil ||
		!strings.Contains(string(picture), "</svg>") {
		t.Errorf("%v: no picture", err)
	}
}
