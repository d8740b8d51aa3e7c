package symbol

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"culprit/kernel"
)

// Functions are named by their offset in the file, as debug/elf finds them, and by no file that has
// another build ID.
func TestStoredFunctions(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read
	pc := reflect.ValueOf(TestStoredFunctions).Pointer()
	want := runtime.FuncForPC(pc).Name()
	at := uint64(pc)
	if f.Type != elf.ET_EXEC {
		t.Fatal("the test program has no fixed addresses")
	}
	i := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_LOAD && at >= p.Vaddr && at < p.Vaddr+p.Filesz
	})
	if i < 0 {
		t.Fatal("the function is in no segment")
	}
	offset := at - f.Progs[i].Vaddr + f.Progs[i].Off
	s := NewStored(kernel.Root{}, nil)
	names, err := s.Functions(self, "", []uint64{1 << 40, offset + 1, offset})
	if err != nil || len(names) != 3 || len(names[0]) != 0 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, got := range names[1:] {
		if len(got) == 0 || got[len(got)-1] != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
	if _, err := s.Functions(self, "0123456789", []uint64{offset}); err == nil ||
		!strings.Contains(err.Error(), "another file than the recorded one") {
		t.Errorf("%v", err)
	}
}

// A file that is no program, is not there, blocks or has no absolute path names nothing and says
// why.
func TestStoredFiles(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := NewStored(kernel.Root{}, nil)
	for name, want := range map[string]error{
		text: nil, filepath.Join(dir, "missing"): fs.ErrNotExist, dir: nil, "/dev/zero": nil,
		"[vdso]": fs.ErrNotExist, "tiny": fs.ErrNotExist,
	} {
		if _, err := s.Functions(name, "", []uint64{64}); err == nil ||
			want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Addresses of the kernel are moved by the distance of _text then and now. Another kernel is
// refused by its build ID, and without one by its release.
func TestStoredKernel(t *testing.T) {
	root := kernel.Root{}
	s := NewStored(root, nil)
	text, _, ok := s.kernel.Lookup("", "_text")
	at, _, ok2 := s.kernel.Lookup("", "vprintk")
	if !ok || !ok2 {
		t.Skip("needs: cap:syslog")
	}
	release := root.Release()
	const moved = 0x2000000
	names, modules, err := s.KernelFunctions("", release, text+moved, []uint64{at + moved + 1})
	if err != nil || names[0] != "vprintk" || modules[0] != vmlinux {
		t.Errorf("%q in %q, %v", names, modules, err)
	}
	for _, other := range [][2]string{{"0123", release}, {"", "2.6.18"}, {"", ""}} {
		if _, _, err := s.KernelFunctions(other[0], other[1], text, nil); err == nil ||
			!strings.Contains(err.Error(), "another kernel") {
			t.Errorf("%q: %v", other, err)
		}
	}
	if _, _, err := s.KernelFunctions("", release, 0, nil); err == nil {
		t.Error("without _text")
	}
}
