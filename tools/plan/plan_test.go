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
	{"container", "", "names of containers, pods and units from paths of control groups; pure"},
	{"heapbound", "", "bounds the memory of fuzz targets; every test may import it"},
	{"kernel", "measure", "roots of /proc and /sys, clocks, capabilities, errors"},
	{"kernel/proc", "measure kernel", "files of /proc, /sys and tracefs, and numbers in text"},
	{"kernel/proc/proctest", "", "processes whose files cannot be read, for tests"},
	{"kernel/netlink", "measure kernel kernel/proc", "netlink sockets and network namespaces"},
	{"kernel/bpf/program", "", "the fixed BPF programs, in C, and what bpf2go made of them"},
	{
		"kernel/bpf",
		"measure kernel kernel/proc kernel/netlink kernel/bpf/program",
		"BPF programs, links, maps and types (BTF)",
	},
	{"kernel/feature", "measure kernel kernel/*", "what this kernel has and allows"},
	{"symbol/window", "", "sections of files, read by pages; pure"},
	{"symbol/instruction", "", "where machine instructions begin and which return; pure"},
	{"symbol/dwarf", "symbol/window", "debug information: functions and inlined calls at addresses; pure"},
	{"symbol/interp", "", "what interpreters have in common: words of frames, layouts, readers; pure"},
	{"symbol/unwind", "symbol/window symbol/interp", "tables that say where callers are, and .eh_frame; pure"},
	{"symbol/python", "symbol/interp", "structs of CPython: layouts, names and lines of its frames; pure"},
	{"symbol/ruby", "symbol/interp", "structs of Ruby: layouts, names and lines of its frames; pure"},
	{"symbol/perl", "symbol/interp", "structs of Perl: layouts, names and files of its frames; pure"},
	{"symbol/php", "symbol/interp", "structs of PHP: layouts, names and files of its frames; pure"},
	{"symbol/hotspot", "symbol/interp", "structs of HotSpot: layouts, names and lines of methods of Java; pure"},
	{"symbol/v8", "symbol/interp", "heap of V8: layouts, names and lines of functions of JavaScript; pure"},
	{"symbol/interp/languages", "symbol/interp symbol/python symbol/ruby symbol/perl symbol/hotspot symbol/php symbol/v8", "the list of interpreters; pure"},
	{
		"symbol",
		"measure kernel kernel/* symbol/interp symbol/interp/languages symbol/instruction symbol/window " +
			"symbol/dwarf symbol/unwind",
		"address to place",
	},
	{"collect", "measure kernel kernel/*", "the engine of counter sources: runs collectors, emits batches"},
	{"collect/collecttest", "measure kernel kernel/* collect", "machines and checks for tests of collectors"},
	{"collect/procfs", "measure kernel kernel/*", "parsers of files that several collectors read"},
	{"collect/cpu", collectorImports, "CPU time, scheduler, interrupts, pressure"},
	{"collect/memory", collectorImports, "memory, paging, kernel caches"},
	{"collect/disk", collectorImports, "block devices and file systems"},
	{"collect/network", collectorImports, "devices, protocols, tables"},
	{"collect/connection", collectorImports, "TCP connections, listeners and their owners"},
	{"collect/process", collectorImports, "processes and threads"},
	{"collect/kernellog", collectorImports, "messages of the kernel's log"},
	{"collect/limit", collectorImports, "limits of the kernel that belong to no other subsystem"},
	{"collect/lock", collectorImports, "who waits for file locks and semaphores, and who holds them"},
	{"collect/cgroup", collectorImports, "control groups"},
	{"collect/all", "measure kernel kernel/* collect collect/*", "the list of all collectors"},
	{"lang/words", "", "what bpftrace, perf, SystemTap and Solaris call a thing; pure"},
	{"lang/syntax", "measure lang/words", "D text to nodes"},
	{"lang/cpp", "measure lang/syntax", "C's preprocessor"},
	{"lang/format", "measure lang/syntax", "what D prints"},
	{"lang/bpftrace", "lang/syntax lang/words", "programs of bpftrace, as trees of D"},
	{"lang/check", "measure lang/syntax lang/words lang/format", "names and types of D"},
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
		"measure kernel kernel/* symbol lang/syntax lang/words lang/check lang/ir lang/gen",
		"which probes there are, and attaching to them",
	},
	{"trace/tracetest", "measure kernel kernel/* lang/syntax trace/probe", "what tests of trace/* share"},
	{
		"trace",
		"measure kernel kernel/* symbol symbol/interp symbol/unwind lang/syntax lang/cpp " +
			"lang/check lang/format " +
			"lang/ir lang/gen trace/probe trace/tracetest",
		"sessions: scripts in the kernel, and draining them",
	},
	{"trace/stop", "measure kernel kernel/* symbol", "runs a traced process up to a place"},
	{
		"trace/sampler",
		"measure kernel kernel/* symbol lang/syntax lang/check lang/format lang/ir lang/gen " +
			"trace trace/probe trace/stop trace/tracetest",
		"stacks: samples, waits and locks",
	},
	{
		"trace/family",
		"measure kernel kernel/* symbol lang/syntax lang/check lang/gen trace trace/probe trace/tracetest",
		"built-in traced statistics, as D",
	},
	{
		"trace/complete",
		"measure kernel lang/syntax lang/check trace/probe",
		"what may be written at a place of a D program",
	},
	{"trace/tool", "lang/words", "ready-made programs with their options; pure"},
	{
		"trace/command",
		"measure kernel kernel/* symbol lang/syntax lang/cpp lang/format lang/bpftrace " +
			"lang/check lang/ir lang/gen trace trace/probe trace/stop trace/tool trace/tracetest",
		"the command lines that dtrace and bpftrace understand",
	},
	{"trusted", "", "files and directories that others cannot change"},
	{"yamlfile", "measure", "configuration files: keys with kinds, positions, mistakes; pure"},
	{"store", "measure", "the archive of batches"},
	{"dataset", "measure", "the catalogue, and query to running source to answer"},
	{"export", "measure", "what leaves the machine: the table of metrics"},
	{"export/self", "measure kernel", "the server's health and findings as statistics"},
	{"wire", "", "frames and values that processes write to each other"},
	{"worker", "measure wire", "requests of strangers in processes of their own: the pool and the protocol"},
	{
		"symbolizer", "measure kernel symbol symbol/unwind symbol/interp/languages wire",
		"symbols read by a process without privileges: the protocol, both ends",
	},
	{"remote", "measure dataset wire", "sources of another process: the protocol, both ends"},
	{"supervise", "", "processes of one program, started again after their death"},
	{"confine", "", "takes privileges, system calls and files from a process"},
	{"diagnose/phrase", "measure", "numbers and names in the texts of findings"},
	{"diagnose/series", "measure", "arithmetic with unknown values"},
	{"diagnose/threshold", "", "the constants by which rules decide"},
	{"diagnose", "measure diagnose/phrase diagnose/series diagnose/threshold", "the engine: rules to findings, ranked; history"},
	{"diagnose/attribute", "diagnose diagnose/phrase", "which users of a saturated resource are the cause; pure"},
	{"diagnose/demand", "", "what tasks that wait for a CPU would use of it; pure"},
	{"diagnose/facts", "measure container diagnose diagnose/attribute diagnose/demand diagnose/phrase diagnose/series diagnose/threshold", "what rules read out of the answers"},
	{
		"diagnose/limits",
		"measure diagnose diagnose/facts diagnose/phrase diagnose/series diagnose/threshold",
		"one engine for all limits: use, size, errors, time until",
	},
	{"diagnose/experiment", "measure diagnose diagnose/attribute diagnose/facts diagnose/phrase", "short measurements that replace estimates of a report"},
	{"diagnose/kernelmessage", "diagnose", "messages of the kernel's log, and what they mean; pure"},
	{"diagnose/rules", "measure diagnose diagnose/*", "one file per rule: symptom to evidence to finding"},
	{
		"captured",
		"measure diagnose diagnose/kernelmessage diagnose/phrase diagnose/series " +
			"diagnose/threshold",
		"tables that people paste into tickets, read and diagnosed; pure",
	},
	{"load", "measure", "the network load test"},
	{"export/receiver", "measure", "servers that a user named: addresses, credentials, retries"},
	{
		"export/alert", "measure diagnose export/receiver",
		"findings as alerts: one stream of changes, to Alertmanager, webhooks and a log",
	},
	{"profile/perfdata", "", "reads perf.data: samples, and the files mapped where they were taken; pure"},
	{"profile/jfr", "", "reads recordings of Java's Flight Recorder: events with stacks; pure"},
	{"profile/input", "", "unpacks files and decodes text to UTF-8; pure"},
	{"profile", "measure container profile/perfdata profile/jfr profile/input", "profiles: stacks in every common format, compared and drawn; pure"},
	{"export/pyroscope", "measure profile export/receiver", "sends profiles to Pyroscope"},
	{"export/remotewrite", "measure export export/receiver wire", "sends samples to receivers of Prometheus's remote write"},
	{"view", "measure", "answer to table; pure"},
	{"fleet", "measure diagnose/series", "the hosts of an engine, compared; pure"},
	{"changes", "measure diagnose diagnose/series fleet store", "two recorded times, compared; store in tests; pure"},
	{"engine", "measure export export/receiver fleet", "hosts in a time series database, read by Prometheus's query API"},
	{"view/viewtest", "measure view", "answers and checks for tests of tables"},
	{"view/classic", "measure container view view/viewtest", "the tools: queries and tables of one resource each"},
	{"view/report", "measure changes diagnose fleet load view view/classic view/viewtest", "findings, load tests, hosts"},
	{"view/heat", "measure view", "heat maps of distributions, and what stands out in a part; pure"},
	{"view/drill", "measure", "questions that follow from a row of a graph; pure"},
	{"view/term/output", "measure view view/classic", "tables as text, JSON and CSV"},
	{
		"view/show",
		"measure changes diagnose diagnose/experiment diagnose/facts diagnose/rules view view/term/output",
		"a tool or a diagnosis on a machine or a recorded time",
	},
	{
		"view/mcp",
		"measure diagnose profile view view/classic view/show view/term/output",
		"the Model Context Protocol: tools that read",
	},
	{
		"view/schema",
		"measure changes diagnose fleet load profile view view/classic view/report",
		"JSON Schemas of what the commands print",
	},
	{"view/web/api", "measure", "what server and client share: columns, error codes, times"},
	{"view/web/client", "measure diagnose view/web/api", "a running server as a reader"},
	{"view/web/access", "measure trusted", "authentication and authorization: tokens, roles, sessions"},
	{"view/web/annotation", "measure trusted", "notes on a time: deploys, and what people noted"},
	{"view/web/worksheet", "measure trusted", "named worksheets of the page"},
	{"view/web/listen", "", "listeners: limits of connections, peers of a socket"},
	{
		"view/web",
		"measure changes diagnose fleet profile wire worker view view/classic view/drill view/heat " +
			"view/web/api view/web/client view/web/access view/web/annotation " +
			"view/web/worksheet view/web/listen view/mcp view/show",
		"HTTP: the server of the page and the API",
	},
	{"view/prom", "measure export wire worker view", "Prometheus's HTTP API and query language on a reader"},
	{"view/term/manual", "", "manual pages of commands"},
	{"view/term/fullscreen", "measure view view/classic view/term/output", "the view of culprit top"},
	{
		"view/term",
		"measure captured changes yamlfile diagnose diagnose/experiment diagnose/rules export/remotewrite export/receiver fleet load profile trace/tool view view/classic view/heat view/report view/show " +
			"view/mcp view/schema view/term/*",
		"command line and terminal",
	},
	{"ui", "", "the page: TypeScript, and the built page as a file system"},
	{"packaging", "export", "tests of dashboards, rules, manifests and packages"},
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
	{"fuzz", checkFuzz},
	{"security", checkSecurity},
	{"parsers", checkParsers},
	{"version", checkVersion},
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
