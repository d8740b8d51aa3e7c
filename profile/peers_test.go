package profile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// peerOptions returns the options for the flags of stackcollapse-perf.pl, by the flag's name.
func peerOptions() map[string]Options {
	return map[string]Options{
		"pid":    {PID: true},
		"tid":    {TID: true},
		"kernel": {Marks: true},
		"jit":    {Marks: true},
		"all":    {Marks: true},
		"addrs":  {Addresses: true},
	}
}

// TestPeers reads the test data of FlameGraph and inferno and compares the results.
// CULPRIT_FLAMEGRAPH and CULPRIT_INFERNO are the directories of these tools; no file of them is in
// this repository.
func TestPeers(t *testing.T) {
	var cases []peer
	if dir := os.Getenv("CULPRIT_FLAMEGRAPH"); dir != "" {
		for name, o := range peerOptions() {
			in, err := filepath.Glob(filepath.Join(dir, "test/*.txt"))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range in {
				if strings.Contains(
					f, "Yamakaky",
				) { // inferno's, below: names of Rust are read like inferno reads them
					continue
				}
				want := filepath.Join(dir, "test/results",
					strings.TrimSuffix(filepath.Base(f), ".txt")+"-collapsed-"+name+".txt")
				cases = append(
					cases,
					peer{in: f, want: want, o: o,
						drop:       map[string]string{"kernel": "_[j]", "jit": "_[k]"}[name],
						flamegraph: true},
				)
			}
		}
	}
	if dir := os.Getenv("CULPRIT_INFERNO"); dir != "" {
		data := filepath.Join(dir, "tests/data")
		for _, c := range []struct {
			of string
			o  Options
		}{
			{"perf/cpp-stacks-std-function", Options{}}, {"perf/go-stacks", Options{}}, {"perf/java-inline", Options{}}, {"perf/single-line-stacks", Options{}},
			{"perf/sourcepawn-jitdump-jit", Options{Marks: true}}, {"perf/versioned-vmlinux-kernel", Options{Marks: true}},
			{"dtrace/flamegraph-bug", Options{Offsets: true}}, {"dtrace/hex-addresses", Options{}}, {"dtrace/java", Options{}}, {"dtrace/rust-names", Options{}},
			{"dtrace/scope_with_no_argument_list", Options{}}, {"dtrace/stack-ustack", Options{}},
		} {
			kind, name, _ := strings.Cut(c.of, "/")
			in, want := name, name
			if kind == "perf" {
				in = strings.TrimSuffix(strings.TrimSuffix(name, "-jit"), "-kernel")
				want = in + "-collapsed" + strings.TrimPrefix(name, in)
			}
			p := peer{in: filepath.Join(data, "collapse-"+kind, in+".txt"),
				want: filepath.Join(data, "collapse-"+kind, "results", want+".txt"), o: c.o}
			switch {
			case strings.HasSuffix(name, "-jit"):
				p.drop = "_[k]"
			case strings.HasSuffix(name, "-kernel"):
				p.drop = "_[j]"
			}
			cases = append(cases, p)
		}
		if other := os.Getenv("CULPRIT_FLAMEGRAPH"); other != "" {
			for name, o := range peerOptions() {
				cases = append(
					cases,
					peer{
						in:   filepath.Join(other, "test/perf-rust-Yamakaky-dcpu.txt"),
						o:    o,
						drop: map[string]string{"kernel": "_[j]", "jit": "_[k]"}[name],
						want: filepath.Join(data,
							"collapse-perf/results/perf-rust-Yamakaky-dcpu-collapsed-"+name+".txt"),
					},
				)
			}
			cases = append(
				cases,
				peer{
					in: filepath.Join(other, "example-perf-stacks.txt.gz"),
					want: filepath.Join(data,
						"collapse-perf/results/example-perf-stacks-collapsed.txt"),
				},
				peer{in: filepath.Join(other, "example-dtrace-stacks.txt"),
					want: filepath.Join(data, "collapse-dtrace/results/dtrace-example.txt")},
				peer{in: filepath.Join(other, "example-dtrace-stacks.txt"),
					want: filepath.Join(data, "collapse-dtrace/results/dtrace-example-offsets.txt"),
					o:    Options{Offsets: true}},
			)
		}
	}
	if dir := os.Getenv("CULPRIT_INFERNO"); dir != "" {
		cases = append(cases, callTrees(filepath.Join(dir, "tests/data"))...)
		accountFor(t, filepath.Join(dir, "tests/data"), cases)
	}
	if len(cases) == 0 {
		t.Skip(
			"needs: tool flamegraph-tests (unpacked, in CULPRIT_FLAMEGRAPH, and inferno's in CULPRIT_INFERNO)",
		)
	}
	same := 0
	for _, c := range cases {
		if c.check(t) {
			same++
		}
	}
	t.Logf("%d of %d the same", same, len(cases))
}

