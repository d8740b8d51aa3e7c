package program

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The objects are compiled from the C files beside them.
func TestObjectsAreCurrent(t *testing.T) {
	if _, err := exec.LookPath("clang-14"); err != nil {
		t.Skip("needs: tool clang-14")
	}
	if _, err := exec.LookPath("llvm-strip-14"); err != nil {
		t.Skip("needs: tool llvm-strip-14")
	}
	if _, err := os.Stat("/usr/include/bpf/bpf_helpers.h"); err != nil {
		t.Skip("needs: tool clang-14 with libbpf-dev")
	}
	dir := t.TempDir()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := 0
	for line := range strings.Lines(string(text)) {
		args, ok := strings.CutPrefix(line, "//go:generate ./compile ")
		if !ok {
			continue
		}
		f := strings.Fields(args)
		cmd := exec.Command("./compile", f[0], f[1], dir)
		cmd.Env = append(os.Environ(), "GOPACKAGE=program")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("compile %s: %v\n%s", f[1], err, out)
		}
		compiled++
	}
	made, err := filepath.Glob(dir + "/*_bpfel.*")
	if err != nil || len(made) != 2*compiled || compiled == 0 {
		t.Fatalf("%d files of %d programs, %v", len(made), compiled, err)
	}
	for _, path := range made {
		name := filepath.Base(path)
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its source compiles to: run make bpf (%v)", name, err)
		}
	}
}
