package cpp_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/lang/cpp"
	"culprit/lang/syntax"
)

// headers are the files that tests include.
//
// table: name to text
var headers = map[string]string{
	"dir/a.h":        "#ifndef A_H\n#define A_H\n#define A 1\ntypedef int a_t;\n#endif\n",
	"dir/nested.h":   "#include \"a.h\"\n#include <a.h>\nnested\n",
	"dir/next.h":     "first\n#include_next <next.h>\n",
	"system/next.h":  "second\n",
	"dir/once.h":     "#pragma once\nonce\n",
	"self":           "#include \"self\"\n",
	"dir/bad.h":      "int x;\n#error no\n",
	"dir/noend.h":    "int y;",
	"dir/unclosed.h": "#if 1\n",
	"dir/odd.h":      "int x = nosuch;\n",
	"twice":          "#include \"twice2\"\n#include \"twice2\"\n",
	"twice2":         "#include \"twice\"\n#include \"twice\"\n",
}

func config(macros ...string) cpp.Config {
	c := cpp.Config{
		Arch:   "amd64",
		Dirs:   []string{"dir"},
		System: []string{"system"},
		Now:    time.Date(2026, 3, 5, 6, 7, 8, 0, time.UTC),
		Read: func(name string) ([]byte, error) {
			text, ok := headers[name]
			if !ok {
				return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
			}
			return []byte(text), nil
		},
	}
	for _, m := range macros {
		undef := strings.HasPrefix(m, "-U")
		c.Macros = append(c.Macros, cpp.Macro{Text: m[2:], Undef: undef})
	}
	return c
}

