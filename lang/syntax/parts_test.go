package syntax_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/lang/syntax"
	"culprit/measure"
)

func mustExpr(t *testing.T, text string, mode syntax.Mode) syntax.Expr {
	t.Helper()
	x, ds := syntax.ParseExpr(text, mode)
	if ds != nil {
		t.Fatalf("%s", ds.Marked())
	}
	return x
}

// TestShape inspects trees as other packages do: by type and member.
func TestShape(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"a", "*syntax.Ident"}, {"self->a", "*syntax.Ident"}, {"`a", "*syntax.Ident"},
		{"$a", "*syntax.Macro"}, {"1", "*syntax.Int"},
		{"'a'", "*syntax.Char"}, {`"a"`, "*syntax.String"}, {"@a[1]", "*syntax.Aggregation"},
		{"a[1]", "*syntax.Index"}, {"a.b", "*syntax.Member"},
		{"a(1)", "*syntax.Call"}, {"-a", "*syntax.Unary"}, {"a++", "*syntax.Step"},
		{"a + b", "*syntax.Binary"}, {"a, b", "*syntax.Binary"},
		{"a += b", "*syntax.Assign"}, {"a ? b : c", "*syntax.Cond"}, {"(int)a", "*syntax.Cast"},
		{"sizeof a", "*syntax.SizeOf"},
		{"stringof a", "*syntax.StringOf"}, {"offsetof(a, b)", "*syntax.OffsetOf"},
		{"xlate <a> (b)", "*syntax.Xlate"}, {"(a)", "*syntax.Ident"},
		{"(kind)-1", "*syntax.Cast"}, {"(kinda)-1", "*syntax.Binary"}, {"(a_t)-1", "*syntax.Cast"},
		{"(a_t *)-1", "*syntax.Cast"}, {"(a) (b)", "*syntax.Cast"},
		{"sizeof (kind)", "*syntax.SizeOf"},
	} {
		x := mustExpr(
			t, c.text, syntax.Mode{Types: func(name string) bool { return name == "kind" }},
		)
		if got := fmt.Sprintf("%T", x); got != c.want {
			t.Errorf("%s is %s, want %s", c.text, got, c.want)
		}
		if at := x.At(); int(at.To-at.From) != len(c.text) || at.From != 0 {
			t.Errorf("%s stands at %v", c.text, at)
		}
	}
	if x := mustExpr(t, "sizeof (kind)",
		syntax.Mode{Types: func(string) bool { return true }}).(*syntax.SizeOf); x.Type == nil ||
		x.X != nil {
		t.Errorf("sizeof of a known type: %+v", x)
	}
	m := mustExpr(t, "((struct sock *)arg0)->sk.family", syntax.Mode{}).(*syntax.Member)
	inner := m.X.(*syntax.Member)
	cast := inner.X.(*syntax.Cast)
	if m.Arrow || !inner.Arrow || m.Name.Text != "family" ||
		cast.Type.(*syntax.Pointer).Elem.(*syntax.Struct).Tag.Text != "sock" {
		t.Errorf("%+v %+v", m, inner)
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "017": 15, "0xfF": 255,
		"18446744073709551615": 1<<64 - 1, "01777777777777777777777": 1<<64 - 1, "42ull": 42} {
		if got := mustExpr(t, text, syntax.Mode{}).(*syntax.Int); got.Value != want {
			t.Errorf("%s is %d", text, got.Value)
		}
	}
	if n := mustExpr(t, "1ULL", syntax.Mode{}).(*syntax.Int); !n.Unsigned || n.Long != 2 {
		t.Errorf("%+v", n)
	}
	for text, want := range map[string]int64{`'a'`: 97, `'\n'`: 10, `'\0'`: 0, `'\377'`: -1, `'\x4E'`: 78, `'\''`: 39, `'"'`: 34, `'\\'`: 92,
		`'\"\ba'`: 0x220861, `'\0103'`: 0x0833, `'\c'`: 0x5c63, `'ab\"d'`: 0x61622264, `'a\bcdefgh'`: 0x6108636465666768} {
		if got := mustExpr(t, text, syntax.Mode{}).(*syntax.Char); got.Value != want {
			t.Errorf("%s is %#x, want %#x", text, got.Value, want)
		}
	}
	for text, want := range map[string]string{`"a\tb\n"`: "a\tb\n", `"\x41\102C\0"`: "ABC\x00", `"\q"`: `\q`, `"\a\b\f\r\v\\\"\'\?"`: "\a\b\f\r\v\\\"'?", `"\1234"`: "S4", `"é"`: "é"} {
		if got := mustExpr(t, text, syntax.Mode{}).(*syntax.String); got.Value != want {
			t.Errorf("%s is %q, want %q", text, got.Value, want)
		}
	}
}

