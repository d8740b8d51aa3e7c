package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// TestNotice: NOTICE lists what is linked and bundled now, in the same versions, and the license of
// each module.
func TestNotice(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "NOTICE"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := components(root)
	if err != nil {
		t.Fatal(err)
	}
	have := listed(string(text))
	for i := range all {
		c := &all[i]
		if !have[c.line()] {
			t.Errorf("NOTICE lacks %q: run go run ./tools/licenses", c.line())
		}
		delete(have, c.line())
		if c.kind == "npm" {
			continue // their files may not be installed
		}
		if err := c.read(); err != nil {
			t.Error(err)
			continue
		}
		for _, license := range c.texts {
			if !strings.Contains(string(text), license) {
				t.Errorf("NOTICE lacks a license of %s: run go run ./tools/licenses", c.name)
			}
		}
		if c.id() == "" {
			t.Errorf("the license of %s is not known: see component.id", c.name)
		}
	}
	for line := range have {
		t.Errorf("NOTICE has %q, which is not linked: run go run ./tools/licenses", line)
	}
}

func TestNoticeOfComponents(t *testing.T) {
	all := []component{
		{name: "b", version: "v2", kind: "golang", texts: []string{"one", "two"}},
		{name: "a", version: "1", kind: "npm", texts: []string{"two"}},
	}
	got := notice(all)
	if strings.Count(got, "two\n") != 1 || !strings.Contains(got, "* golang b v2\n* npm a 1\n\ntwo") {
		t.Errorf("%s", got)
	}
	if have := listed(got); len(have) != 2 || !have["* npm a 1"] {
		t.Errorf("%v", have)
	}
}

// TestSBOM prints the bill of materials of this test, as of a program.
func TestSBOM(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := printSBOM(&out, root, program, ""); err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(out.Bytes(), &b); err != nil {
		t.Fatal(err)
	}
	for _, m := range b.Components {
		if m.Name == "std" {
			if len(m.Licenses) != 1 || m.Licenses[0].License.ID != "BSD-3-Clause" {
				t.Errorf("std: %+v", m)
			}
			return
		}
	}
	t.Errorf("Go's library is not in %s", out.Bytes())
}
