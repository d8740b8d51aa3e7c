package ir_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"
)

func lower(t *testing.T, src *check.Program) *ir.Program {
	t.Helper()
	p, wrong := ir.Lower(src)
	if len(wrong) > 0 {
		t.Fatal(wrong)
	}
	if err := p.Verify(); err != nil {
		t.Fatalf("%v\n%v", err, p)
	}
	return p
}

func TestKeysAndRecords(t *testing.T) {
	long := intType(8, true)
	ts := &check.Var{Home: check.Self, Name: "ts", Type: long}
	n := &check.Var{
		Home: check.Global,
		Name: "n",
		Type: long,
		Keys: []check.Type{check.StringType{}, intType(4, true)},
	}
	agg := &check.Aggregation{
		Func:   check.Quantize,
		Keys:   []check.Type{check.StringType{}},
		Signed: true,
	}
	stamp := builtin(check.BuiltinTimestamp, 0, intType(8, false))
	p := lower(t, program([]*check.Var{ts, n}, []*check.Aggregation{agg},
		&check.Clause{Body: []check.Stmt{set(ref(ts), stamp)}},
		&check.Clause{Predicate: ref(ts), Body: []check.Stmt{
			&check.Aggregate{
				Agg:   agg,
				Keys:  []check.Expr{builtin(check.BuiltinExecname, 0, check.StringType{})},
				Value: bin(syntax.Sub, stamp, ref(ts), long),
			},
			act(
				check.Printf, builtin(check.BuiltinExecname, 0, check.StringType{}),
				num(7, intType(4, true)), builtin(check.BuiltinPID, 0, intType(4, true)),
			),
			set(ref(n, str("all of it"), num(2, intType(4, true))), num(1, long)),
			set(ref(ts), num(0, long)),
		}},
	))
	got := p.String()
	for _, want := range []string{"(string 16@0) 16, value 8",
		"printf(string 16@24, constant, int 4@40)", "(string 16@0, int 4@16) 24"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestGolden compares the steps of programs with reviewed ones.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.d")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := compile(t, string(text), check.Options{})
		if p == nil {
			continue
		}
		golden := strings.TrimSuffix(file, ".d") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(p.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.String(); got != string(want) {
			t.Errorf("%s differs; with -update it becomes:\n%s", golden, got)
		}
	}
}

// TestScratchSize checks that -x scratchsize is read with its unit: that many bytes can be
// allocated, and not one more. A size above the limit of a firing is refused.
func TestScratchSize(t *testing.T) {
	for _, c := range []struct {
		size string
		most int
	}{{"", 256}, {"9", 9}, {"100", 100}, {"0x20", 32}, {"1k", 1024}, {"8k", 8192},
		{"15360", 15360}} {
		for _, n := range []int{c.most, c.most + 1} {
			all := map[string]string{}
			if c.size != "" {
				all["scratchsize"] = c.size
			}
			p := compile(
				t,
				fmt.Sprintf(
					`BEGIN { n = %d; p = (char *)alloca(n); p[n - 1] = 1; trace(p[n - 1]); }`, n,
				),
				check.Options{All: all},
			)
			m := irtest.New(p)
			m.Probe = &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN"}
			m.Fire(0)
			want := "1"
			if n > c.most {
				want = "NOSCRATCH:0x0"
			}
			if got := irtest.FormatRecords(p, m.Records); got != want {
				t.Errorf("scratchsize %q, %d bytes: %s, want %s", c.size, n, got, want)
			}
		}
	}
	for _, size := range []string{"15361", "16k", "1m", "1t"} {
		if _, err := irtest.Compile(`BEGIN { n = 3; p = alloca(n); }`, check.Options{All: map[string]string{"scratchsize": size}}); err == nil ||
			!strings.Contains(err.Error(), "exceeds the memory of a firing") {
			t.Errorf("scratchsize %s: %v", size, err)
		}
	}
}
