package command

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/lang/syntax"
	"culprit/trace"
)

var update = flag.Bool("update", false, "write the expected outputs of bpftrace, the examples of tools")

// runBpftrace runs a request and returns its output and the messages.
func runBpftrace(t *testing.T, r BpftraceRequest) (out, messages string, err error) {
	t.Helper()
	dir := t.TempDir()
	o, e := filepath.Join(dir, "out"), filepath.Join(dir, "err")
	files := [2]*os.File{}
	for i, name := range []string{o, e} {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	_, err = r.Run(ctx, trace.Streams{
		In: os.Stdin, Out: files[0], Err: files[1], Plain: files[0], Name: "bpftrace",
	})
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return read(o), read(e), err
}

// A bpftraceProgram is a file of testdata/bpftrace. Its first line may name a command: // -c ...
type bpftraceProgram struct{ name, path, text, command string }

func bpftracePrograms(t *testing.T) []bpftraceProgram {
	t.Helper()
	paths, err := filepath.Glob("testdata/bpftrace/*.bt")
	if err != nil || len(paths) < 5 {
		t.Fatalf("%d programs, %v", len(paths), err)
	}
	var out []bpftraceProgram
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		p := bpftraceProgram{name: filepath.Base(path), path: path, text: string(text)}
		first, _, _ := strings.Cut(string(text), "\n")
		p.command, _ = strings.CutPrefix(first, "// -c ")
		if p.command == first {
			p.command = ""
		}
		out = append(out, p)
	}
	return out
}

// expectations are the files with the expected output of a program, by format.
//
// table: never changed
var expectations = []struct {
	name, suffix string
	json         bool
}{{"text", ".out", false}, {"json", ".json", true}}

// needFiles skips a test of a program whose library or command is missing: emulated kernels have
// neither.
func needFiles(t *testing.T, program string) {
	t.Helper()
	libraries, err := filepath.Glob("/lib/*/libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	other, err := filepath.Glob("/lib*/libc.so.6")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(program, "probe:libc:") && len(libraries)+len(other) == 0 {
		t.Skip("needs: tool libc.so.6")
	}
	if _, err := os.Stat("/usr/bin/tsort"); err != nil && strings.Contains(program, "tsort") {
		t.Skip("needs: tool tsort")
	}
}

// Programs print exactly what the files of testdata contain, which
// TestBpftraceItselfPrintsTheSame holds against bpftrace.
func TestBpftracePrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	for _, p := range bpftracePrograms(t) {
		for _, f := range expectations {
			t.Run(p.name+"/"+f.name, func(t *testing.T) {
				needFiles(t, p.text)
				out, messages, err := runBpftrace(
					t, BpftraceRequest{File: p.path, Command: p.command, JSON: f.json},
				)
				if err != nil || messages != "" {
					t.Fatalf("%v %s", err, messages)
				}
				if *update {
					if err := os.WriteFile(p.path+f.suffix, []byte(out), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(p.path + f.suffix)
				if err != nil {
					t.Fatal(err)
				}
				if out != string(want) {
					t.Errorf("printed\n%s\nwant\n%s", out, want)
				}
			})
		}
	}
}

// withTracefs runs a command in a mount namespace of its own, where tracefs is at its usual place.
const withTracefs = `mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
	mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null; exec "$@"`

func TestBpftraceItselfPrintsTheSame(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	for _, tool := range []string{"bpftrace", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	for _, p := range bpftracePrograms(t) {
		for _, f := range expectations {
			t.Run(p.name+"/"+f.name, func(t *testing.T) {
				args := []string{"-m", "sh", "-c", withTracefs, "sh", "bpftrace", "-f", f.name}
				if p.command != "" {
					args = append(args, "-c", p.command)
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				out, err := exec.CommandContext(ctx, "unshare", append(args, p.path)...).Output()
				if err != nil {
					var exit *exec.ExitError
					if errors.As(err, &exit) {
						t.Fatalf("%v: %s", err, exit.Stderr)
					}
					t.Fatal(err)
				}
				want, err := os.ReadFile(p.path + f.suffix)
				if err != nil {
					t.Fatal(err)
				}
				if string(out) != string(want) {
					t.Errorf("bpftrace printed\n%s\nexpected\n%s", out, want)
				}
			})
		}
	}
}

// The name of each kind of probe is as bpftrace writes it, and each kind fires.
func TestBpftraceProbeNames(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	for _, tt := range []struct{ probe, name string }{
		{"software:page-faults:1", "software:page-faults:1"}, {"s:faults:", "software:faults:"},
		{"profile:hz:99", "profile:hz:99"}, {"p:ms:7", "profile:ms:7"},
		{"interval:ms:20", "interval:ms:20"}, {"i:us:5000", "interval:us:5000"},
		{"tracepoint:sched:sched_switch", "tracepoint:sched:sched_switch"},
		{"tracepoint:syscalls:sys_exit_write*", "tracepoint:syscalls:sys_exit_write"},
		{"rawtracepoint:sched_switch", "rawtracepoint:sched_switch"},
		{"uprobe:libc:chdir", "uprobe:libc:chdir"},
		{"uretprobe:libc:chdir", "uretprobe:libc:chdir"},
	} {
		t.Run(tt.probe, func(t *testing.T) {
			needFiles(t, tt.probe)
			out, messages, err := runBpftrace(t, BpftraceRequest{
				Program: tt.probe + ` { printf("<%s>\n", probe); exit(); }
					interval:s:20 { exit(); }`,
				Command: "/bin/sh testdata/bpftrace/busy.sh", Quiet: true,
			})
			if err != nil || messages != "" || !strings.HasPrefix(out, "<"+tt.name+">\n") {
				t.Errorf("%q %s %v", out, messages, err)
			}
		})
	}
}

// Mistakes that need the kernel's probes and types are reported at their place in the program, in
// its words.
func TestBpftraceMistakes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	for _, tt := range []struct{ name, text, at, says string }{
		{"no such field", `tracepoint:sched:sched_switch { print(args.next_com); }`,
			"next_com", "has no field next_com"},
		{"no such probe", `tracepoint:sched:sched_swich { @ = count(); }`,
			"tracepoint:sched:sched_swich", "sched_swich"},
		{"a string for a number", `BEGIN { $name = comm; printf("%d", $name); }`,
			"$name)", "the conversion requires a number, not string"},
		{"a number for a string", `BEGIN { printf("%s", pid); }`,
			"pid)", "the conversion requires a string"},
		{"two types of a variable", `BEGIN { $x = 1; $x = comm; }`,
			"$x = comm", "string can't be assigned to"},
		{"two types of a map", `BEGIN { @x = 1; @x = comm; }`, "@x = comm", "can't be assigned"},
		{"two types of a key", `BEGIN { @x[1] = 1; @x[comm] = 1; }`, "comm]", "key 1 of @x"},
		{"a member of nothing", `BEGIN { print(((struct task_struct *)curtask)->pidd); }`,
			"pidd", "pidd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := runBpftrace(t, BpftraceRequest{Program: tt.text})
			var ds syntax.Diagnostics
			if !errors.As(err, &ds) || len(ds) != 1 {
				t.Fatalf("%v", err)
			}
			if !strings.HasPrefix(tt.text[ds[0].Pos:], tt.at) {
				t.Errorf("marked %q, want %q", tt.text[ds[0].Pos:], tt.at)
			}
			if !strings.Contains(ds[0].Message, tt.says) || strings.Contains(ds[0].Message, "#") {
				t.Errorf("%q does not contain %q", ds[0].Message, tt.says)
			}
		})
	}
}
