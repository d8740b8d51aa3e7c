package syntax_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/lang/syntax"
)

var update = flag.Bool("update", false, "write the golden files anew")

func files(t testing.TB, pattern string) map[string]string {
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(names), err)
	}
	out := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(data)
	}
	return out
}

// golden compares text with a file beside its source.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; with -update it becomes:\n%s", name, got)
	}
}

// checkTree checks the invariants of a tree: it prints as text that parses to the same tree and
// prints the same, and every node lies within its parent.
func checkTree(t *testing.T, name, text string, prog *syntax.Program) {
	t.Helper()
	once := syntax.Print(prog)
	again, ds := syntax.Parse(once, syntax.Mode{})
	if ds != nil {
		t.Fatalf("%s: what it prints as does not parse:\n%s\n%s", name, ds.Marked(), once)
	}
	if twice := syntax.Print(again); twice != once {
		t.Fatalf("%s: prints as\n%s\nand then as\n%s", name, once, twice)
	}
	if !same(prog, again) {
		t.Fatalf("%s: what it prints as parses to another tree:\n%s", name, once)
	}
	checkSpans(t, name, text, prog)
}

func checkSpans(t *testing.T, name, text string, prog *syntax.Program) {
	t.Helper()
	syntax.Walk(prog, func(n syntax.Node) bool {
		at := n.At()
		if at.From < 0 || at.To < at.From || int(at.To) > len(text) {
			t.Fatalf("%s: a %T stands at %v of %d bytes", name, n, at, len(text))
		}
		switch n.(type) {
		case syntax.Expr, syntax.Stmt, *syntax.Block, *syntax.Probe, *syntax.Clause:
			if at.From == at.To {
				t.Fatalf("%s: a %T stands nowhere: %v", name, n, at)
			}
			syntax.Walk(n, func(below syntax.Node) bool {
				if b := below.At(); b.From < at.From || b.To > at.To {
					t.Fatalf("%s: a %T at %v reaches beyond its %T at %v: %q", name, below, b, n,
						at, text[at.From:at.To])
				}
				return below == n // each is checked against its parent
			})
		}
		return true
	})
}

func TestOK(t *testing.T) {
	for name, text := range files(t, "ok/*.d") {
		prog, ds := syntax.Parse(text, syntax.Mode{File: filepath.Base(name)})
		if ds != nil {
			t.Errorf("%s", ds.Marked())
			continue
		}
		golden(t, strings.TrimSuffix(name, ".d")+".golden", syntax.Print(prog))
		checkTree(t, name, text, prog)
	}
}

// TestErr reads testdata/err/CODE.what.d, where the mistake is between « and », or at «» for a
// position between two bytes. Several mistakes are several pairs. CODE is that of the first; the
// golden file shows all of them as printed to users.
func TestErr(t *testing.T) {
	seen := map[string]bool{}
	for name, marked := range files(t, "err/*.d") {
		var text strings.Builder
		var want [][2]int
		for i, part := range strings.Split(marked, "«") {
			if i > 0 {
				inside, after, ok := strings.Cut(part, "»")
				if !ok {
					t.Fatalf("%s: a « without »", name)
				}
				want = append(want, [2]int{text.Len(), text.Len() + len(inside)})
				part = inside + after
			}
			text.WriteString(part)
		}
		base := filepath.Base(name)
		code, _, _ := strings.Cut(base, ".")
		seen[code] = true
		prog, ds := syntax.Parse(
			text.String(),
			syntax.Mode{
				File:   base,
				Macros: func(name string) (string, bool) { return "1", name == "target" },
			},
		)
		if prog != nil || len(ds) == 0 {
			t.Errorf("%s: parses", name)
			continue
		}
		first := ds[0]
		if code == string(syntax.TooMany) {
			first = ds[len(ds)-1]
		}
		if string(first.Code) != code {
			t.Errorf("%s: got %s", name, first.Code)
		}
		var got [][2]int
		for _, d := range ds {
			got = append(got, [2]int{d.Pos, d.Pos + d.Len})
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d mistakes reported, %d marked\n%s", name, len(got), len(want),
				ds.Marked())
		} else {
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("%s: fault %d is at %v, marked at %v\n%s", name, i, got[i], want[i],
						ds[i].Marked())
				}
			}
		}
		golden(t, strings.TrimSuffix(name, ".d")+".golden", ds.Marked()+"\n")
	}
	for code := range codes(t) {
		if !seen[code] && code != "long-text" {
			t.Errorf("testdata/err has no file for %s", code)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range files(f, "ok/*.d") {
		f.Add(text)
	}
	for _, text := range files(f, "err/*.d") {
		f.Add(text)
	}
	for _, example := range codes(f) {
		f.Add(strings.ReplaceAll(example, `\n`, "\n"))
	}
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		prog, ds := syntax.Parse(text, syntax.Mode{})
		if (prog == nil) == (len(ds) == 0) {
			t.Fatalf("tree %v and diagnostics %v", prog != nil, ds)
		}
		for i, d := range ds {
			if d.Pos < 0 || d.Len < 0 || d.Pos+d.Len > len(text) || d.Line < 1 || d.Column < 1 ||
				d.Code == "" ||
				d.Message == "" {
				t.Fatalf("%+v", d)
			}
			if d.Code != syntax.TooMany && i > 0 && ds[i-1].Pos > d.Pos {
				t.Fatalf("out of order: %v", ds)
			}
			_ = d.Marked()
		}
		if prog != nil {
			checkTree(t, "fuzzed", text, prog)
		}
	})
}

// script returns a program of about n lines, like those that people write.
func script(lines int) string {
	const clause = `syscall::read:entry,
syscall::write:entry
/execname != "dtrace" && self->start == 0/
{
	self->start = timestamp;
	self->size = arg2 > 65536 ? 65536 : arg2;
	this->name = stringof(((struct task_struct *)curthread)->comm);
	@calls[probefunc, this->name] = count();
	printf("%-16s %6d %s\n", execname, pid, copyinstr(arg0));
}
`
	return strings.Repeat(clause, lines/strings.Count(clause, "\n"))
}

func BenchmarkParse(b *testing.B) {
	text := script(500)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, ds := syntax.Parse(text, syntax.Mode{}); ds != nil {
			b.Fatal(ds)
		}
	}
}

func BenchmarkPrint(b *testing.B) {
	prog, ds := syntax.Parse(script(500), syntax.Mode{})
	if ds != nil {
		b.Fatal(ds)
	}
	b.ReportAllocs()
	for b.Loop() {
		syntax.Print(prog)
	}
}

func BenchmarkOneLiner(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, ds := syntax.Parse(`profile-997 /arg0 && cpu==23/ { @[stack()] = count(); } tick-60s { exit(0); }`, syntax.Mode{}); ds != nil {
			b.Fatal(ds)
		}
	}
}
