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
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// kernelSeries are the kernels that are emulated, beside the one that this machine runs. Each runs
// the golden programs, the worked examples and TestMembersLoad. Those of the middle run all other
// tests of the packages that deal with the kernel too, each what the other leaves out. musts are
// tests that may not be skipped there.
var kernelSeries = []struct { // table: kernels and what they are there for
	series string
	only   string // tests, as -test.run takes them
	other  string // tests that another kernel runs
	musts  []string
}{
	{
		"6.12",
		".",
		"FuzzGenerate|TestProfileShares|TestWalksAreTaken|TestUnlisted|TestProcessStatistics|TestTCPStatistics|TestUDPAndIPProbes|TestConnectionsWithoutSocket|TestStacksAtSystemCallsByRecords",
		[]string{
			"TestSyscallStatistics",
			"TestFamiliesCompile",
			"TestAttachFunction/multi_entry",
			"TestAttachFunction/multi_return",
			"TestAttachFunction/fentry_entry",
			"TestAttachManyFunctions/any",
			"TestWrittenLatency",
			"TestWrittenStacks",
			"TestWrittenAverage",
			"TestWrittenProfile",
			"TestWrittenMany",
			"TestTwins",
			"TestFunctions/kprobe",
			"TestFunctions/fexit",
			"TestHandlersOfTimers",
			"TestMembersLoad",
		},
	},
	{
		"6.1",
		".",
		"TestSizes|TestProfileShares|TestProfileEnds|TestSamplerShares|TestSamplerKernelAlone|TestProfileOfOneCPU",
		[]string{
			"TestSyscallStatistics",
			"TestProcessStatistics",
			"TestTCPStatistics",
			"TestFamiliesCompile",
			"TestAttachFunction/kprobe_entry",
			"TestAttachFunction/kprobe_return",
			"TestAttachFunction/fentry_entry",
			"TestAttachManyFunctions/kprobe",
			"TestWrittenLatency",
			"TestWrittenStacks",
			"TestWrittenAverage",
			"TestWrittenProfile",
			"TestTwins",
			"TestFunctions/kprobe",
			"TestFunctions/fexit",
			"TestHandlersOfTimers",
			"TestMembersLoad",
		},
	},
	{
		"7.2",
		everywhere,
		"none",
		[]string{"TestMembersLoad", "TestTwins", "TestObjectsAreNumbers", "TestFamiliesCompile"},
	},
	{
		"5.10",
		everywhere,
		"none",
		[]string{"TestMembersLoad", "TestTwins", "TestObjectsAreNumbers", "TestFamiliesCompile"},
	},
}

// everywhere are the tests that every kernel runs: the golden programs of lang/gen, the worked
// examples of docs/D.md, each member of each argument of each stable probe, traced statistics, and
// what kernels lack.
const everywhere = "^(TestTwins|TestTwinsOfLongKeys|TestManyValues|TestRecord|TestGlobalsAndSelf|TestAggregations|TestDrops|TestNesting|TestStack|TestSyscalls|" +
	"TestWorkedExamples|TestMembersLoad|TestObjectsAreNumbers|TestRenamedMembers|TestMissingProbesNameVersions|TestFramePointersAreNoted|TestFamiliesCompile|" +
	"TestSince|TestLocking|TestCountsLocked|TestMemory|TestNamer)$"

// testedBelow are the packages whose tests run on emulated kernels, beside lang/gen.
const testedBelow = "kernel kernel/bpf kernel/feature kernel/netlink kernel/proc " +
	"trace trace/probe trace/sampler trace/family trace/command"

// kernelScript runs in the emulated machine, with its default limit of locked memory. Garbage of
// tests is collected when it has to be: an emulated machine has more memory than time.
const kernelScript = `#!/bin/busybox sh
dd if=/dev/zero of=/tmp/disk bs=1M count=8 2>/dev/null
losetup -f /tmp/disk && disk=$(losetup -a | sed 's/:.*//')
if [ "$1" = commands ]; then
	./check -culprit ./culprit -alone || failed=1
	# Its commands wait most of the time for the next interval. The tests beside them measure no time.
	./check -culprit ./culprit -disk "$disk" >/tmp/checked 2>&1 &
fi
shift
tests() { (cd tests/$1 && GOGC=off GOMEMLIMIT=300MiB ./test -test.v -test.run "$2" -test.skip "$3"); }
tests lang/gen "$@" || failed=1
if [ -f /tmp/checked ]; then
	wait $! || failed=1
	cat /tmp/checked
fi
for package in ` + testedBelow + `; do
	tests $package "$@" || failed=1
done
exit ${failed:-0}
`

// withCommands reports whether the emulated kernels run the commands of culprit too, as make
// kernels has them do. They take minutes of CPU per kernel, so the tests of each change leave them
// out.
func withCommands() bool { return os.Getenv("CULPRIT_KERNEL_COMMANDS") != "" || *update }

