// Package plan_test holds the plan of the house and the test that keeps it: which room may look
// into which, what each exported name owes its reader, and what must never be committed. It reads the
// files itself; asking the go command could be answered from a cache. It looks at no room.
package plan_test

import (
	"fmt"
	"os"
	"testing"
)

// A room is one directory that holds a Go package.
type room struct {
	// dir is the directory below the top of the tree. "cases/*" stands for cases and all below it.
	dir string
	// looks lists the rooms that it may import, in tests too: "*" is every room, "lang/*" is lang and
	// all below it. A room may always be imported by its own external test.
	looks string
	// holds says in a few words what the room is for. docs/ARCHITECTURE.md says it in a paragraph.
	holds string
}

// plan is the whole house. A directory with Go code that is not listed here fails the test: a new
// room is a decision, so it gets a line here and a paragraph in docs/ARCHITECTURE.md. Packages from
// other modules are in docs/DEPENDENCIES.md, with the rooms that may import them.
var plan = []room{
	{"measure", "", "the waist: statistics, queries, batches, answers; standard library only"},
	{"kernel", "measure", "what this kernel is and can do"},
	{"symbol", "measure kernel", "address to place"},
	{"collect", "measure kernel", "counters that the kernel keeps already"},
	{"lang", "measure lang/*", "D to BPF instructions"},
	{"lang/syntax", "measure", "D text to nodes"},
	{"lang/cpp", "measure lang/syntax", "C's preprocessor"},
	{"lang/format", "measure lang/syntax", "what D prints"},
	{"lang/check", "measure lang/syntax lang/format", "names and types of D"},
	{"lang/ir", "measure lang/syntax lang/check lang/format lang/ir/*", "the intermediate form"},
	{"lang/ir/irtest", "measure lang/syntax lang/check lang/format lang/ir", "a machine that runs it, for tests"},
	{"lang/gen", "measure lang/syntax lang/check lang/format lang/ir lang/ir/irtest", "instructions"},
	{"trace", "measure kernel symbol lang/*", "programs in the kernel, and draining them"},
	{"trace/profile", "measure kernel symbol", "the sampling profiler"},
	{"store", "measure", "the archive of batches"},
	{"store/remote", "measure store", "the same doors on a distributed engine"},
	{"dataset", "measure", "the catalogue, and query to running source to answer"},
	{"diagnose", "measure", "rules: symptom to evidence to finding"},
	{"load", "measure", "the network load test"},
	{"profile", "measure", "profiles: stacks in every common format, compared and drawn; pure"},
	{"view", "measure diagnose load", "answer to table, chart, heat, flame; pure"},
	{"view/web/api", "measure", "what server and client share: columns, error codes, times"},
	{"view/web/client", "measure diagnose view/web/api", "a running server as a reader"},
	{"view/web", "measure diagnose profile view view/web/api view/web/client", "HTTP: the server of the page and the API"},
	{"view/prom", "measure view", "Prometheus's HTTP API and query language on a reader"},
	{"view/term", "measure diagnose load profile view", "command line and terminal"},
	{"ui", "", "the page: TypeScript, and the built page as a file system"},
	{"cmd/culprit", "*", "the front door: flags, wiring, signals; decides nothing"},

	// The yard: not rooms, and they look into none.
	{"tools/plan", "", "this test"},
	{"cases", "", "the fault lab: end-to-end stories told to the built program"},
	{"cases/*", "cases", "the door to the fault lab for people"},
	{"tools/*", "", "benchmarks, the test runner, the linters, comparisons"},
}

// checks are the promises of the house, each a pure function of the tree to a list of complaints.
// plan_proof_test.go shows that each of them can fail.
var checks = []struct {
	name  string
	check func(*tree) []string
}{
	{"imports", checkImports},
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
	house, err := readTree(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(house.sources) == 0 || house.module == "" {
		t.Fatalf("read %d Go files of module %q: the plan test must run at the top of the tree", len(house.sources), house.module)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for i, complaint := range c.check(house) {
				if i == 40 {
					t.Error("and more")
					break
				}
				t.Error(complaint)
			}
		})
	}
}

// TestPlanIsSound checks the table itself: rooms listed once, in an order in which a room looks only
// at rooms above it, so that the plan has no circle.
func TestPlanIsSound(t *testing.T) {
	if err := sound(plan); err != nil {
		t.Error(err)
	}
	loop := []room{{"a", "b", ""}, {"b", "a", ""}}
	if sound(loop) == nil {
		t.Error("a circle was not noticed")
	}
	if sound([]room{{"a", "", ""}, {"a", "", ""}}) == nil {
		t.Error("a room listed twice was not noticed")
	}
}

func sound(plan []room) error {
	seen := map[string]bool{}
	for _, r := range plan {
		if seen[r.dir] {
			return fmt.Errorf("%s is listed twice", r.dir)
		}
		for _, look := range r.lookList() {
			if look == "*" || look == r.dir+"/*" {
				continue
			}
			if !seen[trimStar(look)] {
				return fmt.Errorf("%s looks into %s, which is not listed above it", r.dir, look)
			}
		}
		seen[r.dir] = true
	}
	return nil
}
