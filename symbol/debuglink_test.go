package symbol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
)

// linked builds a program with the function inner70, strips it and makes it name its debug file,
// which has the path debug below the directory of the program. It returns the path of the program
// and the offset of the function. options are the linker's.
func linked(t *testing.T, debug string, options ...string) (program string, offset uint64) {
	t.Helper()
	for _, tool := range []string{"gcc", "objcopy", "strip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	const code = "static int __attribute__((noinline)) inner70(int n) { return n*70; }\n" +
		"#include <stdio.h>\n" +
		"int main(int n, char **v) { if (n > 1) { puts(\"0 x\\nready\"); fflush(stdout); getchar(); }\n" +
		"return inner70(n); }\n"
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	run("gcc", append([]string{"-O1", "-g", "-o", "a", "a.c"}, options...)...)
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(debug)), 0o700); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "a")
	offset = offsetOf(t, program, "inner70")
	run("objcopy", "--only-keep-debug", "a", debug)
	run("strip", "--strip-all", "a")
	run("objcopy", "--add-gnu-debuglink="+debug, "a")
	return program, offset
}

// offsetOf returns the first offset of a file at which there is a function.
func offsetOf(t *testing.T, program, function string) uint64 {
	t.Helper()
	var all []uint64
	for o := uint64(0x1000); o < 0x1400; o++ {
		all = append(all, o)
	}
	names, err := NewStored(kernel.Root{}, nil).Functions(program, "", all)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(names, func(n []string) bool { return slices.Contains(n, function) })
	if at < 0 {
		t.Fatalf("no %s in %s", function, program)
	}
	return all[at]
}

// nameAt returns the function at an offset of a program.
func nameAt(t *testing.T, program string, offset uint64) string {
	t.Helper()
	names, err := NewStored(kernel.Root{}, nil).Functions(program, "", []uint64{offset})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names[0], " ")
}

