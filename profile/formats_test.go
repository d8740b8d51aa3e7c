package profile

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"culprit/heapbound"
)

const perfText = `# cmdline : /usr/bin/perf record -g sleep 1
swapper     0 [012] 2281339.604067:   10 cycles:
        ffffffffc09ace93 native_safe_halt+0x6 ([kernel.kallsyms])
        ffffffff81013236 cpu_idle+0x10 ([kernel.kallsyms])

V8 WorkerThread 24636/25607 [000] 94564.109216: 5 cycles:u:
            7f1e2215d058 v8::F(int, char const*)+0x3 (/usr/bin/node (deleted))
            7f1e2215d000 std::map<int (*)(int)>::at(int) (/usr/bin/node)
                  4007c0 [unknown] (/tmp/with space/libx.so)
                       0 [unknown] ([unknown])

java 7 94564.2: 1 instructions:
            7f1e2215d058 never (/usr/bin/java)

java 7 94564.2: 2 cycles:
            7f1e2215d058 Lorg/A;::run->Lorg/B;::go (/tmp/perf-7.map)
            401136 helper (inlined)
            401130 (java) (x)

idle 9 [000] 1.0: 3 cycles:

`

const dtraceText = `CPU     ID                    FUNCTION:NAME
  0  64091                        :tick-60s 


              genunix` + "`" + `kmem_cache_free+0xce
              unix` + "`" + `sys_syscall+0x17a
                3

              prog` + "`" + `std::map<int>::at(int)+0x2
              0x7f00
                4
`

const bpftraceText = `Attaching 1 probe...

@[
    native_safe_halt+14
    cpu_startup_entry+25
, swapper]: 42
@kstacks[bash,
    vfs_read+1
    ksys_read+2
]: 8
@other: 5
@[cat]: 6
`

func TestFormats(t *testing.T) {
	for _, c := range []struct {
		name, in, out string
		o             Options
	}{
		{name: "perf script", in: perfText, out: "V8_WorkerThread;[unknown];[libx.so];std::map<int (*)(int)>::at;v8::F 5\nidle 3\njava;helper;org/A:::run;org/B:::go_[i] 2\n" +
			"swapper;cpu_idle;native_safe_halt 10\n"},
		{name: "perf script, marked", in: perfText, o: Options{Marks: true, TID: true, Addresses: true},
			out: "V8_WorkerThread-24636/25607;[unknown <0>];[libx.so <4007c0>];std::map<int (*)(int)>::at;v8::F 5\nidle-?/9 3\njava-?/7;helper;org/A:::run_[j];org/B:::go_[i] 2\n" +
				"swapper-?/0;cpu_idle_[k];native_safe_halt_[k] 10\n"},
		{name: "perf script, another event", in: perfText, o: Options{Event: "instructions"}, out: "java;never 1\n"},
		{name: "perf script, no empty line at the end", in: "a 1 [0] 2.5: 7 cycles:\n\t401136 f (x)", out: "a;f 7\n"},
		{name: "perf script without call chains", in: "  a 1 [0] 2.5: 7 cycles:  401136 f+0x1 (x)\n  a 1 [0] 2.6: 8 cycles:  401136 f+0x1 (x)\n", out: "a;f 15\n"},
		{name: "DTrace", in: dtraceText, out: "0x7f00;prog`std::map<int>::at 4\nunix`sys_syscall;genunix`kmem_cache_free 3\n"},
		{name: "DTrace, offsets", in: dtraceText, o: Options{Offsets: true}, out: "0x7f00;prog`std::map<int>::at 4\nunix`sys_syscall+0x17a;genunix`kmem_cache_free 3\n"},
		{name: "DTrace without a head", in: "  a`f+0x1\n  a`g\n  2\n\n  a`f\n  1\n", out: "a`f 1\na`g;a`f 2\n"},
		{name: "bpftrace", in: bpftraceText, out: "ksys_read;vfs_read;bash 8\nswapper;cpu_startup_entry;native_safe_halt 42\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fold(t, c.in, c.o); got != c.out {
				t.Errorf("got\n%swant\n%s", got, c.out)
			}
		})
	}
}

