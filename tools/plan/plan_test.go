// Package plan_test checks the tree: which package may import which, what the comments of exported
// names contain, and what must never be committed. It reads the files itself, since the go command
// may answer from a cache. It imports no package of the tree.
package plan_test

import (
	"fmt"
	"os"
	"testing"
)

// A planned is one directory with a Go package, or a directory and all below it.
type planned struct {
	// dir is the directory below the top of the tree. "cases/*" is cases and all below it.
	dir string
	// imports lists the packages that it may import, also in tests: "*" is every package, "lang/*"
	// is lang and all below it. An external test may always import its own package.
	imports string
	// purpose is a short description. docs/ARCHITECTURE.md has a paragraph.
	purpose string
}

// collectorImports is what each package of collectors may import.
const collectorImports = "measure kernel kernel/* collect collect/procfs collect/collecttest"

// plan lists all packages, a package below those that it imports. A directory with Go code that is
// not listed fails the test, and so does a line without a package. A new package needs a line here
// and a paragraph in docs/ARCHITECTURE.md. docs/DEPENDENCIES.md lists other modules.
var plan = []planned{
	{
		"measure",
		"",
		"the shared vocabulary: statistics, queries, batches, answers; standard library only",
	},
	{"kernel", "measure", "roots of /proc and /sys, clocks, capabilities, errors"},
	{"kernel/proc", "measure kernel", "files of /proc, /sys and tracefs, and numbers in text"},
	{"kernel/netlink", "measure kernel kernel/proc", "netlink sockets and network namespaces"},
	{"kernel/bpf/program", "", "the fixed BPF programs, in C, and what bpf2go made of them"},
	{
		"kernel/bpf",
		"measure kernel kernel/proc kernel/netlink kernel/bpf/program",
		"BPF programs, links, maps and types (BTF)",
	},
	{"kernel/feature", "measure kernel kernel/*", "what this kernel has and allows"},
	{"symbol", "measure kernel kernel/*", "address to place"},
	{"collect", "measure kernel kernel/*", "the engine of counter sources: runs collectors, emits batches"},
	{"collect/collecttest", "measure kernel kernel/* collect", "machines and checks for tests of collectors"},
	{"collect/procfs", "measure kernel kernel/*", "parsers of files that several collectors read"},
	{"collect/cpu", collectorImports, "CPU time, scheduler, interrupts, pressure"},
	{"collect/memory", collectorImports, "memory, paging, kernel caches"},
	{"collect/disk", collectorImports, "block devices and file systems"},
	{"collect/network", collectorImports, "devices, protocols, connections, tables"},
	{"collect/process", collectorImports, "processes and threads"},
	{"collect/cgroup", collectorImports, "control groups"},
	{"collect/all", "measure kernel kernel/* collect collect/*", "the list of all collectors"},
	{"lang/syntax", "measure", "D text to nodes"},
	{"lang/cpp", "measure lang/syntax", "C's preprocessor"},
	{"lang/format", "measure lang/syntax", "what D prints"},
	{"lang/check", "measure lang/syntax lang/format", "names and types of D"},
	{"lang/ir", "measure lang/syntax lang/check lang/format lang/ir/*", "the intermediate form"},
	{
		"lang/ir/irtest",
		"measure lang/syntax lang/check lang/format lang/ir",
		"a machine that runs it, for tests",
	},
	{
		"lang/gen",
		"measure lang/syntax lang/check lang/format lang/ir lang/ir/irtest",
		"instructions",
	},
	{
		"trace/probe",
		"measure kernel kernel/* symbol lang/syntax lang/check lang/ir lang/gen",
		"which probes there are, and attaching to them",
	},
	{"trace/tracetest", "measure kernel kernel/* lang/syntax trace/probe", "what tests of trace/* share"},
	{
		"trace",
		"measure kernel kernel/* symbol lang/syntax lang/cpp lang/check lang/format lang/ir lang/gen " +
			"trace/probe trace/tracetest",
		"sessions: scripts in the kernel, and draining them",
	},
	{
		"trace/sampler",
		"measure kernel kernel/* symbol lang/syntax lang/check lang/format lang/ir lang/gen " +
			"trace trace/probe trace/tracetest",
		"stacks: samples, waits and locks",
	},
	{
		"trace/family",
		"measure kernel kernel/* lang/syntax lang/check lang/gen trace trace/probe trace/tracetest",
		"built-in traced statistics, as D",
	},
	{
		"trace/command",
		"measure kernel kernel/* symbol lang/syntax lang/cpp lang/check lang/gen " +
			"trace trace/probe trace/tracetest",
		"the command line that dtrace understands",
	},
	{"trusted", "", "files and directories that others cannot change"},
	{"store", "measure", "the archive of batches"},
	{"dataset", "measure", "the catalogue, and query to running source to answer"},
	{"remote", "measure dataset", "sources of another process: the protocol, both ends"},
	{"supervise", "", "processes of one program, started again after their death"},
	{"confine", "", "takes privileges, system calls and files from a process"},
	{"diagnose/phrase", "", "numbers and names in the texts of findings"},
	{"diagnose/series", "measure", "arithmetic with unknown values"},
	{"diagnose/threshold", "", "the constants by which rules decide"},
	{"diagnose", "measure diagnose/phrase diagnose/series diagnose/threshold", "the engine: rules to findings, ranked; history"},
	{"diagnose/facts", "measure diagnose diagnose/phrase diagnose/series diagnose/threshold", "what rules read out of the answers"},
	{"diagnose/rules", "measure diagnose diagnose/*", "one file per rule: symptom to evidence to finding"},
	{
		"captured",
		"measure diagnose diagnose/phrase diagnose/series diagnose/threshold",
		"tables that people paste into tickets, read and diagnosed; pure",
	},
	{"load", "measure", "the network load test"},
	{"profile", "measure", "profiles: stacks in every common format, compared and drawn; pure"},
	{"view", "measure", "answer to table; pure"},
	{"view/viewtest", "measure view", "answers and checks for tests of tables"},
	{"view/classic", "measure view view/viewtest", "the tools: queries and tables of one resource each"},
	{"view/report", "measure diagnose load view view/classic view/viewtest", "findings, load tests, hosts"},
	{"view/web/api", "measure", "what server and client share: columns, error codes, times"},
	{"view/web/client", "measure diagnose view/web/api", "a running server as a reader"},
	{
		"view/web",
		"measure diagnose profile trusted view view/classic view/web/api view/web/client",
		"HTTP: the server of the page and the API",
	},
	{"view/prom", "measure view", "Prometheus's HTTP API and query language on a reader"},
	{"view/term/output", "measure view view/classic", "tables as text, JSON and CSV"},
	{"view/term/manual", "", "manual pages of commands"},
	{"view/term/fullscreen", "measure view view/classic view/term/output", "the view of culprit top"},
	{
		"view/term",
		"measure captured diagnose diagnose/rules load profile view view/classic view/report view/term/*",
		"command line and terminal",
	},
	{"ui", "", "the page: TypeScript, and the built page as a file system"},
	{"cmd/culprit", "*", "flags, wiring, signals; decides nothing"},

	// Not part of the program; these import none of the packages above.
	{"tools/plan", "", "this test"},
	{"cases", "", "the fault lab: faults made live, and the built program run beside them"},
	{"cases/*", "cases", "commands of the fault lab"},
	{"tools/*", "", "benchmarks, the test runner, the linters, comparisons"},
}

