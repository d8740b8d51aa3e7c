package profile

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"runtime/pprof"
	"strings"
	"testing"

	"culprit/heapbound"
)

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func unpacked(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRoundTrip checks that profiles written for other tools are read back unchanged.
func TestRoundTrip(t *testing.T) {
	for _, text := range []string{"a;b;c 3\na;b 2\nd 7\n", "x;x;x 1\nx;y;x 5\n", "\"q\" <b>;é 1\n"} {
		tree := profileOf(t, text)
		var proto, scope bytes.Buffer
		if err := WritePProf(&proto, tree); err != nil {
			t.Fatal(err)
		}
		if err := WriteSpeedscope(&scope, tree, "a name"); err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string][]byte{
			"pprof":              proto.Bytes(),
			"pprof, not packed":  unpacked(t, proto.Bytes()),
			"speedscope":         scope.Bytes(),
			"speedscope, packed": packed(t, scope.Bytes()),
			"folded, packed":     packed(t, []byte(text)),
		} {
			back, err := Read(never, bytes.NewReader(b), "f", Options{})
			if err != nil {
				t.Fatalf("%s of %q: %v", name, text, err)
			}
			checkTree(t, back)
			if got := folded(t, back); got != folded(t, tree) {
				t.Errorf("%s: %q became %q", name, text, got)
			}
		}
	}
}

func TestPProfKeepsKinds(t *testing.T) {
	tree := profileOfPerf(t)
	var b bytes.Buffer
	if err := WritePProf(&b, tree); err != nil {
		t.Fatal(err)
	}
	back, err := Read(never, &b, "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]Kind{}
	for _, f := range back.Functions {
		kinds[f.Name] = f.Kind
	}
	if kinds["native_safe_halt"] != Kernel || kinds["v8::F"] != Code {
		t.Errorf("kinds %v", kinds)
	}
	if back.Unit != "cycles" {
		t.Errorf("unit %s", back.Unit)
	}
}

func profileOfPerf(t *testing.T) *Tree {
	t.Helper()
	tree, err := Read(never, strings.NewReader(perfText), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// TestPProfOfGo reads a profile of Go's runtime: goroutines by stack, including its own.
func TestPProfOfGo(t *testing.T) {
	var b bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&b, 0); err != nil {
		t.Fatal(err)
	}
	tree, err := Read(never, &b, "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkTree(t, tree)
	if s := folded(t, tree); !strings.Contains(s,
		"testing.tRunner;culprit/profile.TestPProfOfGo;runtime/pprof.(*Profile).WriteTo") {
		t.Errorf("no such stack in\n%s", s)
	}
	cut := packed(t, []byte{0x0a, 0x04, 0x08, 0x01, 0x10, 0x02, 0x12, 0x7f})
	if _, err := Read(never, bytes.NewReader(cut), "f", Options{}); err == nil ||
		!strings.Contains(err.Error(), "f: byte 6: pprof") &&
			!strings.Contains(err.Error(), "f:byte 6: pprof") {
		t.Errorf("a cut profile: %v", err)
	}
}

const scopeText = `{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"main"},{"name":"f","file":"f.c","line":3}]},
"profiles":[{"type":"evented","name":"p","unit":"milliseconds","startValue":0,"endValue":10,"events":[
{"type":"O","frame":0,"at":0},{"type":"O","frame":1,"at":2},{"type":"C","frame":1,"at":7},{"type":"C","frame":0,"at":10}]},
{"type":"sampled","name":"q","unit":"bytes","startValue":0,"endValue":3,"samples":[[0]],"weights":[3]}]}`

func TestSpeedscope(t *testing.T) {
	tree, err := Read(never, strings.NewReader(scopeText), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := folded(t, tree); got != "main 5\nmain;f 5\n" || tree.Unit != "milliseconds" ||
		len(tree.Notes) != 1 {
		t.Errorf("%q of %s, notes %q", got, tree.Unit, tree.Notes)
	}
	for in, want := range map[string]string{
		`{"profiles":[]}`: "it has no profiles",
		`{"a":1`:          "JSON",
		`{"shared":{"frames":[]},"profiles":[{"type":"sampled","samples":[[0]],"weights":[1]}]}`: "sample 1 names frame 0 of 0",
		strings.Replace(scopeText, `"at":7`, `"at":1`, 1):                                        "goes back in time",
		strings.Replace(scopeText, `"C","frame":1`, `"C","frame":0`, 1):                          "closes what is not open",
	} {
		_, err := Read(never, strings.NewReader(in), "f", Options{})
		var p *ParseError
		if !errors.As(err, &p) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func FuzzPProf(f *testing.F) {
	for _, text := range []string{"a;b;c 3\na;b 2\nd 7\n", "x 1\n"} {
		tree, err := readAs(Folded, text, Options{})
		if err != nil {
			f.Fatal(err)
		}
		var b bytes.Buffer
		if err := WritePProf(&b, tree); err != nil {
			f.Fatal(err)
		}
		z, err := gzip.NewReader(&b)
		if err != nil {
			f.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(plain)
	}
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, in []byte) {
		if tree, err := readPProf(bytes.NewReader(in), Options{}); err == nil {
			checkTree(t, tree)
			checkWriters(t, tree)
		}
	})
}

func FuzzSpeedscope(f *testing.F) {
	f.Add(scopeText)
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, in string) {
		if tree, err := readSpeedscope(strings.NewReader(in), Options{}); err == nil {
			checkTree(t, tree)
			checkWriters(t, tree)
		}
	})
}