// TestExpansion: what comes out, less white space where it says nothing. What C's own standard
// shows as examples is here too.
func TestExpansion(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"#define A 1\nA + B", "1 + B"},
		{"#define A B\n#define B A\nA B", "A B"},
		{"#define A 1\n#undef A\n#undef A\nA", "A"},
		{"#define F(a) [a]\nF(1) F (2) F\n(3) F F(F(4)) F", "[1] [2] [3] F [[4]] F"},
		{"#define F(a, b) a-b\nF((1,2), \"3,)\") F(,) F(',', x)", "(1,2)-\"3,)\" - ','-x"},
		{"#define F() f\n#define G F\nF() G() G ()", "f f f"},
		{"#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\n#define g f\n#define z z[0]\n#define h g(~\n#define m(a) a(w)\n#define w 0,1\n#define t(a) a\n" +
			"f(y+1) + f(f(z)) % t(t(g)(0) + t)(1);\ng(x+(3,4)-w) | h 5) & m\n(f)^m(m);",
			"f(2 * (y+1)) + f(2 * (f(2 * (z[0])))) % f(2 * (0)) + t(1); f(2 * (2+(3,4)-0,1)) | f(2 * (~ 5)) & f(2 * (0,1))^m(0,1);"},
		{"#define r(x,y) x ## y\n#define t(x,y,z) x ## y ## z\nr(2,3) r(4,) r(,5) r(,) t(1,2,3) t(,4,5) t(6,,7) t(8,9,) t(,,)", "23 4 5 123 45 67 89"},
		{"#define str(s) # s\n#define xstr(s) str(s)\n#define V 2\nstr(strncmp(\"a\\0d\", '\\4') // c\n== 0) str(: @\\n) xstr(V . h) str() str( a  b )",
			`"strncmp(\"a\\0d\", '\\4') == 0" ": @\n" "2 . h" "" "a b"`},
		{"#define hash_hash # ## #\n#define mkstr(a) # a\n#define in_between(a) mkstr(a)\n#define join(c, d) in_between(c hash_hash d)\njoin(x, y)", `"x ## y"`},
		{"#define p(f, ...) printf(f, __VA_ARGS__)\n#define q(f, ...) printf(f, ## __VA_ARGS__)\n#define s(a...) #a a\np(1, 2, 3) q(1) q(1, 2,3) s() s(a, b)",
			`printf(1, 2, 3) printf(1) printf(1, 2,3) "" "a, b" a, b`},
		{"#define cat(a, b) a ## b\ncat(<,<=) cat(.,5) cat(@,name) cat($,target) cat(1e,-)3", "<<= .5 @name $target 1e- 3"},
		{"#define NEG -1\n#define N\nx-NEG +N+ -N- <NEG a N b", "x- -1 + + - - <-1 a b"},
		// Syntax of D that C does not have passes through unchanged, byte for byte.
		{"#define FN tcp_sendmsg\n#define P 10ms\nfbt:vmlinux:FN:entry,FN*:return,tick-P /pid == $target && `jiffies/ { @FN[$1] = count(); @[$$2]; self->FN = 'it''s'; }",
			"fbt:vmlinux:tcp_sendmsg:entry,tcp_sendmsg*:return,tick-10ms /pid == $target && `jiffies/ { @tcp_sendmsg[$1] = count(); @[$$2]; self->tcp_sendmsg = 'it''s'; }"},
		{"#define pid 7\n$pid pid don't \"pid", "$pid 7 don't \"7"},
		{"#define A \\\n 1 + \\\r\n 2\nA x\\\ny \"a\\\nb\" /* /\\\n* */ // a \\\n b\nz", "1 + 2 xy \"ab\" z"},
		{"#define A 5\n#pragma D option x=A\nA\n _Pragma(\"D option quiet\") A", "#pragma D option x=A 5 #pragma D option quiet 5"},
		{"__LINE__ __FILE__\n__LINE__ __DATE__ __TIME__\n#line 40 \"x.d\"\n__LINE__ __FILE__", `1 "in.d" 2 "Mar 5 2026" "06:07:08" 40 "x.d"`},
		{"#define L(x) x __LINE__\nL(__LINE__)\nL(\n1)", "2 2 1 3"},
		{"__linux __unix __SVR4 __SUNW_D __SUNW_D_64 __Linux __amd64 __x86_64__ __STDC__ linux __GNUC__ __sun", "1 1 1 1 1 1 1 1 1 linux __GNUC__ __sun"},
		{"#if __SUNW_D_VERSION >= 0x01006000\nyes\n#endif", "yes"},
		{"#include \"a.h\"\nA a_t\n#include <a.h>\n#define H <nested.h>\n#include H\n", "typedef int a_t; 1 a_t nested"},
		{"#include <next.h>\n#include <once.h>\n#include \"once.h\"\n#include \"noend.h\"\nz", "first second once int y; z"},
		{"#!/usr/sbin/dtrace -Cs\n# 12 \"file\"\n#\n# /* nothing */\n#ident \"x\"\nA", "A"},
	} {
		s, ds := cpp.Run("in.d", c.in, config())
		if len(ds) > 0 {
			t.Errorf("%s:\n%s", c.in, ds.Marked())
			continue
		}
		if got := strings.Join(strings.Fields(s.Text), " "); got != c.want {
			t.Errorf("%s:\n gave %s\n want %s", c.in, got, c.want)
		}
	}
}