// A stripped program has the names of the debug file that it names, if that has its build ID, or
// without one its CRC.
func TestDebugLink(t *testing.T) {
	const noID = "-Wl,--build-id=none"
	for _, tt := range []struct {
		name, debug string
		options     []string
		change      bool // one byte of the debug file
		want        bool
	}{
		{"beside", "a.debug", []string{noID}, false, true},
		{"below .debug", ".debug/a", []string{noID}, false, true},
		{"another CRC", "a.debug", []string{noID}, true, false},
		{"build ID", ".debug/a.debug", []string{"-Wl,--build-id=0x12345678"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program, offset := linked(t, tt.debug, tt.options...)
			if tt.change {
				f, err := os.OpenFile(filepath.Join(filepath.Dir(program), tt.debug), os.O_RDWR, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				if _, err := f.WriteAt([]byte{1}, 9); err != nil { // e_ident's padding
					t.Fatal(err)
				}
			}
			if got := nameAt(t, program, offset); (got == "inner70") != tt.want {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("another build ID", func(t *testing.T) {
		program, offset := linked(t, "a.debug", "-Wl,--build-id=0x12345678")
		other, _ := linked(t, "a.debug", "-Wl,--build-id=0x12345679")
		b, err := os.ReadFile(filepath.Join(filepath.Dir(other), "a.debug"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(filepath.Dir(program), "a.debug"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := nameAt(t, program, offset); got == "inner70" {
			t.Error("the names are of another file")
		}
	})
}

// A running process has the names of the debug file that its program names.
func TestDebugLinkOfProcess(t *testing.T) {
	program, offset := linked(t, ".debug/a", "-Wl,--build-id=none")
	c := start(t, exec.Command(program, "wait"))
	ps := NewProcesses(kernel.Root{})
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := ParseMaps(maps)
	for _, m := range all {
		if m.Path != program || offset < m.Offset || offset-m.Offset >= m.End-m.Start {
			continue
		}
		if got := ps.Place(c.cmd.Process.Pid, m.Start+offset-m.Offset); got.Name != "inner70" {
			t.Errorf("%+v", got)
		}
		return
	}
	t.Errorf("no mapping of %s", program)
}

// The places of a debug file are those of gdb, without the file itself.
func TestDebugLinkPlaces(t *testing.T) {
	const byID = "/usr/lib/debug/.build-id/12/3456.debug"
	for _, tt := range []struct {
		name, id, link, file string
		want                 []string
	}{
		{"ID alone", "123456", "", "/usr/bin/a", []string{byID}},
		{"both", "123456", "a.debug", "/usr/bin/a", []string{byID, "/usr/bin/a.debug", "/usr/bin/.debug/a.debug", "/usr/lib/debug/usr/bin/a.debug"}},
		{"its own name", "", "a", "/usr/bin/a", []string{"/usr/bin/.debug/a", "/usr/lib/debug/usr/bin/a"}},
		{"no path", "", "a", "[vdso]", nil},
		{"nothing", "", "", "/usr/bin/a", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (DebugLink{Name: tt.link}).places(tt.id, tt.file)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A name that is no base name is none.
func TestDebugLinkValid(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "a.debug": true, "ä": true, ".": false, "..": false, "../a": false, "/a": false,
		"a\x1b[2J": false, "a\xff": false, strings.Repeat("a", MostLink+1): false,
	} {
		if got := (DebugLink{Name: name}).Valid(); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// Hostile sections make neither an invalid name nor a panic.
func FuzzDebugLink(f *testing.F) {
	section := append([]byte("a.debug\x00"), 1, 2, 3, 4)
	f.Add(section)
	f.Add([]byte("../../../../etc/x\x00\x00\x00\x01\x02\x03\x04"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		h := headerWithLink(b)
		l := h.debugLink()
		if !l.Valid() || l.Name != "" && !bytes.HasPrefix(b, []byte(l.Name+"\x00")) {
			t.Errorf("%+v", l)
		}
		if bytes.Equal(b, section) && (l.Name != "a.debug" || l.CRC != binary.LittleEndian.Uint32(b[8:])) {
			t.Errorf("%+v", l)
		}
	})
}

// headerWithLink returns a header of a file whose only section is .gnu_debuglink.
func headerWithLink(b []byte) *header {
	return &header{r: bytes.NewReader(b), size: uint64(len(b)), section: []byte(".gnu_debuglink\x00"),
		secs: []section{{kind: 1, size: uint64(len(b))}}}
}

// What a section unpacked to is unpacked once, and the sum of what is kept is bounded.
func TestMiniCache(t *testing.T) {
	program, _ := stripped(t, true)
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &OwnReader{}
	ask := func() (names int) {
		q := &Request{Op: OpNames, File: f, Addrs: addrsFrom(0x1000, 0x400), Limit: 20e9}
		a, err := r.Read(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range a.Names {
			if n.Name == "inner70" {
				names++
			}
		}
		return names
	}
	first := ask()
	key := keyOf(f)
	b, known := r.minis.get(key)
	if !known || len(b) == 0 || r.minis.bytes != len(b) || first == 0 {
		t.Fatalf("%d bytes are kept, known %v; %d names", len(b), known, first)
	}
	if again := ask(); again != first {
		t.Errorf("%d names at first, %d from the cache", first, again)
	}
	r.minis.files[key] = nil // what is kept counts
	if again := ask(); again != 0 {
		t.Error("the section was unpacked again")
	}
	c := &miniCache{}
	for i := range uint64(50) {
		c.put(fileKey{ino: i}, make([]byte, 1<<20))
	}
	if _, old := c.get(fileKey{ino: 0}); old || c.bytes > mostMini || len(c.files) != mostMini>>20 {
		t.Errorf("%d files of %d bytes are kept", len(c.files), c.bytes)
	}
	if _, last := c.get(fileKey{ino: 49}); !last {
		t.Error("the last file is not kept")
	}
}

func addrsFrom(from uint64, n int) (out []uint64) {
	for i := range n {
		out = append(out, from+uint64(i))
	}
	return out
}
