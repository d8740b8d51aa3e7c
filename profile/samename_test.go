package profile

import (
	"math"
	"strings"
	"testing"
)

// TestDiffIgnoresNumbering compares a function under its names in two runs or builds:
// nothing changed.
func TestDiffIgnoresNumbering(t *testing.T) {
	for _, c := range []struct{ before, after, same string }{
		{"Split$$Lambda$1/0x00007f72ec000a08.applyAsLong", "Split$$Lambda$14/0x00007fb1c4000a30.applyAsLong", "Split$$Lambda.applyAsLong"},
		{"Split$$Lambda/0x00007f72ec000a08.run", "Split$$Lambda$9.run", "Split$$Lambda.run"},
		{"java.lang.invoke.LambdaForm$DMH/0x00007f72ec001000.invokeStatic", "java.lang.invoke.LambdaForm$DMH/0x00007fb1c4001400.invokeStatic", "java.lang.invoke.LambdaForm$DMH.invokeStatic"},
		{"com.sun.proxy.$Proxy12.call", "com.sun.proxy.$Proxy13.call", "com.sun.proxy.$Proxy.call"},
		{"work.isra.0", "work.constprop.0.cold", "work"}, {"work.cold", "work.part.0.lto_priv.3", "work"}, {"work.llvm.1234567", "work", "work"},
		{"f(int) [clone .isra.0]", "f(int)", "f(int)"},
		{"main::{lambda(int)#1}::operator()", "main::{lambda(int)#2}::operator()", "main::{lambda(int)}::operator()"},
		{"main::$_0::operator()", "main::$_12::operator()", "main::$_::operator()"},
		{"*render", "~render", "render"}, {"^render", "render", "render"},
	} {
		b, a := string(sameName([]byte(c.before))), string(sameName([]byte(c.after)))
		if b != c.same || a != c.same {
			t.Errorf("%s and %s: %s and %s, want %s", c.before, c.after, b, a, c.same)
		}
		before, after := readString(t, "main;"+c.before+" 700\nmain;x 300\n"), readString(t,
			"main;"+c.after+" 700\nmain;x 300\n")
		d, err := Compare(before, after, Norm{Per: "sample"})
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range d.Changes() {
			if math.Abs(change.SelfAfter-change.SelfBefore) > 1e-9 {
				t.Errorf("%s: %s from %v to %v", c.before, change.Function.Name, change.SelfBefore,
					change.SelfAfter)
			}
		}
	}
	for _, name := range []string{"work", "work.0", "a.b", "Lambda", "~Foo::Foo", "a#1", "operator*", "f.txt", "main.(*T).run", "1.5", ".cold", "path/0xyz", "main.func1", "v1.2"} {
		if got := string(sameName([]byte(name))); got != name {
			t.Errorf("%s became %s", name, got)
		}
	}
}

func readString(t *testing.T, in string) *Tree {
	t.Helper()
	tree, err := Read(never, strings.NewReader(in), "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}