func TestMacros(t *testing.T) {
	given := map[string]string{
		"1":      "42",
		"2":      "-7",
		"3":      "read",
		"4":      "/etc/passwd",
		"5":      `"quoted"`,
		"6":      "0x10",
		"7":      "99999999999999999999",
		"8":      "1st",
		"9":      "if",
		"target": "123",
		"x":      "vmlinux`jiffies",
	}
	mode := syntax.Mode{
		Macros: func(name string) (string, bool) { v, ok := given[name]; return v, ok },
	}
	for text, want := range map[string]string{
		"$1": "42", "$2": "-7", "$3": "read", "$4": `"/etc/passwd"`, "$5": `"quoted"`, "$6": "0x10",
		"$7": `"99999999999999999999"`, "$8": `"1st"`, "$9": `"if"`,
		"$$1": `"42"`, "$$3": `"read"`, "$target + 1": "123 + 1", "self->$3": "self->read",
		"a->$3": "a->read", "$3->x[$1]": "read->x[42]", "$1$": "",
	} {
		x, ds := syntax.ParseExpr(text, mode)
		if want == "" {
			if ds == nil {
				t.Errorf("%s parses", text)
			}
			continue
		}
		if ds != nil {
			t.Errorf("%s", ds.Marked())
		} else if got := syntax.Print(x); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	probes, ds := syntax.ParseProbes("pid$target::$3:entry, a$$1b", mode)
	if ds != nil || len(probes) != 2 || syntax.Print(probes[0]) != "pid123::read:entry" ||
		probes[1].Name.Text != "a42b" {
		t.Errorf("%v %v", probes, ds)
	}
	if at := probes[0].Provider.Span; at != (syntax.Span{From: 0, To: 10}) {
		t.Errorf("provider stands at %v", at)
	}
	if _, ds := syntax.ParseExpr("a->$4", mode); len(ds) != 1 ||
		ds[0].Code != syntax.ExpectedMember {
		t.Errorf("a->$4: %v", ds)
	}
}

func TestProbes(t *testing.T) {
	for _, c := range []struct {
		text string
		last syntax.DescriptionPart
		want [4]string
	}{
		{"a:b:c:d", syntax.PartName, [4]string{"a", "b", "c", "d"}},
		{"c:d", syntax.PartName, [4]string{"", "", "c", "d"}},
		{":::d", syntax.PartName, [4]string{"", "", "", "d"}},
		{"d", syntax.PartName, [4]string{"", "", "", "d"}},
		{"a:::", syntax.PartName, [4]string{"a", "", "", ""}},
		{"b:c", syntax.PartFunction, [4]string{"", "b", "c", ""}},
		{"a:b", syntax.PartModule, [4]string{"a", "b", "", ""}},
		{"a", syntax.PartProvider, [4]string{"a", "", "", ""}},
		{"12", syntax.PartFunction, [4]string{"", "", "12", ""}},
		{`a\:b:c`, syntax.PartName, [4]string{"", "", `a\:b`, "c"}},
	} {
		list, ds := syntax.ParseProbes(c.text, syntax.Mode{Last: c.last})
		if ds != nil || len(list) != 1 {
			t.Errorf("%s: %d, %v", c.text, len(list), ds)
			continue
		}
		p := list[0]
		if got := [4]string{p.Provider.Text, p.Module.Text, p.Function.Text,
			p.Name.Text}; got != c.want {
			t.Errorf("%s: %q", c.text, got)
		}
	}
	if _, ds := syntax.ParseProbes("a:b", syntax.Mode{Last: syntax.PartProvider}); len(ds) != 1 ||
		ds[0].Code != syntax.ProbeParts {
		t.Errorf("two parts where there is one: %v", ds)
	}
	if list, ds := syntax.ParseProbes(" a:b,c:d\n e ", syntax.Mode{}); ds != nil || len(list) != 3 {
		t.Errorf("%v %v", list, ds)
	}
	for _, text := range []string{"", " ", "a,", "a, {", "/x/"} {
		if list, ds := syntax.ParseProbes(text, syntax.Mode{}); ds == nil || list != nil {
			t.Errorf("%q parses", text)
		}
	}
	if list, _ := syntax.ParseProbes("17", syntax.Mode{}); len(list) != 1 || list[0].ID != 17 ||
		list[0].Parts != 0 {
		t.Errorf("17: %+v", list)
	}
}

// TestMade prints nodes that are made and not parsed, as trace makes them for a breakdown or a
// predicate.
func TestMade(t *testing.T) {
	x := &syntax.Binary{Op: syntax.Mul,
		X: &syntax.Binary{
			Op: syntax.Add,
			X:  &syntax.Ident{Name: "a"},
			Y:  &syntax.Int{Value: 5, Unsigned: true, Long: 2},
		},
		Y: &syntax.Unary{
			Op: syntax.Neg,
			X:  &syntax.Unary{Op: syntax.Neg, X: &syntax.String{Value: "\x80\n"}},
		}}
	const want = `(a + 5ull) * -(-"\200\n")`
	if got := syntax.Print(x); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	back := mustExpr(t, want, syntax.Mode{})
	if syntax.Print(back) != want {
		t.Errorf("%s", syntax.Print(back))
	}
}

func TestWalk(t *testing.T) {
	prog, ds := syntax.Parse(
		"struct s { int a, *b; } x[2], *y; a:b /c/ { if (d) { @e[f] = g(h); } else i->j = (struct k *)l; }",
		syntax.Mode{},
	)
	if ds != nil {
		t.Fatal(ds)
	}
	var order []string
	structs := 0
	syntax.Walk(prog, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Ident:
			order = append(order, n.Name)
		case *syntax.Struct:
			structs++
			order = append(order, n.Tag.Text)
		case *syntax.Aggregation:
			order = append(order, "@"+n.Name)
		case *syntax.StructMember:
			order = append(order, "."+n.Name.Text)
		}
		return true
	})
	if got := strings.Join(order, " "); got != "s .a .b c d @e f h i k l" {
		t.Error(got)
	}
	n := 0
	syntax.Walk(prog, func(syntax.Node) bool { n++; return false })
	if n != 1 {
		t.Errorf("%d nodes visited below one that was declined", n)
	}
}

