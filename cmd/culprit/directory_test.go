package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"culprit/trusted"
)

// TestDirectory checks the precedence of --dir, the environment and the user.
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

// A server trusts none of its files when it is a link or others may write to it.
func TestCheckDirectory(t *testing.T) {
	for _, name := range []string{
		".", "token", "tokens", "tokens.lock", "archive", "archive/000002.log",
	} {
		for how, spoil := range map[string]func(path string) error{
			"writable": func(path string) error { return os.Chmod(path, 0o777) },
			"a link": func(path string) error {
				return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
			},
		} {
			if name == "." && how == "a link" {
				continue
			}
			t.Run(name+" is "+how, func(t *testing.T) {
				dir := t.TempDir()
				err := os.Mkdir(dir+"/archive", 0o700)
				for _, file := range []string{
					"token", "tokens", "tokens.lock", "archive/000002.log",
				} {
					err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
				}
				if err := errors.Join(err, checkDirectory(dir)); err != nil {
					t.Fatal(err)
				}
				if err := spoil(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				var e *trusted.Error
				if err := checkDirectory(dir); !errors.As(err, &e) ||
					e.Path != filepath.Join(dir, name) {
					t.Errorf("the error is %v", err)
				}
			})
		}
	}
}