// TestConditions checks which branches are read, and the values of expressions.
func TestConditions(t *testing.T) {
	for expression, want := range map[string]bool{
		"1": true, "0": false, "nosuch": false, "!nosuch": true, "defined ONE": true, "defined(ONE) && !defined NO": true, "ONE + 1 == 2": true, "TWO(3) == 6": true,
		"2 || 1/0": true, "0 && 1/0": false, "1 ? 2 : 1/0": true, "-1 < 0u": false, "-1 < 0": true, "'a' == 97": true, `'\377' < 0`: true, `'\0'`: false, `'\x41' == 'A' && '\n' == 10`: true, "'ab' == 24930": true,
		"0x7fffffffffffffff + 1 < 0": true, "(1 ? -1 : 0u) > 0": true, "-1 >> 1 == -1": true, "1 << 63 < 0": true, "010 == 8": true, "7 % -2 == 1": true, "-7 / 2 == -3": true, "-1 / 1u > 5": true,
		"1 + 2 * 3 == 7": true, "(1 + 2) * 3 == 9": true, "8 >> 1 << 1 == 8": true, "5 & 3 | 8 ^ 8": true, "~0 == -1": true, "1 ? 0 ? 1 : 2 : 3": true, "0x8000000000000000 / -1 == 0": true,
		"(-0x7fffffffffffffff - 1) / -1 < 0": true, "1 << 64": false, "-8 >> 100 == -1": true, "1 == 1 != 0": true, "DEFD": true, "10UL == 10": true,
	} {
		text := "#define ONE 1\n#define TWO(x) (x * 2)\n#define DEFD defined ONE\n#if " +
			expression + "\nyes\n#else\nno\n#endif\n"
		s, ds := cpp.Run("", text, config())
		if len(ds) > 0 {
			t.Errorf("%s:\n%s", expression, ds.Marked())
		} else if got := strings.TrimSpace(s.Text); (got == "yes") != want {
			t.Errorf("#if %s reads %s", expression, got)
		}
	}
	for in, want := range map[string]string{
		"#if 0\n#if 1\na\n#else\nb\n#endif\n#elif 0\nc\n#elif 1\nd\n#elif 1/0\ne\n#else\nf\n#endif\ng": "d g",
		"#ifdef A\na\n#else\nb\n#endif\n#ifndef A\nc\n#endif":                                          "b c",
		"#if 0\n#error never\n#include <nosuch>\n'unclosed\n#nosuch\n#define X\n#elif 1\na\n#endif\n":  "a",
		"#if 1\na\n#elif nonsense(\nb\n#else\n#if 0\nx\n#endif\n#endif\nc":                             "a c",
		"#if 0 /* over\nlines */\n#if 1\n#endif\n/* #endif */ \"#endif\"\n// #endif\n#else\na\n#endif": "a",
		"#ifdef A /* a */\n#endif // b\n#define f(x) x\nf(1\n#ifdef A\n2\n#else\n3\n#endif\n)":         "1 3",
		"#define f(x) [x]\nf\n#define g 1\n(2)":                                                        "[2]",
		"# define A 1\n  #  ifdef A\n a\n # else\n b\n #endif":                                         "a",
		"#define EMPTY\nEMPTY # define A 1\nA":                                                         "# define A 1 A",
	} {
		s, ds := cpp.Run("", in, config())
		if len(ds) > 0 {
			t.Errorf("%s:\n%s", in, ds.Marked())
		} else if got := strings.Join(strings.Fields(s.Text), " "); got != want {
			t.Errorf("%s: gave %s, want %s", in, got, want)
		}
	}
}

// TestCommandLine checks -D, -U and -X, in their order.
func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ flags, in, want string }{
		{"-DA -DB=2 -DC= -DF(x)=x+1", "A B C F(3)", "1 2 3+1"},
		{"-DA=1 -UA", "A", "A"},
		{"-UA -DA=1", "A", "1"},
		{"-U__linux -D__SVR4=x", "__linux __SVR4", "__linux x"},
		{"-Dprobe=BEGIN", "probe { }", "BEGIN { }"},
	} {
		s, ds := cpp.Run("", c.in, config(strings.Fields(c.flags)...))
		if len(ds) > 0 {
			t.Errorf("%s: %v", c.flags, ds)
		} else if got := strings.Join(strings.Fields(s.Text), " "); got != c.want ||
			len(s.Warnings) > 0 {
			t.Errorf("%s: gave %s, want %s; %v", c.flags, got, c.want, s.Warnings)
		}
	}
	for _, flag := range []string{"-D5", "-D", "-U1", "-DA\n#define B"} {
		if _, ds := cpp.Run("in.d", "A", config(flag)); len(ds) != 1 ||
			!strings.Contains(ds[0].Message, fmt.Sprintf("%s %q: ", flag[:2], flag[2:])) {
			t.Errorf("%q: %v", flag, ds)
		}
	}
	for standard, want := range map[byte]string{0: "1 linux", 'a': "1 linux", 'c': "1 linux",
		's': "__STDC__ 1", 't': "1 1"} {
		c := config()
		c.Standard = standard
		if s, ds := cpp.Run("", "__STDC__ linux", c); ds != nil ||
			strings.TrimSpace(s.Text) != want {
			t.Errorf("-X %c: %v %v", standard, s, ds)
		}
	}
}