// A peer is an input and the result of another tool.
type peer struct {
	in, want string
	o        Options
	drop     string // a mark that the tool does not print by default

	flamegraph bool // instead of inferno
	more       int  // number of stacks with a higher count here, for a stated reason
}

// known makes two texts equal that differ for a known reason. FlameGraph removes quotes from names
// and takes the vDSO for the kernel. In older results Java's signatures keep their L where the
// process has a number.
func (c peer) known(line string) string {
	if !c.flamegraph {
		return line
	}
	line = strings.NewReplacer("\"", "", "'", "", "__vdso_gettimeofday_[k]", "__vdso_gettimeofday").
		Replace(line)
	if c.o.PID || c.o.TID {
		frames := strings.Split(line, ";")
		for i, f := range frames {
			if strings.Contains(f, "/") {
				frames[i] = strings.TrimPrefix(f, "L")
			}
		}
		line = strings.Join(frames, ";")
	}
	return line
}

func (c peer) check(t *testing.T) bool {
	want, err := os.ReadFile(c.want)
	if err != nil {
		t.Error(err)
		return false
	}
	in, err := os.ReadFile(c.in)
	if err != nil {
		t.Error(err)
		return false
	}
	if c.flamegraph &&
		!bytes.HasSuffix(in,
			[]byte("\n\n")) { // it drops a sample without an empty line after it
		in = in[:bytes.LastIndex(in, []byte("\n\n"))+2]
	}
	tree, err := Read(never, bytes.NewReader(in), c.in, c.o)
	if err != nil {
		if len(bytes.TrimSpace(want)) == 0 {
			return true
		}
		t.Error(err)
		return false
	}
	got, other := c.amounts(folded(t, tree), c.drop), c.amounts(string(want), "")
	bad := 0
	for stack, n := range other {
		if got[stack] > n && c.more > 0 {
			c.more--
			continue
		}
		if got[stack] != n {
			if bad++; bad <= 3 {
				t.Errorf("%s: %s: %v here, %v there", filepath.Base(c.want), stack, got[stack], n)
			}
		}
	}
	for stack, n := range got {
		if _, there := other[stack]; !there {
			if bad++; bad <= 6 {
				t.Errorf("%s: %s: %v here alone", filepath.Base(c.want), stack, n)
			}
		}
	}
	if c.more > 0 {
		t.Errorf("%s: %d stacks that were known to differ are the same", filepath.Base(c.want),
			c.more)
	}
	if bad > 0 {
		t.Error(fmt.Sprint(c.want, ": ", bad, " of ", len(other), " lines differ"))
	}
	return bad == 0
}

// amounts returns the amounts of folded text by stack, as the tools that write it intend.
func (c peer) amounts(text, drop string) map[string]float64 {
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		if stack, n, ok := cutCount([]byte(strings.TrimRight(line, "\r\n"))); ok {
			s := string(stack)
			if drop != "" {
				s = strings.ReplaceAll(s, drop, "")
			}
			out[c.known(s)] += n
		}
	}
	return out
}