// The tests of kernel, trace and lang/gen, as root on other kernels in an emulated machine
// (vm/run). With the commands of culprit, as vm/check runs them, docs/KERNELS.md is made of what
// works there: -update writes it.
func TestKernels(t *testing.T) {
	if quick() {
		return
	}
	for _, tool := range []string{"qemu-system-x86_64", "busybox", "cpio", "zstd", "lz4"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	dir := kernelFiles(t)
	commands, seconds := "tests", "600"
	if withCommands() {
		commands, seconds = "commands", "1500"
	}
	machines := make(
		chan struct{}, runtime.NumCPU(),
	) // each keeps a CPU busy; starved, its clock stands still for seconds
	var mu sync.Mutex
	found := map[string]*kernelFound{}
	t.Run("on", func(t *testing.T) {
		for _, k := range kernelSeries {
			t.Run(k.series, func(t *testing.T) {
				t.Parallel() // each is one thread of QEMU
				if !haveKernel(k.series) {
					t.Skip("needs: tool kernel-" + k.series + " (vm/kernels fetches it)")
				}
				machines <- struct{}{}
				defer func() { <-machines }()
				args := []string{
					"-n",
					"10",
					"vm/run",
					"-t",
					seconds,
					"-k",
					k.series,
					"-m",
					"tcp_diag loop",
				}
				for _, file := range []string{"tests", "check", "culprit"} {
					args = append(args, "-f", filepath.Join(dir, file))
				}
				args = append(args, filepath.Join(dir, "all"), commands, k.only, skipThere(k.other))
				out, err := exec.Command("nice", args...).CombinedOutput()
				f := readFound(out)
				for _, r := range f.rows {
					if r.Problem != "" {
						t.Errorf("%s: %s", r.Row, r.Problem)
					}
				}
				results, failed := testResults(out)
				t.Logf(
					"%d commands, the longest %s; %d tests, the longest %s", len(f.rows),
					f.longest(), len(results), longest(out),
				)
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
				mu.Lock()
				defer mu.Unlock()
				found[k.series] = f
			})
		}
	})
	if !t.Failed() && len(found) == len(kernelSeries) {
		checkKernelPage(t, found)
	}
}

// kernelFiles builds what runs in the emulated machines, into a directory that it returns.
func kernelFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tests := filepath.Join(dir, "tests")
	build := func(args ...string) {
		t.Helper()
		run := exec.Command("go", args...)
		run.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	build(
		"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "culprit"),
		"../cmd/culprit",
	)
	build("build", "-trimpath", "-ldflags=-w", "-o", filepath.Join(dir, "check"), "./vm/check")
	for _, name := range append([]string{"lang/gen"}, strings.Fields(testedBelow)...) {
		build("test", "-trimpath", "-c", "-o", filepath.Join(tests, name, "test"), "../"+name)
		if data := filepath.Join("..", name, "testdata"); isDir(data) {
			if err := os.CopyFS(filepath.Join(tests, name, "testdata"), os.DirFS(data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The worked examples are read where they stand.
	text, err := os.ReadFile("../docs/D.md")
	if err == nil {
		err = os.Mkdir(filepath.Join(tests, "docs"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tests, "docs", "D.md"), text, 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "all"), []byte(kernelScript), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// skipThere returns the pattern of tests that an emulated kernel skips:
//   - the largest programs: an emulated verifier needs minutes for one;
//   - tests in which the kernel plays no part: the preprocessor, limits of culprit itself;
//   - waiting times: the clocks of two emulated CPUs differ;
//   - tests that need util-linux, which the emulated machine lacks;
//   - those in tests, which another kernel runs.
func skipThere(tests string) string {
	return "^(" + tests + "|TestTCPProbes|TestPreprocessed|TestManyAggregations|TestSourceThatNobodyReads|TestFamilyBudget|TestFamilyThatCannotBe|TestRunQueueStatistics|TestSourceKeepsItsBudget|TestSessionKeepsItsBudget|TestSessionSaysWhatAProgramSays|TestSessionNamesAddresses|" +
		"TestManyClauses|TestListedNamesAreReadBack|TestNumbersLoadWithinANamespace|TestProcOfAnotherNamespace|TestWatchMaps|TestLateTicksFire|TestTicksOfAStoppedProcess|TestTicksFarBehind)$"
}

// testResults reads what go test -v prints: how each test ended, and all that those printed which
// failed.
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

// longest returns which tests took longest, without subtests.
func longest(out []byte) string {
	took := map[string]float64{}
	for _, m := range topLine.FindAllSubmatch(out, -1) {
		if seconds, err := strconv.ParseFloat(string(m[2]), 64); err == nil {
			took[string(m[1])] += seconds
		}
	}
	names := slices.SortedFunc(
		maps.Keys(took), func(a, b string) int { return cmp.Compare(took[b], took[a]) },
	)
	var b strings.Builder
	for _, name := range names[:min(len(names), 30)] {
		fmt.Fprintf(&b, "%s %.0f s, ", name, took[name])
	}
	return strings.TrimSuffix(b.String(), ", ")
}

// topLine matches the result of a test that is not a subtest.
var topLine = regexp.MustCompile(`(?m)^--- (?:PASS|FAIL): (\S+) \(([0-9.]+)s\)`)

// resultLine matches the result of a test.
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
