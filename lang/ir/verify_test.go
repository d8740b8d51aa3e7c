package ir_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"
	"culprit/lang/syntax"
)

// TestVerify breaks a valid program in each way that Verify detects.
func TestVerify(t *testing.T) {
	const text = `BEGIN { a[1] = pid; trace(a[1]); trace(execname); this->x = 10 / a[2]; @[execname] = sum(1); trace(copyinstr(1)); s = strjoin(execname, "x"); trace(s == "y"); }`
	step := func(p *ir.Program, op ir.Opcode) *ir.Step {
		for _, b := range p.Clauses[0].Blocks {
			for i := range b.Steps {
				if b.Steps[i].Op == op {
					return &b.Steps[i]
				}
			}
		}
		t.Fatalf("no step %d in\n%v", op, p)
		return nil
	}
	value := func(p *ir.Program) *ir.Step {
		for _, b := range p.Clauses[0].Blocks {
			for i := range b.Steps {
				if s := &b.Steps[i]; s.Op == ir.OpLoad && s.Mem.Base == ir.InValue {
					return s
				}
			}
		}
		t.Fatal("no element is loaded")
		return nil
	}
	for _, c := range []struct {
		want string
		do   func(p *ir.Program)
	}{
		{"leads to b0", func(p *ir.Program) { step(p, ir.OpBranch).To = 0 }},
		{"leads to b99", func(p *ir.Program) { step(p, ir.OpBranch).Else = 99 }},
		{"is empty", func(p *ir.Program) { p.Clauses[0].Blocks[1].Steps = nil }},
		{"no blocks", func(p *ir.Program) { p.Clauses[0].Blocks = nil }},
		{"is unreachable", func(p *ir.Program) {
			p.Clauses[0].Blocks = append(p.Clauses[0].Blocks,
				p.Clauses[0].Blocks[len(p.Clauses[0].Blocks)-1])
		}},
		{"wrong end", func(p *ir.Program) {
			b := p.Clauses[0].Blocks[0]
			b.Steps = b.Steps[:len(b.Steps)-1]
		}},
		{"is not assigned on some way", func(p *ir.Program) { step(p, ir.OpDiv).A = step(p, ir.OpCall).Dst + 40 }},
		{"registers", func(p *ir.Program) { step(p, ir.OpBuiltin).Dst = 1000 }},
		{"result register", func(p *ir.Program) { step(p, ir.OpBuiltin).Dst = ir.None }},
		{"invalid size of a number", func(p *ir.Program) { step(p, ir.OpStore).Size = 3 }},
		{"bytes, of", func(p *ir.Program) { step(p, ir.OpStore).Mem.Off = p.Scratch }},
		{"writes to a literal", func(p *ir.Program) { step(p, ir.OpStore).Mem.Base = ir.InLiteral }},
		{"may be no element", func(p *ir.Program) {
			for _, b := range p.Clauses[0].Blocks {
				for i := range b.Steps {
					if s := &b.Steps[i]; s.Op == ir.OpBranch && s.A == value(p).Mem.Reg {
						s.To, s.Else = s.Else, s.To
						return
					}
				}
			}
		}},
		{"is no element", func(p *ir.Program) { value(p).Mem.Reg = step(p, ir.OpBuiltin).Dst }},
		{"no such table", func(p *ir.Program) { step(p, ir.OpFind).N = 5 }},
		{"no such aggregation", func(p *ir.Program) { step(p, ir.OpAggregate).N = 5 }},
		{"no such record", func(p *ir.Program) { step(p, ir.OpEmit).N = 5 }},
		{"wrong number of operands", func(p *ir.Program) { step(p, ir.OpAggregate).A = ir.None }},
		{"no space for the final 0", func(p *ir.Program) { step(p, ir.OpReadStr).Imm = 300 }},
		{"bytes of strings", func(p *ir.Program) { step(p, ir.OpStrCompare).Size = 1000 }},
		{"field at", func(p *ir.Program) { p.Records[0].Actions[0].Fields[0].Offset = 8 }},
	} {
		p := compile(t, text, check.Options{})
		c.do(p)
		if err := p.Verify(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// FuzzPrograms checks that any text has diagnostics, or steps that pass Verify and run.
func FuzzPrograms(f *testing.F) {
	files, err := filepath.Glob("testdata/*.d")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		p, err := irtest.Compile(text, check.Options{All: map[string]string{}})
		if p == nil {
			return
		}
		if err != nil {
			t.Fatalf("%s\n%v\n%v", text, err, p)
		}
		m := irtest.New(p)
		m.Probe = &check.Probe{ID: 1}
		for i := range p.Clauses {
			m.Fire(i)
		}
	})
}

// TestDrops fills memories of limited size.
func TestDrops(t *testing.T) {
	p := compile(t, `BEGIN { a[arg0] = 1; @[arg0] = count(); trace(a[arg0]); }`, check.Options{})
	m := irtest.New(p)
	m.MaxElements, m.MaxKeys, m.MaxRecords = 2, 3, 4
	for i := range uint64(5) {
		m.Args[0] = i
		m.Fire(0)
	}
	if m.Drops[ir.DropDynamic] != 3 || m.Drops[ir.DropAgg] != 2 || m.Drops[ir.DropRecord] != 1 {
		t.Errorf("drops %v", m.Drops)
	}
	if got := irtest.FormatRecords(m.Program, m.Records); got != "1 1 0 0" {
		t.Errorf("records %s", got)
	}
}

// TestExamples compiles the example of each code.
func TestExamples(t *testing.T) {
	source, err := os.ReadFile("lower.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`// Example: (.*)\n\t\w+ +syntax.Code = "([a-z-]+)"`).
		FindAllStringSubmatch(string(source), -1)
	if len(found) != strings.Count(string(source), "syntax.Code = ") {
		t.Errorf("examples of %d codes", len(found))
	}
	for _, m := range found {
		_, err := irtest.Compile(
			strings.ReplaceAll(m[1], `\n`, "\n"), check.Options{All: map[string]string{}},
		)
		var wrong syntax.Diagnostics
		if !errors.As(err, &wrong) || len(wrong) != 1 || string(wrong[0].Code) != m[2] {
			t.Errorf("%s: %s: %v", m[2], m[1], err)
		}
	}
}

// TestTooLarge checks that programs that are too large are refused, with a position.
func TestTooLarge(t *testing.T) {
	for _, text := range []string{
		`int big[1000000]; BEGIN { big[0] = 1; }`,
		`this int big[10000]; BEGIN { this->big[0] = 1; }`,
		`self int big[20000]; BEGIN { self->big[0] = 1; }`,
		`int a[200000]; int b[200000]; BEGIN { a[0] = b[0]; }`,
		`BEGIN { tracemem(0, 100000); }`,
		`#pragma D option strsize=100000` + "\nBEGIN { trace(execname); }",
	} {
		_, err := irtest.Compile(text, check.Options{All: map[string]string{}})
		var wrong syntax.Diagnostics
		if !errors.As(err, &wrong) || wrong[0].Code != ir.TooLarge {
			t.Errorf("%s: %v", text, err)
		}
	}
}
