package profile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

// perfRecording returns a file of perfdata/testdata.
func perfRecording(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open("perfdata/testdata/" + name + ".data.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tinyNames are the symbols of the recorded program tiny by offset: where each begins, as nm prints
// them. The kernel and libc have no names.
type tinyNames struct{ asked []string }

func (n *tinyNames) Functions(file, buildID string, offsets []uint64) ([][]string, error) {
	n.asked = append(n.asked, file)
	if file != "/tmp/pd/tiny" {
		return nil, errors.New("not kept")
	}
	out := make([][]string, len(offsets))
	for i, at := range offsets {
		switch {
		case at >= 0x1145 && at < 0x1186:
			out[i] = []string{"loop", "inner"} // as if loop were inlined
		case at >= 0x11b6:
			out[i] = []string{"main"}
		}
	}
	return out, nil
}

func (n *tinyNames) GeneratedFunctions(string, uint64, []uint64) ([]string, error) {
	return nil, nil
}

func (n *tinyNames) KernelFunctions(buildID, release string, text uint64, addrs []uint64) (
	names, modules []string, err error) {
	if buildID == "" && release == "" || text != 0xffffffff81000000 {
		return nil, nil, fmt.Errorf("kernel %q %q %x", buildID, release, text)
	}
	names, modules = make([]string, len(addrs)), make([]string, len(addrs))
	for i := range addrs {
		names[i], modules[i] = "k;ernel", "vmlinux"
	}
	return names, modules, nil
}

// The tree of perf.data has the command, the callers and the amounts that perf script prints, names
// of the Namer, inlined functions, and a reason for what has no name.
func TestPerfData(t *testing.T) {
	n := &tinyNames{}
	tree, err := Read(never, bytes.NewReader(perfRecording(t, "pipe")), "", Options{Names: n})
	if err != nil {
		t.Fatal(err)
	}
	const want = "tiny;[libc.so.6];main;inner;loop_[i] 56112224\n"
	if got := folded(t, tree); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if tree.Unit != "ns" || tree.Samples != 28 {
		t.Errorf("%v samples in %s", tree.Samples, tree.Unit)
	}
	notes := strings.Join(tree.Notes, "\n")
	if !strings.Contains(notes, "functions of /usr/lib/x86_64-linux-gnu/libc.so.6 have no names") {
		t.Errorf("notes %q", notes)
	}
	if slices.Contains(n.asked, "[vdso]") {
		t.Errorf("asked for %q", n.asked)
	}
}

// dumpNames names generated code by a dump.
type dumpNames struct {
	tinyNames
	file  string
	inode uint64
	addrs int
}

func (n *dumpNames) GeneratedFunctions(file string, inode uint64, addrs []uint64) (
	[]string, error) {
	n.file, n.inode, n.addrs = file, inode, n.addrs+len(addrs)
	out := make([]string, len(addrs))
	for i, at := range addrs {
		switch at & 0xfff {
		case 5, 9, 0xb, 0xd:
			out[i] = "seventy; of a dump"
		}
	}
	return out, nil
}

// Addresses in memory of no file, of a process that has mapped a dump of generated code as perf's
// record shows, have its names.
func TestPerfDataDump(t *testing.T) {
	n := &dumpNames{}
	tree, err := Read(never, bytes.NewReader(perfRecording(t, "dump")), "",
		Options{Names: n, Marks: true})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(n.file, "/tmp/pd/jit-") || n.inode == 0 || n.addrs == 0 {
		t.Errorf("asked for %d addresses of %q, inode %d", n.addrs, n.file, n.inode)
	}
	if got := folded(t, tree); !strings.Contains(got, "seventy: of a dump_[j] ") {
		t.Errorf("got\n%s", got)
	}
}

// Of several events the first of perf record's command line is read, another by --event.
func TestPerfDataEvents(t *testing.T) {
	in := perfRecording(t, "z")
	for _, tt := range []struct {
		event, unit, note string
		sum               float64
	}{
		{"", "ns", "left out: page-faults (5 samples)", 18 * 3344481},
		{"page-faults", "page-faults", "left out: cpu-clock (18 samples)", 326},
	} {
		o := Options{Event: tt.event, Names: &tinyNames{}}
		tree, err := Read(never, bytes.NewReader(in), "", o)
		if err != nil {
			t.Fatal(err)
		}
		if tree.Sum() != tt.sum || tree.Unit != tt.unit ||
			!strings.Contains(strings.Join(tree.Notes, "\n"), tt.note) {
			t.Errorf("%q: %v %s, %q", tt.event, tree.Sum(), tt.unit, tree.Notes)
		}
	}
	_, err := Read(never, bytes.NewReader(in), "", Options{Event: "cycles"})
	if err == nil || !strings.Contains(err.Error(), "no samples of event cycles") {
		t.Errorf("%v", err)
	}
}

// Without stacks, with a cut-off file, and within a small memory, the reader says so.
func TestPerfDataLimits(t *testing.T) {
	flat, err := Read(never, bytes.NewReader(perfRecording(t, "flat")), "", Options{})
	if err != nil || !strings.Contains(strings.Join(flat.Notes, "\n"), "no sample has a stack") {
		t.Errorf("%v, %v", flat, err)
	}
	whole := perfRecording(t, "z")
	half := perfRecording(t, "pipe")
	cut, err := Read(never, bytes.NewReader(half[:len(half)-301]), "", Options{})
	if err != nil || !strings.Contains(strings.Join(cut.Notes, "\n"), "the file is cut off") {
		t.Errorf("%v, %v", cut, err)
	}
	var wrong *ParseError
	_, err = Read(never, bytes.NewReader(whole[:50]), "x.data", Options{})
	if !errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), "x.data:byte 50: perf.data: ") {
		t.Errorf("%v", err)
	}
	var memory *MemoryError
	_, err = Read(never, bytes.NewReader(whole), "", Options{Memory: 100 << 10})
	if !errors.As(err, &memory) {
		t.Errorf("%v", err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := Read(ended, bytes.NewReader(whole), "", Options{}); !errors.Is(
		err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// perf.data is read packed too.
func TestPerfDataPacked(t *testing.T) {
	in, err := os.ReadFile("perfdata/testdata/pipe.data.gz")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Read(never, bytes.NewReader(in), "", Options{Addresses: true, TID: true})
	if err != nil || tree.Sum() != 56112224 {
		t.Fatalf("%v, %v", tree, err)
	}
	if notes := strings.Join(tree.Notes, "\n"); !strings.Contains(notes, "have no names here") {
		t.Errorf("notes %q", notes)
	}
	if got := folded(t, tree); !strings.Contains(got, "tiny-2724/2724;[libc.so.6 <27249>];[tiny <11d7>];") {
		t.Errorf("got %s", got)
	}
}
