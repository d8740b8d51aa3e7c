package main

import (
	"fmt"
	"strings"
	"testing"
)

// bare is a machine with nothing: each form of need holds on it.
func bare() machine { return machine{tool: func(string) bool { return false }} }

func TestJudge(t *testing.T) {
	full := machine{
		root: true,
		caps: 1<<12 | 1<<39,
		tool: func(name string) bool { return name == "iperf3" },
	}
	tests := []struct {
		why        string
		bare, full bool // does it hold there
	}{
		{"needs: root", true, false},
		{"needs: root (network namespaces)", true, false},
		{"needs: cap:net_admin", true, false},
		{"needs: cap:BPF", true, false},
		{"needs: cap:CAP_NET_ADMIN (to make a link)", true, false},
		{"needs: cap:sys_admin", true, true},
		{"needs: cap:flying", false, false},
		{"needs: tool iperf3", true, false},
		{"needs: tool iperf3 with --json", true, false},
		{"needs: tool nicstat", true, true},
		{"needs: kernel feature BTF", true, true},
		{"needs: kernel feature BTF: no /sys/kernel/btf", true, true},
		{"needs: kernel feature ", false, false},
		{"needs: rooted", false, false},
		{"needs: a rest", false, false},
		{"skipping in short mode", false, false},
		{"(no reason)", false, false},
	}
	for _, tt := range tests {
		if got := bare().judge(tt.why); (got == "") != tt.bare {
			t.Errorf("on a bare machine %q: %q", tt.why, got)
		}
		if got := full.judge(tt.why); (got == "") != tt.full {
			t.Errorf("on a full machine %q: %q", tt.why, got)
		}
	}
}

// A long test is named with its seconds, the parent of long ones is not.
func TestTallyNamesLongTests(t *testing.T) {
	var out strings.Builder
	err := newTally(&out, bare()).read(strings.NewReader(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"pass","Package":"p","Test":"A/x","Elapsed":61.4}
{"Action":"pass","Package":"p","Test":"A","Elapsed":61.5}
{"Action":"run","Package":"p","Test":"B"}
{"Action":"pass","Package":"p","Test":"B","Elapsed":0.2}
{"Action":"pass","Package":"p","Elapsed":61.7}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(out.String(), "\n"); len(got) != 3 ||
		strings.TrimSpace(got[1]) != "A/x 61 s" {
		t.Errorf("printed %q", out.String())
	}
}

// stream writes events as go test -json does: "action package test output".
func stream(events ...[4]string) *strings.Reader {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(
			&b, `{"Action":%q,"Package":%q,"ImportPath":%q,"Test":%q,"Output":%q}`+"\n", e[0], e[1],
			e[1], e[2], e[3],
		)
	}
	return strings.NewReader(b.String())
}

