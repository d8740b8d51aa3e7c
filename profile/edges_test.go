package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestSameName checks the names under which functions of two builds are compared.
func TestSameName(t *testing.T) {
	for name, want := range map[string]string{
		"f": "f", "f.isra.0": "f", "f.cold": "f", "f.constprop.12.isra.3": "f", ".cold": ".cold",
		".isra.0": ".isra.0", "f(int) [clone .isra.0]": "f(int)", " [clone .isra.0]": " [clone .isra.0]",
		"f [clone .cold] x": "f [clone .cold] x", "f.7": "f.7", "f7": "f7", "7": "7", "": "",
		"A$$Lambda$14/0x7f.run": "A$$Lambda.run", "A$$Lambda/0x00007f.run": "A$$Lambda.run",
		"A/0xz.run": "A/0xz.run", "B/0x7fA0": "B", "jdk.$Proxy12.get": "jdk.$Proxy.get",
		"GeneratedMethodAccessor3.invoke": "GeneratedMethodAccessor.invoke",
		"f::{lambda(int)#2}::operator()":  "f::{lambda(int)}::operator()",
		"f::{closure#12}":                 "f::{closure}", "f::{unnamed#1}": "f::{unnamed}",
		"f::{other#2}": "f::{other#2}", "f::{lambda(int)#}": "f::{lambda(int)#}",
		"f::$_2::x": "f::$_::x", "f::'lambda2'(int)": "f::'lambda'(int)", "a$_b": "a$_b",
		"*f": "f", "~f": "f", "^f": "f", "*": "*", "*(f)": "*(f)", "~A::f": "~A::f", "*A::f": "A::f",
		"*_f": "_f", "*$f": "$f", "*9": "*9", "*Z": "Z", "*é": "é",
	} {
		if got := string(sameName([]byte(name))); got != want {
			t.Errorf("%q is compared as %q, want %q", name, got, want)
		}
	}
}

// TestKindError checks what is said of JSON values of a wrong type.
func TestKindError(t *testing.T) {
	long := strings.Repeat("x", 61)
	for text, want := range map[string]string{
		`{"a":7}`:                              `"a" is a JSON number, and a string is expected`,
		`{"b":"x"}`:                            `"b" is a JSON string, and true or false is expected`,
		`{"c":{}}`:                             `"c" is a JSON object, and a list is expected`,
		`{"d":[]}`:                             `"d" is a JSON array, and an object is expected`,
		`{"e":[]}`:                             `"e" is a JSON array, and an object is expected`,
		`{"f":true}`:                           `"f" is a JSON bool, and a number is expected`,
		`[]`:                                   `it is a JSON array, and an object is expected`,
		`{"` + long[:60] + `":7}`:              `"` + long[:60] + `" is a JSON number, and a string is expected`,
		`{"` + strings.ToUpper("h") + `":[7]}`: `"H" is a JSON number, and a string is expected`,
		`{"` + long + `":7}`: `"` + long[:60] + `... (61 bytes)" is a JSON number, ` +
			`and a string is expected`,
	} {
		var v struct {
			A string            `json:"a"`
			B bool              `json:"b"`
			C []int             `json:"c"`
			D struct{}          `json:"d"`
			E map[string]string `json:"e"`
			F float64           `json:"f"`
			H []string
			X string `json:"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"`
			Y string `json:"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"`
		}
		var kind *json.UnmarshalTypeError
		if err := json.Unmarshal([]byte(text), &v); !errors.As(err, &kind) {
			t.Errorf("%s: %v", text, err)
		} else if got := kindError(kind); got != want {
			t.Errorf("%s\n%s, want\n%s", text, got, want)
		}
	}
}

// TestWriteTextDepth checks the indent of calls at a depth of 100 and 101, and shares just below
// and above a thousandth.
func TestWriteTextDepth(t *testing.T) {
	var frames []string
	for n := range 101 {
		frames = append(frames, fmt.Sprint("f", n+1))
	}
	in := strings.Join(frames, ";") + " 1996\nsmall 2\ntiny 1\n"
	tree, err := Read(never, strings.NewReader(in), "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := WriteText(&b, tree); err != nil {
		t.Fatal(err)
	}
	indent := strings.Repeat("  ", 100)
	for _, want := range []string{
		"   total    self  function\n", "       -  " + indent + "f100\n",
		indent + "[101] f101\n", "small\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "tiny") {
		t.Errorf("a call of less than a thousandth is in\n%s", b.String())
	}
}

// TestManyStatesOfGoroutines lists the states of goroutines: eight, and others.
func TestManyStatesOfGoroutines(t *testing.T) {
	for count, others := range map[int]bool{8: false, 9: true} {
		in := ""
		for n := range count {
			in += fmt.Sprintf("goroutine %d [state%d]:\nmain.f(0x1)\n\t/a.go:3 +0x5\n\n", n+1, n)
		}
		tree, err := Read(never, strings.NewReader(in), "f", Options{})
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(tree.Notes, "\n")
		if !strings.Contains(notes, "state0 (1), state1 (1)") ||
			strings.Contains(notes, ", and others") != others ||
			strings.Contains(notes, "state7 (1)") != true || strings.Contains(notes, "state8") {
			t.Errorf("%d states: %s", count, notes)
		}
	}
}

// TestSeveralV8Profiles reads trace events with three profiles: two have samples, and that with
// more of them is read, with a note.
func TestSeveralV8Profiles(t *testing.T) {
	event := func(name, id, data string) string {
		return fmt.Sprintf(`{"ph":"P","name":%q,"id":%q,"pid":1,"tid":1,"args":{"data":{%s}}}`, name,
			id, data)
	}
	profile := func(id, function string, samples string) []string {
		nodes := `"cpuProfile":{"nodes":[{"id":1,"callFrame":{"functionName":"(root)"}},` +
			`{"id":2,"parent":1,"callFrame":{"functionName":"` + function + `"}}],"samples":[` +
			samples + `]}`
		deltas := strings.ReplaceAll(samples, "2", "1000")
		return []string{
			event("Profile", id, `"startTime":0`),
			event("ProfileChunk", id, nodes+`,"timeDeltas":[`+deltas+`]`),
		}
	}
	read := func(profiles ...[]string) *Tree {
		t.Helper()
		var all []string
		for _, p := range profiles {
			all = append(all, p...)
		}
		in := `{"traceEvents":[` + strings.Join(all, ",") + `]}`
		tree, err := Read(never, strings.NewReader(in), "f", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	few, many, none := profile("1", "few", "2"), profile("2", "many", "2,2,2"), profile("3", "no", "")
	tree := read(few, many, none)
	notes := strings.Join(tree.Notes, "\n")
	if !strings.Contains(notes, "there are 2 profiles: this is the one with the most samples") {
		t.Errorf("notes %q", notes)
	}
	named := func(tree *Tree, name string) bool {
		for n := range tree.Len() {
			if tree.Name(n) == name {
				return true
			}
		}
		return false
	}
	if !named(tree, "many") || named(tree, "few") {
		t.Error("the profile with the fewer samples was read")
	}
	if notes := strings.Join(read(few, none).Notes, "\n"); strings.Contains(notes, "profiles") {
		t.Errorf("with samples in one of them: notes %q", notes)
	}
}
