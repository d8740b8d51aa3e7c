package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// stage makes the tree of files below dir/prefix that tarball and packages share: the program, its
// unit, manual pages, completions, licenses, and the files for Grafana, Prometheus and Kubernetes.
func (r *release) stage(dir, prefix, program string) error {
	top := filepath.Join(dir, prefix)
	unit, err := os.ReadFile(filepath.Join(r.root, "packaging/culprit.service"))
	if err != nil {
		return err
	}
	unit = bytes.ReplaceAll(unit, []byte("@PREFIX@"), []byte("/"+prefix))
	if err := write(filepath.Join(top, "lib/systemd/system/culprit.service"), unit, 0o644); err != nil {
		return err
	}
	for _, f := range []struct{ from, to string }{
		{"packaging/culprit.sysusers", "lib/sysusers.d/culprit.conf"},
		{"packaging/culprit.tmpfiles", "lib/tmpfiles.d/culprit.conf"},
		{"NOTICE", "share/doc/culprit/NOTICE"},
		{"README.md", "share/doc/culprit/README.md"},
	} {
		if err := copyFile(filepath.Join(r.root, f.from), filepath.Join(top, f.to), 0o644); err != nil {
			return err
		}
	}
	if err := copyFile(program, filepath.Join(top, "bin/culprit"), 0o755); err != nil {
		return err
	}
	for _, d := range []string{"grafana", "prometheus", "kubernetes"} {
		err := copyTree(filepath.Join(r.root, "packaging", d), filepath.Join(top, "share/culprit", d))
		if err != nil {
			return err
		}
	}
	return r.generated(top)
}

// generated writes what the program prints about itself: manual pages and completions.
func (r *release) generated(top string) error {
	program, err := r.own()
	if err != nil {
		return err
	}
	man := filepath.Join(top, "share/man/man1")
	if err := os.MkdirAll(man, 0o755); err != nil {
		return err
	}
	if _, err := r.output(program, "man", man); err != nil {
		return err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return err
	}
	for _, p := range pages {
		path := filepath.Join(man, p.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := write(path+".gz", packed(text), 0o644); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	for shell, path := range map[string]string{
		"bash": "share/bash-completion/completions/culprit",
		"zsh":  "share/zsh/vendor-completions/_culprit",
		"fish": "share/fish/vendor_completions.d/culprit.fish",
	} {
		text, err := r.output(program, "completion", shell)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(top, path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// own returns a program that runs on this machine, built if none of the architectures is its own.
func (r *release) own() (string, error) {
	program := r.program(runtime.GOARCH)
	if r.arches[0] == runtime.GOARCH {
		return program, nil // built before any tree
	}
	return program, r.compile(runtime.GOARCH, program)
}

// packed compresses text as gzip -9n does: without a name and a time.
func packed(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = z.Write(text)                                  // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

func write(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

func copyFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, data, mode)
}

// copyTree copies the files of a directory, except tests.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(from, path)
		if err != nil || strings.Contains(d.Name(), "test") {
			return err
		}
		return copyFile(path, filepath.Join(to, below), 0o644)
	})
}

// secret is the file that may contain secrets, in the packages.
const secret = "etc/default/culprit"

// setTimes sets one modification time for all files below dir, and modes that do not depend on the
// umask: 0755 for programs and directories, 0600 for secret, 0644 for others.
func setTimes(dir string, at time.Time) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() || filepath.Base(filepath.Dir(path)) == "bin" {
			mode = 0o755
		}
		if path == filepath.Join(dir, secret) {
			mode = 0o600
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		if err := os.Chtimes(path, at, at); err != nil {
			return fmt.Errorf("set the time: %w", err)
		}
		return nil
	})
}
