package cases

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kernelSeries are the kernels that the rooms which deal with the kernel are tested on, beside the one that this machine runs: by
// what only some of them have. musts are tests that may not be skipped there.
var kernelSeries = []struct { // table: kernels and what they are there for
	series string
	spared string // worked examples that the other has
	other  string // tests that the other has
	musts  []string
}{
	{"6.12", "[02468]", "FuzzGenerate|TestWalksAreTaken|TestUnlisted|TestProcessStatistics|TestTCPStatistics|TestUDPAndIPProbes|TestConnectionsWithoutSocket|TestStacksAtSystemCallsByRecords", []string{"TestSyscallStatistics", "TestFamiliesCompile", "TestAttachFunction/multi_entry", "TestAttachFunction/multi_return", "TestAttachFunction/fentry_entry", "TestAttachManyFunctions/any",
		"TestWrittenLatency", "TestWrittenStacks", "TestWrittenAverage", "TestWrittenProfile", "TestWrittenMany", "TestTwins", "TestFunctions/kprobe", "TestFunctions/fexit", "TestHandlersOfTimers"}},
	{"6.1", "[13579]", "TestProfileShares|TestProfileEnds|TestSamplerShares|TestSamplerKernelAlone|TestProfileOfOneCPU", []string{"TestSyscallStatistics", "TestProcessStatistics", "TestTCPStatistics", "TestFamiliesCompile", "TestAttachFunction/kprobe_entry", "TestAttachFunction/kprobe_return", "TestAttachFunction/fentry_entry", "TestAttachManyFunctions/kprobe",
		"TestWrittenLatency", "TestWrittenStacks", "TestWrittenAverage", "TestWrittenProfile", "TestTwins", "TestFunctions/kprobe", "TestFunctions/fexit", "TestHandlersOfTimers"}},
}

// The tests of kernel, trace and lang/gen, run as root by other kernels in an emulated machine (vm/run).
func TestKernels(t *testing.T) {
	if quick() {
		return
	}
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "zstd", "lz4"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	dir := t.TempDir()
	tests := filepath.Join(dir, "tests")
	var script bytes.Buffer // garbage is collected when it has to be: an emulated machine has more memory than time
	for _, room := range []string{"lang/gen", "kernel", "trace"} {
		build := exec.Command("go", "test", "-trimpath", "-c", "-o", filepath.Join(tests, room, "test"), "../"+room)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if data := filepath.Join("..", room, "testdata"); isDir(data) {
			if err := os.CopyFS(filepath.Join(tests, room, "testdata"), os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintf(&script, "(cd tests/%s && GOGC=off GOMEMLIMIT=400MiB ./test -test.v -test.skip \"$1\") || failed=1\n", room)
	}
	// The worked examples are read where they stand.
	text, err := os.ReadFile("../docs/D.md")
	if err == nil {
		err = os.Mkdir(filepath.Join(tests, "docs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tests, "docs", "D.md"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	script.WriteString("exit ${failed:-0}\n")
	all := filepath.Join(dir, "all")
	if err := os.WriteFile(all, script.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, k := range kernelSeries {
		t.Run(k.series, func(t *testing.T) {
			t.Parallel() // each is one thread of QEMU
			if !haveKernel(k.series) {
				t.Skip("needs: tool kernel-" + k.series + " (vm/kernels fetches it)")
			}
			// Two emulators are two busy CPUs. Nothing else runs beside them: starved, an emulated machine's clock stands still for seconds.
			run := exec.Command("nice", "-n", "10", "vm/run", "-t", "600", "-k", k.series, "-m", "tcp_diag", "-f", tests, all, skipThere(k.spared, k.other))
			out, err := run.CombinedOutput()
			results, failed := testResults(out)
			t.Logf("%d tests, the longest %s", len(results), longest(out))
			for _, must := range k.musts {
				if results[must] != "PASS" {
					t.Errorf("%s: %q", must, results[must])
				}
			}
			if failed != "" {
				t.Error(failed)
			} else if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// skipThere is the pattern of tests that a kernel is spared. The largest program of all takes an emulated verifier minutes. Some hold
// what no kernel has a part in: the preprocessor, this program's own limits. How long threads wait is told otherwise by the clocks of two emulated CPUs. Worked examples keep an emulated machine busy for half
// a minute: each kernel has those whose numbers end so. What is told of samples is told alike by both, and the older verifier is the stricter one: one has them.
func skipThere(others, tests string) string {
	return "^(" + tests + "|TestTCPProbes|TestPreprocessed|TestManyAggregations|TestSourceThatNobodyReads|TestFamilyBudget|TestFamilyThatCannotBe|TestRunQueueStatistics|TestSourceKeepsItsBudget|TestSessionKeepsItsBudget|TestSessionSaysWhatAProgramSays|TestSessionNamesAddresses)$|^TestWorkedExamples$/^all$/" + others + "$"
}

// testResults reads what go test -v prints: how each test ended, and all that those printed which failed.
func testResults(out []byte) (results map[string]string, failed string) {
	results = map[string]string{}
	var said strings.Builder // since the test before
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		m := resultLine.FindStringSubmatch(lines.Text())
		if m == nil {
			fmt.Fprintln(&said, lines.Text())
			continue
		}
		results[m[2]] = m[1]
		if m[1] == "FAIL" {
			failed += said.String() + lines.Text() + "\n"
		}
		said.Reset()
	}
	return results, failed
}

// longest tells which tests took longest, of those that are no part of another.
func longest(out []byte) string {
	took := map[string]float64{}
	for _, m := range topLine.FindAllSubmatch(out, -1) {
		if seconds, err := strconv.ParseFloat(string(m[2]), 64); err == nil {
			took[string(m[1])] += seconds
		}
	}
	names := slices.SortedFunc(maps.Keys(took), func(a, b string) int { return cmp.Compare(took[b], took[a]) })
	var b strings.Builder
	for _, name := range names[:min(len(names), 30)] {
		fmt.Fprintf(&b, "%s %.0f s, ", name, took[name])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// topLine is how the end of a test is told that is no part of another.
var topLine = regexp.MustCompile(`(?m)^--- (?:PASS|FAIL): (\S+) \(([0-9.]+)s\)`)

// resultLine is how a test binary tells how a test ended.
var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) `)

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// haveKernel says whether vm/kernels has unpacked a kernel of a series.
func haveKernel(series string) bool {
	dir := os.Getenv("CULPRIT_KERNELS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return false
		}
		dir = filepath.Join(cache, "culprit", "kernels")
	}
	found, _ := filepath.Glob(filepath.Join(dir, "linux-image-"+series+".*", "boot", "vmlinuz-*"))
	return len(found) > 0
}
