package symbol

import (
	"bytes"
	"culprit/heapbound"
	"debug/elf"
	"os"
	"path/filepath"
	"testing"
)

// HasNotes agrees with debug/elf on the programs of this machine.
func TestHasNotes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{self}
	for _, pattern := range []string{"/usr/bin/*", "/usr/lib/*/*.so*", "/usr/lib/jvm/*/lib/server/*"} {
		found, _ := filepath.Glob(pattern)
		files = append(files, found...)
	}
	with := 0
	for _, name := range files {
		f, err := elf.Open(name)
		if err != nil {
			if HasNotes(name) {
				t.Errorf("%s has notes, and is no program: %v", name, err)
			}
			continue
		}
		want := f.Section(".note.stapsdt") != nil || f.Section(".note.usdt") != nil
		f.Close()
		if got := HasNotes(name); got != want {
			t.Errorf("%s has notes: %v, want %v", name, got, want)
		}
		if want {
			with++
		}
	}
	t.Logf("%d of %d files have notes", with, len(files))
}

func FuzzSectionNames(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(self[:64])
	f.Add([]byte("\x7fELF\x01\x02" + string(make([]byte, 100))))
	f.Add(bytes.Repeat([]byte{0xff}, 128))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if names := sectionNames(bytes.NewReader(b)); len(names) > mostSectionNames {
			t.Errorf("%d bytes of names", len(names))
		}
	})
}