func TestDiagnostics(t *testing.T) {
	_, ds := syntax.Parse("BEGIN\n{\n\tx = ü;\n\ty = ;\r\n}\n", syntax.Mode{File: "a.d"})
	if len(ds) != 2 || ds[0].Line != 3 || ds[0].Column != 6 || ds[1].Line != 4 ||
		ds[1].Column != 6 ||
		ds[1].Source != "\ty = ;" ||
		ds[1].Tag != "D_SYNTAX" {
		t.Fatalf("%+v", ds)
	}
	var err error = ds
	var one *syntax.Diagnostic
	if !errors.As(err, &one) || one != ds[0] {
		t.Error("errors.As finds no diagnostic")
	}
	if got, want := err.Error(),
		"a.d:3:6: unexpected character ü\na.d:4:6: expected a value before ;"; got != want {
		t.Errorf("%s", got)
	}
	if m := ds[1].Measure(); *m != (measure.Diagnostic{Text: "\ty = ;", Pos: 5, Len: 1,
		Code: "expected-expression", Message: "expected a value before ;"}) {
		t.Errorf("%+v", m)
	}
}

// TestPlaces parses texts with a preprocessor's line marks.
func TestPlaces(t *testing.T) {
	const text = "# 1 \"a.d\"\n# 1 \"b.h\" 1\nint x;\nint *;\n# a comment\n#line 2 \"a.d\"\nint y;\nint *;\n"
	_, ds := syntax.Parse(text, syntax.Mode{File: "text"})
	if len(ds) != 2 || ds[0].File != "b.h" || ds[0].Line != 2 || ds[1].File != "a.d" ||
		ds[1].Line != 3 {
		t.Errorf("%v", ds)
	}
	for _, text := range []string{"# 12 apples\nint *;", "# x\n int *;", "#\nint *;"} {
		if _, ds := syntax.Parse(text, syntax.Mode{}); len(ds) != 1 || ds[0].Line != 2 ||
			ds[0].File != "" {
			t.Errorf("%v", ds)
		}
	}
}

