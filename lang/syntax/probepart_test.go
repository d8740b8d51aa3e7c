package syntax

import (
	"strings"
	"testing"

	"culprit/heapbound"
)

// names of functions in Go, Rust and C++, and names with characters that are special in
// descriptions.
//
// table: by language
var functionNames = []string{
	"main", "main.(*conn).Read",
	"main.(*pair[go.shape.int,go.shape.struct { main.s string }]).first", "main.sum[...]",
	"net/http.(*conn).serve",
	"internal/sync.(*HashTrieMap[go.shape.interface {},go.shape.interface {}]).initSlow",
	"hash/maphash.WriteComparable[go.shape.struct { Name string; Value uint64 }]", "a/b c",
	"type:.eq.main.T", "type:.eq.[2]interface {}",
	"type:.hash.struct { runtime.gList; runtime.n int32 }", "go:buildid",
	"main.f[go.shape.struct { a string \"json:\\\"a\\\"\" }]",
	"_ZN4core3fmt3num3imp52_$LT$impl$u20$core..fmt..Display$u20$for$u20$u32$GT$3fmt17h0E",
	"$target", "a$", "a$1", "shop::Cart::add(int, char const*)",
	"std::vector<int, std::allocator<int> >::push_back",
	"operator new[](unsigned long)", "f(", "f)", "f[", "f]", "f[]", "f[]]", "a\\b", "a,b", "a;b",
	"a=b", "a'b", "main.main.func1·dwrap·1", "memcpy@@GLIBC_2.14", "a b", "{", "*", "?", ".",
	"a/b/c", "/", "return/x",
}

// TestProbePart checks that the result parses as the function of a process probe before a
// predicate, a block, a comma or the end.
func TestProbePart(t *testing.T) {
	for _, name := range functionNames {
		readBack(t, name)
	}
}

func FuzzProbePart(f *testing.F) {
	for _, name := range functionNames {
		f.Add(name)
	}
	heapbound.Fuzz(f, func(t *testing.T, name string) { readBack(t, name) })
}

func readBack(t *testing.T, name string) {
	t.Helper()
	if name == "" || strings.ContainsAny(name, "\n\x00") {
		return
	}
	part := ProbePart(name)
	for _, rest := range []string{"{ x = 1; }", "/x ? 1 : 2/{ x = 1; }", " /x/ { x = 1; }",
		", BEGIN { x = 1; }", ";", " { x[1] = 2; }"} {
		text := "pid$target:a.out:" + part + ":entry" + rest
		tree, wrong := Parse(
			text, Mode{Macros: func(name string) (string, bool) { return "77", name == "target" }},
		)
		if len(wrong) > 0 {
			t.Errorf("%q: %v", text, wrong)
			continue
		}
		p := tree.Items[0].(*Clause).Probes[0]
		var got strings.Builder
		for i := 0; i < len(p.Function.Text); i++ {
			if p.Function.Text[i] == '\\' && i+1 < len(p.Function.Text) {
				i++
			}
			got.WriteByte(p.Function.Text[i])
		}
		if got.String() != name || p.Provider.Text != "pid77" || p.Module.Text != "a.out" ||
			p.Name.Text != "entry" {
			t.Errorf(
				"%q is %q of %q, %q of %q", text, got.String(), p.Module.Text, p.Name.Text,
				p.Provider.Text,
			)
		}
	}
}