func TestPerfNotesOtherEvents(t *testing.T) {
	tree, err := Read(never, strings.NewReader(perfText), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Notes) != 1 || !strings.Contains(tree.Notes[0], "instructions (1 sample)") {
		t.Errorf("notes %q", tree.Notes)
	}
	if tree.Samples != 4 || tree.Unit != "cycles" {
		t.Errorf("%v samples of %s", tree.Samples, tree.Unit)
	}
	_, err = Read(never, strings.NewReader(perfText), "f", Options{Event: "faults"})
	if err == nil || !strings.Contains(err.Error(), "cycles (4 samples), instructions (1 sample)") {
		t.Errorf("a wrong event: %v", err)
	}
}

// TestTableSum checks that the lines of a table add up to the whole, including stacks without
// frames.
func TestTableSum(t *testing.T) {
	tree, err := Read(never, strings.NewReader(perfText), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := WriteTable(&out, tree, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"        3  15%  90%    - idle (no frames)\n", "       20 cycles\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

func TestCutOff(t *testing.T) {
	for in, want := range map[string]string{
		"\n a`f\n a`g\n 2\n\n a`h\n a`i\n": "f:6: the stack that begins here has no count",
		"@[\n a+1\n b+2\n":                 "f:1: the stack that begins here has no count",
	} {
		_, err := Read(never, strings.NewReader(in), "f", Options{})
		var p *ParseError
		if !errors.As(err, &p) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// readAs reads a text with the reader of the given format.
func readAs(f Format, text string, o Options) (*Tree, error) {
	return readLines(strings.NewReader(text), make([]byte, detectBytes), 0, 0, newLineReader(f, o))
}

func fuzzText(f *testing.F, as Format, seeds ...string) {
	for _, s := range seeds {
		f.Add(s, false)
	}
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, text string, all bool) {
		var tree *Tree
		var err error
		heapBound(t, len(text), func() {
			tree, err = readAs(as, text,
				Options{PID: all, Marks: all, Addresses: all, Offsets: all})
		})
		if err == nil {
			checkTree(t, tree)
			checkWriters(t, tree)
		}
	})
}

// checkWriters checks the invariants of all output of a tree.
func checkWriters(t *testing.T, tree *Tree) {
	t.Helper()
	var out bytes.Buffer
	if err := WriteSVG(&out, tree, Picture{}); err != nil {
		t.Fatal(err)
	}
	checkXML(t, out.Bytes())
	folded(t, tree)
	for _, write := range []func() error{
		func() error { return WriteHTML(io.Discard, tree, Picture{}) },
		func() error { return WritePProf(io.Discard, tree) },
		func() error { return WriteSpeedscope(io.Discard, tree, "") },
		func() error { return WriteText(io.Discard, tree) },
		func() error { return WriteTable(io.Discard, tree, 0) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzPerf(f *testing.F) {
	fuzzText(f, Perf, perfText, "  a 1 [0] 2.5: 7 cycles:  401136 f+0x1 (x)\n")
}
func FuzzDTrace(f *testing.F) { fuzzText(f, DTrace, dtraceText, "  L->->;+\n  2\n") }

func FuzzBPFTrace(f *testing.F) {
	fuzzText(f, BPFTrace, bpftraceText, "@[\n ffffff a+1 (x)\n]: 3\n")
}

// FuzzRead passes any bytes to the reader that detects them.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		perfText, dtraceText, bpftraceText, "a;b 1\n", "\x1f\x8b\x08\x00", jstackText, gdbText,
		euStackText, faultText, goRawText, inlinedText, sampleText, vtuneText, vsText, ghcText,
		xctraceText, v8Text, bpftraceJSONText, twiceText,
	} {
		f.Add([]byte(s))
	}
	for _, c := range perfCorpus {
		f.Add([]byte(c.in))
	}
	for _, c := range jsonCorpus {
		f.Add([]byte(c.in))
	}
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, in []byte) {
		if bytes.HasPrefix(in, []byte{0x1f, 0x8b}) {
			return // the unpacked text is larger than the input
		}
		var tree *Tree
		var err error
		heapBound(
			t, len(in),
			func() { tree, err = Read(never, bytes.NewReader(in), "f", Options{}) },
		)
		if err == nil {
			checkTree(t, tree)
			checkWriters(t, tree)
		}
	})
}
