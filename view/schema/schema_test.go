package schema

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/schemas") // table: set by the flag package

const directory = "../../docs/schemas"

// docs/schemas has the schemas of this program, and no others.
func TestFiles(t *testing.T) {
	var want []string
	for _, s := range All() {
		name := s.Name + ".json"
		want = append(want, name)
		path := filepath.Join(directory, name)
		if *update {
			if err := os.WriteFile(path, s.JSON(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != string(s.JSON()) {
			t.Errorf("%s is not what the program has (go test ./view/schema -update): %v", name, err)
		}
	}
	files, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(want, f.Name()) {
			t.Errorf("%s has no schema in the program", f.Name())
		}
	}
}

// A schema refuses what its command does not print.
func TestRefuses(t *testing.T) {
	const table = `{"format":1,"view":"mem","start":"2026-01-01T00:00:00Z","seconds":1,` +
		`"rows":[],"loss":[],"notes":[]}`
	for _, tt := range []struct{ name, document string }{
		{"mem", strings.Replace(table, `"format":1,`, "", 1)},
		{"mem", strings.Replace(table, `"format":1`, `"format":2`, 1)},
		{"mem", strings.Replace(table, `"mem"`, `"nic"`, 1)},
		{"mem", strings.Replace(table, `"rows":[]`, `"rows":[{"no_such_column":1}]`, 1)},
		{"mem", strings.Replace(table, `"rows":[]`, `"rows":{}`, 1)},
		{"nic", strings.Replace(table, `"loss":[]`, `"loss":[{"reason":"x"}]`, 1)},
		{"report", `{"format":1,"findings":[]}`},
		{"version", `{"format":1,"version":1,"os":"","arch":"","go":""}`},
	} {
		s, ok := Find(tt.name)
		if !ok {
			t.Fatal(tt.name)
		}
		r, err := s.Resolved()
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		var v any
		if err := json.Unmarshal([]byte(tt.document), &v); err != nil {
			t.Fatal(err)
		}
		if r.Validate(v) == nil {
			t.Errorf("%s accepts %s", tt.name, tt.document)
		}
	}
	if s, _ := Find("mem"); s.Name == "" {
		t.Error("mem is missing")
	} else if r, err := s.Resolved(); err != nil {
		t.Error(err)
	} else {
		var v any
		if err := json.Unmarshal([]byte(table), &v); err != nil || r.Validate(v) != nil {
			t.Errorf("the table without rows is refused: %v", r.Validate(v))
		}
	}
}
