package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDirectory(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		asked string
		uid   int
		env   map[string]string
		want  string
	}{
		{"", 0, map[string]string{"HOME": "/root"}, "/var/lib/culprit"},
		{"", 1000, map[string]string{"HOME": "/h/u"}, "/h/u/.local/state/culprit"},
		{"", 1000, map[string]string{"HOME": "/h/u", "XDG_STATE_HOME": "/s"}, "/s/culprit"},
		{"", 1000, map[string]string{"HOME": "/h/u", "XDG_STATE_HOME": "s"}, "/h/u/.local/state/culprit"},
		{"", 0, map[string]string{"CULPRIT_DIR": "/d"}, "/d"},
		{"x", 0, map[string]string{"CULPRIT_DIR": "/d"}, filepath.Join(here, "x")},
		{"", 1000, nil, ""},
	} {
		got, err := recordDirectory(c.asked, c.uid, func(k string) string { return c.env[k] })
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