// TestPlaces checks that a mistake in the preprocessed text is reported at its origin.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		in, find string // a piece of what comes out
		want     string // where it stands, and what is marked
		hint     string
	}{
		{"BEGIN { x; }", "x", "in.d:1:9 x", ""},
		{"#define A 1\n#if A\n/* c */ BEGIN\n{ \\\n  y; }\n#endif", "y", "in.d:5:3 y", ""},
		{"#define A 1\n\n  A + zz", "zz", "in.d:3:7 zz", ""},
		{"#define ADD(a, b) a + nosuch + b\nx = ADD(1, other);", "nosuch", "in.d:2:5 ADD", "the macro ADD expands to nosuch + other;"},
		{"#define ADD(a, b) a + nosuch + b\nx = ADD(1, other);", "other", "in.d:2:12 other", ""},
		{"#define IN(a) [a]\n#define OUT(a) IN(a b)\nx = OUT(c);", "b", "in.d:3:5 OUT", "the macro OUT expands to b];"},
		{"#include \"odd.h\"\n", "nosuch", "dir/odd.h:1:9 nosuch", "included by line 1 of in.d"},
		{"#line 7 \"other.d\"\nfoo bar\n", "bar", "other.d:7:5 bar", ""},
		{"x long\\\ner y", "longer", "in.d:1:3 long\\", ""},
	} {
		s, ds := cpp.Run("in.d", c.in, config())
		if len(ds) > 0 {
			t.Errorf("%s: %v", c.in, ds)
			continue
		}
		i := strings.Index(s.Text, c.find)
		if i < 0 {
			t.Errorf("%s: gave %s", c.in, s.Text)
			continue
		}
		d := syntax.Diagnose(
			"out", s.Text, syntax.Span{From: int32(i), To: int32(i + len(c.find))}, "code",
			"message", "",
		)
		d.Tag, d.Near = "D_TAG", "near"
		got := s.Diagnose(d)
		if place := fmt.Sprintf("%s:%d:%d %s", got.File, got.Line, got.Column,
			got.Source[got.Column-1:got.Column-1+got.Len]); place != c.want ||
			got.Hint != c.hint {
			t.Errorf(
				"%s: %s is reported at %q with %q, want %q with %q", c.in, c.find, place, got.Hint,
				c.want, c.hint,
			)
		}
		if got.Tag != d.Tag || got.Near != d.Near || got.Message != d.Message ||
			got.Code != d.Code {
			t.Errorf("%+v became %+v", d, got)
		}
		if name, line, column := s.Place(i); !strings.HasPrefix(
			c.want, fmt.Sprintf("%s:%d:%d ", name, line, column),
		) {
			t.Errorf("%s: %s is at %s:%d:%d", c.in, c.find, name, line, column)
		}
	}
}

// TestInclusions checks that each included file is listed with its depth.
func TestInclusions(t *testing.T) {
	s, ds := cpp.Run(
		"in.d", "#include <nested.h>\n#include <once.h>\n#include <once.h>\n", config(),
	)
	if ds != nil {
		t.Fatal(ds)
	}
	if got := fmt.Sprint(s.Included); got != "[{1 dir/nested.h} {2 dir/a.h} {2 dir/a.h} {1 dir/once.h}]" {
		t.Error(got)
	}
	for name, want := range map[string]string{"bad.h": "dir/bad.h:2:1: #error: no (included by line 2 of in.d)", "unclosed.h": "dir/unclosed.h:1:1: missing #endif (included by line 2 of in.d)"} {
		if _, ds := cpp.Run("in.d", "\n#include <"+name+">\n", config()); len(ds) != 1 ||
			ds[0].Error() != want {
			t.Errorf("%s: %v", name, ds)
		}
	}
	_, ds = cpp.Run("in.d", "#include <linux/nosuch.h>", config())
	if len(ds) != 1 || !strings.Contains(ds[0].Hint, "types are known") {
		t.Error(ds)
	}
}

