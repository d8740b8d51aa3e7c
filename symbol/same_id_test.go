package symbol

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"culprit/kernel"
	"culprit/symbol/unwind"
)

// oneID builds two programs with one build id, and with other names and frames of their functions.
// The first of each is one that is run, the second one a copy.
func oneID(t *testing.T) (names []string, files []string) {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs: tool gcc")
	}
	// of one length, so are the files
	names = []string{"payroll_sum_of_victim", "totally_innocent_fnc_"}
	for n, name := range names {
		dir := t.TempDir()
		text := fmt.Sprintf(`#include <stdio.h>
			#include <string.h>
			void __attribute__((noinline)) %s(void) { char space[%d]; memset(space, 1, sizeof space); asm volatile("" :: "r"(space)); }
			int main(void) { printf("%%lx %s\nready\n", (unsigned long)%s); fflush(stdout); %s(); return getchar(); }`,
			name, 64+64*n, name, name, name)
		if err := os.WriteFile(filepath.Join(dir, "x.c"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		bin := filepath.Join(dir, "program")
		cmd := exec.Command(gcc, "-O1", "-fomit-frame-pointer",
			"-Wl,--build-id=0x1122334455667788112233445566778811223344",
			"-o", bin, filepath.Join(dir, "x.c"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		files = append(files, bin)
	}
	return names, files
}

// TestOneBuildID: programs that have one build id keep their own names, in whatever order they are
// met, and however symbols are read.
func TestOneBuildID(t *testing.T) {
	names, files := oneID(t)
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		whole, lean, later := NewProcesses(kernel.Root{}), NewProcesses(kernel.Root{}),
			NewProcesses(kernel.Root{})
		lean.DisableSymbolCache()
		later.DeferSymbols()
		for _, n := range order {
			c := start(t, exec.Command(files[n]))
			pid, pcs := c.cmd.Process.Pid, []uint64{c.names[names[n]]}
			if p := whole.Place(pid, pcs[0]); p.Name != names[n] {
				t.Errorf("order %v: %v, want %s", order, p, names[n])
			}
			lean.Learn([]Asked{{PID: pid, PCs: pcs}})
			if p := lean.Place(pid, pcs[0]); p.Name != names[n] {
				t.Errorf("lean, order %v: %v, want %s", order, p, names[n])
			}
			_, spots, _ := later.Spots(pid, pcs)
			if got, _ := later.Resolve(spots); got[0] != names[n] {
				t.Errorf("later, order %v: %v, want %s", order, got, names[n])
			}
		}
		later.Close() //nolint:errcheck // it was read from
	}
}

// TestOneBuildIDUnwinds: programs that have one build id are unwound by their own tables; copies of
// one program by one table.
func TestOneBuildIDUnwinds(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	_, files := oneID(t)
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, filepath.Join(t.TempDir(), "program"))
	if err := os.WriteFile(files[2], text, 0o700); err != nil {
		t.Fatal(err)
	}
	u := NewUnwinding(kernel.Root{}, nil, nil)
	var tables []*unwind.Table
	for _, file := range files {
		all, err := u.Executed(start(t, exec.Command(file)).cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, all[0].Table) // its own code lies below that of libraries
	}
	if tables[0] == nil || tables[0] == tables[1] {
		t.Error("two programs have one table")
	}
	if tables[0] != tables[2] {
		t.Error("a copy has another table than the program")
	}
}