func TestTally(t *testing.T) {
	tests := []struct {
		name        string
		events      [][4]string
		last        string   // the closing line
		shows       []string // parts of what is printed
		unjustified int
	}{
		{
			name: "leaves are counted, parents are not",
			events: [][4]string{
				{"start", "p"}, {"run", "p", "A"}, {"run", "p", "A/x"}, {"run", "p", "A/y"},
				{
					"pass",
					"p",
					"A/x",
				}, {"pass", "p", "A/y"}, {"pass", "p", "A"}, {"run", "p", "B"}, {"pass", "p", "B"}, {"pass", "p"},
			},
			last:  "3 passed, 0 failed, 0 skipped",
			shows: []string{"ok   p"},
		},
		{
			name: "a failed subtest fails once and is shown",
			events: [][4]string{
				{
					"start",
					"p",
				}, {"run", "p", "A"}, {"run", "p", "A/x"}, {"output", "p", "A/x", "    a_test.go:1: boom\n"},
				{"fail", "p", "A/x"}, {"fail", "p", "A"}, {"fail", "p"},
			},
			last:  "0 passed, 1 failed, 0 skipped",
			shows: []string{"boom", "FAILED p A/x", "FAIL p"},
		},
		{
			name: "a package that dies counts once",
			events: [][4]string{
				{"start", "p"},
				{"run", "p", "A"},
				{"output", "p", "A", "panic: oh\n"},
				{"output", "p", "", "exit status 2\n"},
				{"fail", "p"},
			},
			last:  "0 passed, 1 failed, 0 skipped",
			shows: []string{"panic: oh", "exit status 2", "FAILED p"},
		},
		{
			name: "a package that does not build",
			events: [][4]string{
				{"build-output", "p", "", "a.go:1: syntax error\n"},
				{"build-fail", "p"},
				{"start", "p"},
				{"output", "p", "", "FAIL p [build failed]\n"},
				{"fail", "p"},
			},
			last:  "0 passed, 1 failed, 0 skipped",
			shows: []string{"syntax error"},
		},
		{
			name: "a skip is listed with its reason",
			events: [][4]string{
				{"start", "p"},
				{"run", "p", "A"},
				{"output", "p", "A", "    a_test.go:9: needs: kernel feature BTF\n"},
				{"output", "p", "A", "--- SKIP: A (0.00s)\n"},
				{"skip", "p", "A"},
				{"pass", "p"},
			},
			last:  "0 passed, 0 failed, 1 skipped",
			shows: []string{"skip p A: needs: kernel feature BTF"},
		},
		{
			name: "a machine that is in use is a reason",
			events: [][4]string{
				{"start", "p"},
				{"run", "p", "A"},
				{"output", "p", "A", "    a_test.go:7: needs: quiet machine\n"},
				{"output", "p", "A", "--- SKIP: A (0.00s)\n"},
				{"skip", "p", "A"},
				{"pass", "p"},
			},
			last:  "0 passed, 0 failed, 1 skipped",
			shows: []string{"skip p A: needs: quiet machine"},
		},
		{
			name: "a skip without a reason does not pass",
			events: [][4]string{
				{"start", "p"},
				{"run", "p", "A"},
				{"output", "p", "A", "--- SKIP: A (0.00s)\n"},
				{"skip", "p", "A"},
				{"pass", "p"},
			},
			last:        "0 passed, 0 failed, 1 skipped",
			shows:       []string{"NOT JUSTIFIED"},
			unjustified: 1,
		},
		{
			name: "benchmarks are printed and not counted",
			events: [][4]string{
				{"start", "p"},
				{"run", "p", "BenchmarkA"},
				{"run", "p", "BenchmarkA/x"},
				{"output", "p", "BenchmarkA/x", "1 9 ns/op\n"},
				{"pass", "p"},
			},
			last:  "0 passed, 0 failed, 0 skipped",
			shows: []string{"1 benchmarks"},
		},
		{
			name: "no test files",
			events: [][4]string{
				{"start", "p"},
				{"output", "p", "", "? p [no test files]\n"},
				{"skip", "p"},
			},
			last:  "0 passed, 0 failed, 0 skipped",
			shows: []string{"none p"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			total := newTally(&out, bare())
			if err := total.read(stream(tt.events...)); err != nil {
				t.Fatal(err)
			}
			total.report()
			if !strings.HasSuffix(out.String(), "\n"+tt.last+"\n") {
				t.Errorf("last line is not %q in:\n%s", tt.last, out.String())
			}
			for _, want := range tt.shows {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in:\n%s", want, out.String())
				}
			}
			if total.unjustified != tt.unjustified {
				t.Errorf("%d skips unjustified, want %d", total.unjustified, tt.unjustified)
			}
		})
	}
}

// A test that fails once passes its second run; one that fails twice, a data race, a package that
// panicked and many failures at once stay.
func TestSecondRuns(t *testing.T) {
	twice := failure{pkg: "p", test: "TestTwice/a+b"}
	once := failure{pkg: "p", test: "TestOnce"}
	tests := []struct {
		failures []failure
		stay     int
		unsteady string
	}{
		{[]failure{once}, 0, "p TestOnce"},
		{[]failure{once, twice}, 1, "p TestOnce"},
		{[]failure{once, {pkg: "p", test: "TestRace", certain: true}}, 2, ""},
		{[]failure{once, {pkg: "panicked"}}, 2, ""},
		{[]failure{once, once, once, once, once}, 5, ""},
	}
	for _, tt := range tests {
		var out strings.Builder
		total := newTally(&out, bare())
		total.failures = append([]failure{{pkg: "earlier"}}, tt.failures...)
		total.failed = 1 + len(tt.failures)
		total.again(1, func(second *tally, f failure) error {
			if f == twice {
				second.failed++
			} else {
				second.passed++
			}
			return nil
		})
		if len(total.failures) != 1+tt.stay || total.failed != 1+tt.stay {
			t.Errorf("%v: %v stay, %d failed", tt.failures, total.failures, total.failed)
		}
		if got := strings.Join(total.unsteady, ","); got != tt.unsteady {
			t.Errorf("%v: unsteady %q", tt.failures, got)
		}
	}
	if got := pattern(twice.test); got != `^TestTwice$/^a\+b$` {
		t.Error(got)
	}
}

// A data race or a panic allows no second run, also where a process that the test started printed
// it, or where it is in the output of the parent of a failed subtest.
func TestTallyKnowsRaces(t *testing.T) {
	for said, certain := range map[string]bool{
		"    testing.go:1: race detected during execution of test": true,
		"        WARNING: DATA RACE":                               true,
		"        panic: nil map":                                   true,
		"    a_test.go:1: 3 of 4 calls":                            false,
	} {
		for _, by := range []string{"A", "A/x"} {
			var out strings.Builder
			total := newTally(&out, bare())
			err := total.read(strings.NewReader(fmt.Sprintf(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"A"}
{"Action":"run","Package":"p","Test":"A/x"}
{"Action":"output","Package":"p","Test":%q,"Output":%q}
{"Action":"fail","Package":"p","Test":"A/x"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"fail","Package":"p"}
`, by, said+"\n")))
			if err != nil || len(total.failures) != 1 || total.failures[0].certain != certain {
				t.Errorf("%q of %s: %v, %v", said, by, total.failures, err)
			}
		}
	}
}
