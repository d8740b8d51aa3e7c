package symbol

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"culprit/kernel"
)

// stripped builds a program with the functions inner70 and outer, strips it, and returns its path
// and the offsets of both functions. With mini their names are in .gnu_debugdata, made as rpm's
// find-debuginfo.sh makes it.
func stripped(t *testing.T, mini bool) (program string, offsets []uint64) {
	t.Helper()
	for _, tool := range []string{"gcc", "objcopy", "strip", "xz"} {
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
		"int __attribute__((noinline)) outer(int n) { return inner70(n)+1; }\n" +
		"int main(int n, char **v) { return outer(n); }\n"
	if err := os.WriteFile(filepath.Join(dir, "a.c"), []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	run("gcc", "-O1", "-o", "a", "a.c")
	program = filepath.Join(dir, "a")
	s := NewStored(kernel.Root{}, nil)
	at := func() (found []uint64) { // offsets at which there are the names
		var all []uint64
		for o := uint64(0x1000); o < 0x1400; o++ {
			all = append(all, o)
		}
		names, err := s.Functions(program, "", all)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"inner70", "outer"} {
			for i := range names {
				if len(names[i]) > 0 && names[i][0] == want {
					found = append(found, all[i])
					break
				}
			}
		}
		return found
	}
	if offsets = at(); len(offsets) != 2 {
		t.Fatalf("offsets %x", offsets)
	}
	if mini {
		run("objcopy", "--only-keep-debug", "a", "a.debug")
		run("objcopy", "-S", "--remove-section", ".comment", "a.debug", "mini")
		run("objcopy", "--keep-symbol=inner70", "--keep-symbol=outer", "a.debug", "mini")
		run("xz", "-k", "mini")
	}
	run("strip", "a")
	if mini {
		run("objcopy", "--add-section", ".gnu_debugdata=mini.xz", "a")
	}
	return program, offsets
}

// A stripped program has the names that it carries packed, one by one and all at once.
func TestMiniDebugInfo(t *testing.T) {
	for _, mini := range []bool{true, false} {
		program, offsets := stripped(t, mini)
		names, err := NewStored(kernel.Root{}, nil).Functions(program, "", offsets)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range names {
			got = append(got, strings.Join(n, " "))
		}
		if all := strings.Join(got, " "); (all == "inner70 outer") != mini {
			t.Errorf("mini %v: %q", mini, got)
		}
		f, err := os.Open(program)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:errcheck // read
		h, err := readHeader(f, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		o := &object{buildID: h.buildID(), loads: h.segments()}
		if err := o.readAll(h, nil); err != nil {
			t.Fatal(err)
		}
		addr, _ := o.vaddr(offsets[0])
		if name, _, _ := o.find(addr); (name == "inner70") != mini {
			t.Errorf("mini %v: %q", mini, name)
		}
	}
}

// Damaged packed symbols take no other name away.
func TestMiniDebugInfoDamaged(t *testing.T) {
	program, offsets := stripped(t, true)
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), "\xfd7zXZ\x00")
	if at < 0 {
		t.Fatal("no xz in it")
	}
	b[at+40] ^= 0x55
	if err := os.WriteFile(program, b, 0o700); err != nil {
		t.Fatal(err)
	}
	names, err := NewStored(kernel.Root{}, nil).Functions(program, "", offsets)
	if err != nil || len(names) != 2 || len(names[0]) == 0 || names[0][0] == "inner70" {
		t.Errorf("%q, %v", names, err)
	}
}