// TestHostile parses texts that are long in one way: none may take more time than its length
// justifies, or too deep a stack.
func TestHostile(t *testing.T) {
	const n = 200000
	for _, piece := range []string{
		"(", "[", "{", "/", "!", "-", "a?", "a?b:", "a:", "a,", "@[", "a(", "a[", "if(", "if(a)",
		"if(a);else ", "sizeof(", "sizeof ", "stringof ", "(a)(", "(a_t)", "(int)",
		"x=", "a->", "a,b,", "struct{", "struct s{", "struct s{int a;}", "enum{a=(", "int(*",
		"int a[", "int a(int ", "*", "int *", "int x;", "inline int x=", "translator a<", "#",
		"\n#", "\n#pragma D option a=b", "/*", "//", "\"", "'",
		"\\", "a\\", "$", "$$1", "`", "a`", "0x", "9", ".", "a:b{", "a:b{}", "a:b/", "a{if(a){",
		"while(", "BEGIN{while(a){}}", "BEGIN{x y\n", "}", "a{a:b{", ";", "{;", "a b ", "\x00",
		"\xff", "xlate<", "offsetof(", "1+", "1 1 ", "BEGIN {x=1\n", "a /b / ",
	} {
		for _, before := range []string{"", "BEGIN { ", "BEGIN { x = ", "BEGIN /", "int ",
			"struct s { "} {
			text := before + strings.Repeat(piece, n/len(piece))
			prog, ds := syntax.Parse(text, syntax.Mode{})
			if (prog == nil) == (len(ds) == 0) || len(ds) > 21 {
				t.Fatalf(
					"%q after %q: tree %v, %d diagnostics", piece, before, prog != nil, len(ds),
				)
			}
		}
	}
}

// TestPeerSuite parses the programs of dtrace's own tests, from an unpacked dtrace-tests package.
// Programs that should run must parse; programs with a mistake must be refused with dtrace's name
// for it.
func TestPeerSuite(t *testing.T) {
	dir := os.Getenv("CULPRIT_DTRACE_TESTS")
	if dir == "" {
		t.Skip("needs: tool dtrace-tests (unpacked, in CULPRIT_DTRACE_TESTS)")
	}
	// Mistakes that this package alone can't find, with the reason.
	known := map[string]string{
		"tst.APIVersion.d":                  "has no clause, and runs with -V",
		"err.D_PRAGMA_INVAL.d":              "has two mistakes",
		"err.D_IDENT_UNDEF.afterprobe.d":    "runs with -C",
		"err.D_DECL_INCOMPLETE.order2.d":    "reported as a call of a value in parentheses",
		"err.D_DECL_TYPERED.BadTransDecl.d": "reported as a missing semicolon",
	}
	parsed, refused, skipped := 0, 0, 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || filepath.Ext(path) != ".d" {
			return err
		}
		base := filepath.Base(path)
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		prog, ds := syntax.Parse(string(data), syntax.Mode{File: base})
		switch {
		case known[base] != "":
			skipped++
		case prog != nil:
			parsed++
			checkTree(t, base, string(data), prog)
		case strings.HasPrefix(base, "tst."), strings.HasPrefix(base, "drp."):
			if ds[0].Code == syntax.NeedsPreprocessor {
				skipped++
			} else {
				t.Errorf("%s", ds.Marked())
			}
		case strings.HasPrefix(base, "err.D_"):
			refused++
			tag := strings.Split(base, ".")[1]
			ok := false
			for _, d := range ds {
				ok = ok || d.Tag == tag
			}
			if !ok {
				t.Errorf("refused as %s:\n%s", ds[0].Tag, ds.Marked())
			}
		}
		return nil
	})
	if err != nil || parsed == 0 {
		t.Errorf("%d programs parsed: %v", parsed, err)
	}
	t.Logf("%d parsed, %d refused, %d need other packages", parsed, refused, skipped)
}