// TestBounds checks that endless expansion is reported, and soon.
func TestBounds(t *testing.T) {
	var doubling, pasting, nested strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doubling, "#define A%d A%d A%d\n", i, i+1, i+1)
		fmt.Fprintf(&pasting, "#define P%d(x) P%d(x##x)\n", i, i+1)
	}
	nested.WriteString("#define F(x) x\n")
	for name, text := range map[string]string{
		"doubling": doubling.String() + "A0", "pasting": pasting.String() + "#define P60(x) x\nP0(a)", "self": "#include \"self\"", "twice": "#include \"twice\"",
		"nested":  "#define F(x) x\n" + strings.Repeat("F(", 1000) + strings.Repeat(")", 1000),
		"doubled": doubling.String() + "#if A0\n#endif", "quoted": doubling.String() + "#define S(x) #x\n#define T(x) S(x)\nT(A0)",
	} {
		_, ds := cpp.Run("", text, config())
		if len(ds) == 0 || ds[0].Code != cpp.TooLarge {
			t.Errorf("%s: %v", name, ds)
		}
	}
	for name, text := range map[string]string{"brackets": "#if " + strings.Repeat("(", 10000),
		"signs": "#if " + strings.Repeat("-", 10000) + "1\n#endif", "choices": "#if " +
			strings.Repeat("1?", 10000) + "\n#endif"} {
		if _, ds := cpp.Run("", text, config()); len(ds) == 0 {
			t.Errorf("%s: nothing is wrong", name)
		}
	}
}

// codes returns the example of each code.
func codes(t testing.TB) map[string]string {
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			_, example, _ := strings.Cut(v.Doc.Text(), "Example: ")
			out[strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`)] = strings.ReplaceAll(
				strings.TrimSuffix(example, "\n"), `\n`, "\n",
			)
		}
		return true
	})
	return out
}

func TestExamplesOfCodes(t *testing.T) {
	all := codes(t)
	if len(all) < 15 {
		t.Fatalf("found %d codes", len(all))
	}
	for code, example := range all {
		s, ds := cpp.Run("", example, config())
		if ds == nil {
			ds = s.Warnings
		}
		if len(ds) != 1 || string(ds[0].Code) != code {
			t.Errorf("%s: its example returns %v", code, ds)
		}
	}
}

// TestMistakes checks the message and the position of each mistake.
func TestMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"#else":                             "line 1, column 1: #else without #if",
		"#if 1\n#else\n#else\n#endif":       "line 3, column 1: #else after #else",
		"#if\n#endif":                       "line 1, column 1: missing expression after #if (#if defined(NAME), #if NAME > 2)",
		"#if !defined\n#endif":              "line 1, column 6: missing macro name after defined",
		"#if defined(X\n#endif":             "line 1, column 5: missing ) after defined(",
		"#if (1\n#endif":                    "line 1, column 1: missing )",
		"#if 1 2\n#endif":                   "line 1, column 7: unexpected text after the expression",
		"#if 1 ? 2\n#endif":                 "line 1, column 1: missing : after ?",
		"#if \"a\"\n#endif":                 `line 1, column 5: \"a\" is not allowed here in a preprocessor expression`,
		"#if 1.5\n#endif":                   "line 1, column 5: floating-point number in a preprocessor expression",
		"#if 0x\n#endif":                    "line 1, column 5: 0x is not a valid 64-bit number",
		"#if ''\n#endif":                    "line 1, column 5: empty character constant",
		"#define":                           "line 1, column 1: missing macro name after #define (#define NAME)",
		"#define F(a, a) 1":                 "line 1, column 14: duplicate parameter a of F (#define F(a, b) ...)",
		"#define F(a":                       "line 1, column 11: missing ) after the parameters of F (#define F(a, b) ...)",
		"#define F(a b) 1":                  "line 1, column 13: expected a comma between parameters (#define F(a, b) ...)",
		"#define F(..., b) 1":               "line 1, column 14: expected ) after ... (#define F(a, b) ...)",
		"#define F(1) 1":                    "line 1, column 11: 1 is not a valid macro parameter (#define F(a, b) ...)",
		"#define F(a,) 1":                   "line 1, column 13: missing parameter after the last comma (#define F(a, b) ...)",
		"#define defined 1":                 "line 1, column 9: defined can't be the name of a macro",
		"#define A ## x":                    "line 1, column 11: ## needs a token on both sides",
		"#define F(x) __VA_ARGS__":          "line 1, column 14: __VA_ARGS__ in a macro without ... among its parameters (#define F(...) __VA_ARGS__)",
		"#define F(x) x\nF(1,2)":            "line 2, column 1: F takes 1 argument, got 2",
		"/* a":                              "line 1, column 1: unclosed comment (end it with */)",
		"#include":                          `line 1, column 1: missing file name after #include (#include "file" or #include <file>)`,
		"#includ <a.h>":                     "line 1, column 1: unknown directive #includ (did you mean #include? with -C a # begins a preprocessor line; comments are /* ... */)",
		"#include \"no.h\"":                 "line 1, column 1: file no.h not found (searched: the directory of the including file, and the directories of -I)",
		"#error old one":                    "line 1, column 1: #error: old one",
		"#define F(x) x\nF(\n#pragma x\n1)": "line 3, column 1: #pragma among the arguments of F",
		"_Pragma(1)":                        `line 1, column 1: _Pragma requires a string (_Pragma("D option quiet"))`,
	} {
		_, ds := cpp.Run("", in, config())
		if len(ds) != 1 || ds[0].Error() != want {
			t.Errorf("%s:\n gave %v\n want %s", in, ds, want)
		}
	}
	s, ds := cpp.Run("in.d", "#define A 1\n#define A  1\n#define A 2\n#warning odd\nA", config())
	if ds != nil || len(s.Warnings) != 2 ||
		s.Warnings[0].Error() != "in.d:3:9: A is redefined differently (in.d:2 has the other definition; #undef A before it, if this is intended)" {
		t.Errorf("%v %v", s, ds)
	}
	if _, ds := cpp.Run("", strings.Repeat("#error x\n", 100), config()); len(ds) != 21 ||
		ds[20].Code != syntax.TooMany {
		t.Errorf("%d are reported", len(ds))
	}
}

