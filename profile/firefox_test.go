package profile

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// A profile written for Firefox is read back as it was: processes are threads.
func TestFirefoxRoundTrip(t *testing.T) {
	b := NewBuilder()
	app, other := b.Function([]byte("app"), nil, Process), b.Function([]byte("other"), nil, Process)
	main, read := b.Function([]byte("main"), []byte("app.so"), Code),
		b.Function([]byte("vfs_read"), []byte("ext4"), Kernel)
	b.tree.Functions[main].File, b.tree.Functions[main].Line = "main.c", 12
	b.Stack([]uint32{app, main, read}, 3e6)
	b.Stack([]uint32{app, main}, 1.5e6)
	b.Stack([]uint32{other, read, main}, 7e6)
	b.Stack([]uint32{read}, 11e6)
	tree := b.Tree()
	tree.Unit = "ns"
	var out bytes.Buffer
	if err := WriteFirefox(&out, tree, "a <b>"); err != nil {
		t.Fatal(err)
	}
	if !json.Valid(out.Bytes()) {
		t.Fatalf("no JSON: %s", out.String())
	}
	back, err := Read(never, bytes.NewReader(out.Bytes()), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "a <b>;vfs_read 11\napp;main 1.5\napp;main;vfs_read 3\nother;vfs_read;main 7\n"
	if got := folded(t, back); got != want || back.Unit != "ms" {
		t.Errorf("got %s\n%swant\n%s", back.Unit, got, want)
	}
	for _, f := range back.Functions {
		if f.Name == "main" && (f.File != "main.c" || f.Line != 12) {
			t.Errorf("%+v", f)
		}
	}
	checkColumns(t, out.Bytes())
}

// checkColumns checks that all columns of a table have its length.
func checkColumns(t *testing.T, in []byte) {
	t.Helper()
	var f struct {
		Shared  map[string]json.RawMessage
		Threads []map[string]json.RawMessage
	}
	if err := json.Unmarshal(in, &f); err != nil {
		t.Fatal(err)
	}
	tables := f.Shared
	delete(tables, "stringArray")
	for _, thread := range f.Threads {
		tables[string(thread["name"])] = thread["samples"]
	}
	for name, raw := range tables {
		var columns map[string]json.RawMessage
		if err := json.Unmarshal(raw, &columns); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		length := 0
		if err := json.Unmarshal(columns["length"], &length); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for column, raw := range columns {
			var list []any
			if json.Unmarshal(raw, &list) == nil && len(list) != length {
				t.Errorf("%s.%s has %d values, want %d", name, column, len(list), length)
			}
		}
	}
}

// Since version 58 files are sources, since 66 callers are distances.
func TestFirefoxNewestVersion(t *testing.T) {
	in := `{"meta":{"preprocessedProfileVersion":70,"categories":[]},"libs":[],"shared":{
		"stringArray":["main","work","a.js"],"stackTable":{"frame":[0,1,1],"prefixOffset":[0,1,0],"length":3},
		"frameTable":{"func":[0,1],"lib":[-1,-1],"length":2},
		"funcTable":{"name":[0,1],"source":[0,null],"lineNumber":[4,null],"length":2},
		"sources":{"id":[null],"filename":[2],"length":1}},
		"threads":[{"name":"t","samples":{"stack":[1,1,2,null],"weight":[1,2,4,8],"length":4}}]}`
	tree, err := Read(never, strings.NewReader(in), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := folded(t, tree), "main;work 3\nwork 4\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, f := range tree.Functions {
		if f.Name == "main" && (f.File != "a.js" || f.Line != 4) {
			t.Errorf("%+v", f)
		}
	}
}

func BenchmarkFirefox(b *testing.B) {
	t, err := Read(never, bytes.NewReader(distinct(100_000, 24)), "", Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := WriteFirefox(io.Discard, t, ""); err != nil {
			b.Fatal(err)
		}
	}
}