// checks are pure functions from the tree to a list of complaints. TestChecksCanFail shows that
// each of them can fail.
var checks = []struct {
	name  string
	check func(*tree) []string
}{
	{"imports", checkImports},
	{"planned", checkPlanned},
	{"names", checkNames},
	{"docs", checkDocs},
	{"state", checkState},
	{"length", checkLength},
	{"skips", checkSkips},
	{"text", checkText},
	{"dependencies", checkDependencies},
	{"architecture", checkArchitecture},
	{"links", checkLinks},
	{"rights", checkRights},
}

func TestPlan(t *testing.T) {
	files, err := readTree(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(files.sources) == 0 || files.module == "" {
		t.Fatalf(
			"read %d Go files of module %q: the plan test must run at the top of the tree",
			len(files.sources), files.module,
		)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for i, complaint := range c.check(files) {
				if i == 40 {
					t.Error("and more")
					break
				}
				t.Error(complaint)
			}
		})
	}
}

// TestPlanIsSound checks the table itself: each package is listed once and imports only packages
// above it, so that the plan has no cycle.
func TestPlanIsSound(t *testing.T) {
	if err := sound(plan); err != nil {
		t.Error(err)
	}
	loop := []planned{{"a", "b", ""}, {"b", "a", ""}}
	if sound(loop) == nil {
		t.Error("a cycle was not noticed")
	}
	if sound([]planned{{"a", "", ""}, {"a", "", ""}}) == nil {
		t.Error("a package listed twice was not noticed")
	}
}

func sound(plan []planned) error {
	seen := map[string]bool{}
	for _, r := range plan {
		if seen[r.dir] {
			return fmt.Errorf("%s is listed twice", r.dir)
		}
		for _, imported := range r.importList() {
			if imported == "*" || imported == r.dir+"/*" {
				continue
			}
			if !seen[trimStar(imported)] {
				return fmt.Errorf("%s imports %s, which is not listed above it", r.dir, imported)
			}
		}
		seen[r.dir] = true
	}
	return nil
}