func FuzzPreprocess(f *testing.F) {
	for _, example := range codes(f) {
		f.Add(example)
	}
	for _, seed := range []string{
		"#define x 3\n#define f(a) f(x * (a))\n#define g f\n#define t(a) a\nf(y+1) + f(f(z)) % t(t(g)(0) + t)(1);",
		"#define e(f, ...) g(f, ##__VA_ARGS__)\ne(1) e(1,2)\n#define c(a,b) a##b\nc(,) c(a,b) c(@,x)\n#define s(x) #x\ns(\"a\\\"\" '\\n' \\)",
		"#if (2 || 1/0) && -1 < 0u\n#elif 'a' == 97 ? 0x7f : 07\n#else\n#endif\n#ifdef A\n#endif",
		"#include \"a.h\"\n#include <nested.h>\nA\n#line 3 \"x\"\n__LINE__ __FILE__",
		"a\\\nb \\ \n#pragma D option quiet\n_Pragma(\"x\") // c\n/* d */ $1 @a `b 'c",
		"#define f(x) x f\nf(1)(2)(3) f\n(4",
	} {
		f.Add(seed)
	}
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		s, ds := cpp.Run("in.d", text, config("-DM=1", "-DN(x)=x"))
		if (s == nil) == (len(ds) == 0) {
			t.Fatalf("text %v and diagnostics %v", s != nil, ds)
		}
		for _, d := range ds {
			if d.Line < 1 || d.Column < 1 || d.Code == "" || d.Message == "" {
				t.Fatalf("%+v", d)
			}
			_ = d.Marked()
		}
		if s == nil {
			return
		}
		for from := 0; from <= len(s.Text); from += 1 + len(s.Text)/50 {
			d := s.Diagnose(
				syntax.Diagnose(
					"", s.Text, syntax.Span{From: int32(from), To: int32(min(from+3, len(s.Text)))},
					"code", "message", "",
				),
			)
			if d.Line < 1 || d.Column < 1 || d.Len < 0 || d.Column-1+d.Len > len(d.Source)+1 {
				t.Fatalf("%d: %+v", from, d)
			}
			_ = d.Marked()
		}
	})
}

func BenchmarkRun(b *testing.B) {
	text := "#define MS(x) ((x) / 1000000)\n#define FN tcp_sendmsg\n" + strings.Repeat(
		"fbt::FN:return /self->t/ { @[execname] = quantize(MS(timestamp - self->t)); self->t = 0; }\n",
		1000,
	)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, ds := cpp.Run("", text, config()); ds != nil {
			b.Fatal(ds)
		}
	}
}
