package check_test

import (
	"fmt"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/syntax"
)

// TestInlinesAreBounded expands a text that doubles forty times.
func TestInlinesAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("inline int a0 = 1 + pid;\n")
	for i := range 40 {
		fmt.Fprintf(&b, "inline int a%d = a%d + a%d;\n", i+1, i, i)
	}
	b.WriteString("BEGIN { trace(a40); }")
	p, ds := compile(b.String(), check.Options{}, &env{})
	if p != nil || len(ds) == 0 || ds[0].Code != syntax.TooDeep {
		t.Errorf("%v", ds)
	}
}

// TestManyMistakes checks that the number of diagnostics is limited.
func TestManyMistakes(t *testing.T) {
	p, ds := compile("BEGIN { "+strings.Repeat("trace(1 / 0); ", 500)+"}", check.Options{}, &env{})
	if p != nil || len(ds) != 21 || ds[20].Code != syntax.TooMany {
		t.Errorf("%d diagnostics", len(ds))
	}
}

// TestOptions checks that flags and pragmas set the options of a program.
func TestOptions(t *testing.T) {
	p, ds := compile(
		"#pragma D option strsize=1k\n#pragma D option quiet\n#pragma D option stackframes=7\nBEGIN { stack(); }",
		check.Options{
			All: map[string]string{"destructive": "", "flowindent": "no", "switchrate": "10hz"},
		},
		&env{},
	)
	if ds != nil {
		t.Fatal(ds)
	}
	o := p.Options
	if o.StrSize != 1024 || !o.Quiet || o.StackFrames != 7 || !o.Destructive ||
		o.All["switchrate"] != "10hz" {
		t.Errorf("%+v", o)
	}
	if _, ok := o.All["flowindent"]; ok {
		t.Error("flowindent is set to no")
	}
	if r := p.Clauses[0].Body[0].(*check.Record); r.Action.Frames != 7 {
		t.Errorf("%d frames", r.Action.Frames)
	}
}

// TestNothingIsLeftOut checks that text that can't be resolved is an error, and never silently
// dropped.
func TestNothingIsLeftOut(t *testing.T) {
	p, ds := compile(
		"nosuch:::probe { self->a = args[0]; } BEGIN /self->a/ { exit(1); }",
		check.Options{Probes: true}, &env{},
	)
	if p != nil || len(ds) != 1 || ds[0].Code != check.ArgsIndex {
		t.Errorf("%v", ds)
	}
	if _, ds := compile("nosuch:::probe { self->a = arg0; } BEGIN /self->a/ { exit(1); }",
		check.Options{Probes: true}, &env{}); ds != nil {
		t.Errorf("%v", ds)
	}
}

// TestArgs checks the types of args[].
func TestArgs(t *testing.T) {
	e := smallEnv(t)
	for text, want := range map[string]string{
		"syscall::read:entry { trace(args[2]); }":                       "record trace (size_t) u64(arg2)",
		"syscall::read:entry { trace(*args[1]); }":                      "record trace (char) load.i8.user(arg1:user*i8)",
		"syscall::read:entry, syscall::write:entry { trace(args[2]); }": "record trace (size_t) u64(arg2)",
		"syscall::read:return { trace(args[0]); }":                      "record trace (long) arg0",
	} {
		p, ds := compile(text, check.Options{}, e)
		if ds != nil {
			t.Errorf("%s\n%s", text, ds.Marked())
			continue
		}
		if got := check.Dump(p); !strings.Contains(got, want) {
			t.Errorf("%s: %s", text, got)
		}
	}
	if e.read {
		t.Error("types that C has were looked for in the kernel")
	}
}
