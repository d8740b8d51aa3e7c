package cases

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// version2Stories returns those with control groups. Without cpu-starved and cpu-shared: one thread
// of QEMU plays all CPUs, so their loads do not get the CPUs that they should.
func version2Stories() []string {
	return []string{
		"memory-high", "memory-high-roomy", "memory-nested", "memory-nested-wide",
		"memory-pressure", "memory-roomy", "cgroup-throttled", "cgroup-roomy",
		"io-limit", "io-limit-operations", "io-busy", "pids-limit", "pids-busy",
	}
}

// TestVersion2Stories plays stories about control groups in an emulated machine (vm/run), which
// has version 2 of them only, as most machines of today. CULPRIT_EMULATED lists the stories, or is
// "all"; the default is a quarter that changes daily.
func TestVersion2Stories(t *testing.T) {
	if quick() {
		return
	}
	only := os.Getenv(envEmulated)
	var play []string
	for i, name := range version2Stories() {
		quarter := only == "" && i%4 == time.Now().UTC().YearDay()%4
		if quarter || only == "all" || slices.Contains(strings.Split(only, ","), name) {
			play = append(play, name)
		}
	}
	if len(play) == 0 {
		return
	}
	inside := []string{"ip", "tc", "ethtool", "perl", "mkfs.ext4"}
	needTools(t, append(inside, "qemu-system-x86_64", "busybox", "cpio", "zstd")...)
	const series = "6.12"
	if !haveKernel(series) {
		t.Skip("needs: tool kernel-" + series + " (vm/kernels fetches it)")
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	if err := toolTree(tree, inside...); err != nil {
		t.Fatal(err)
	}
	stories := filepath.Join(dir, "stories")
	build := exec.Command("go", "test", "-trimpath", "-c", "-o", stories, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	script := filepath.Join(dir, "play")
	text := fmt.Sprintf(`#!/bin/busybox sh
mkfs.ext4 -q /dev/vda && mkdir -p /var/tmp && mount /dev/vda /var/tmp || exit 1
CULPRIT_BIN=$PWD/%s exec ./stories -test.v -test.timeout 0 -test.parallel 1 -test.run 'TestStories/^(%s)$'
`, filepath.Base(needProgram(t)), strings.Join(play, "|"))
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("vm/run", "-k", series, "-d", "1024", "-t", "2400", "-r", tree, "-m",
		"virtio_pci virtio_blk ext4 crc32c_generic loop tcp_diag", "-f", needProgram(t), "-f",
		stories, script)
	out, err := run.CombinedOutput()
	results, failed := testResults(out)
	if failed != "" {
		t.Error(failed)
	} else if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, name := range play {
		if got := results["TestStories/"+name]; got != "PASS" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// toolTree copies programs of this machine and the libraries that they need into a tree of its
// own, at the same places.
func toolTree(root string, names ...string) error {
	var files []string
	for _, name := range names {
		file, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	have := map[string]bool{}
	for len(files) > 0 {
		file := files[0]
		files = files[1:]
		if have[file] {
			continue
		}
		have[file] = true
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, file), b, 0o755); err != nil {
			return err
		}
		more, err := needed(file)
		if err != nil {
			return fmt.Errorf("libraries of %s: %w", file, err)
		}
		files = append(files, more...)
	}
	return nil
}

// needed returns the loader and the libraries of a program or a library.
func needed(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	if interp := f.Section(".interp"); interp != nil {
		b, err := interp.Data()
		if err != nil {
			return nil, err
		}
		out = append(out, strings.TrimRight(string(b), "\x00"))
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, name := range libraries {
		path, err := library(name)
		if err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// library returns the path of a shared library of this machine.
func library(name string) (string, error) {
	for _, pattern := range []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64",
		"/usr/lib64", "/lib", "/usr/lib"} {
		dirs, _ := filepath.Glob(pattern)
		for _, dir := range dirs {
			file := filepath.Join(dir, name)
			if _, err := os.Stat(file); err == nil {
				return file, nil
			}
		}
	}
	return "", errors.New(name + " is not in the usual folders")
}
