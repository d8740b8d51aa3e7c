package symbol

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

const manyFunctions = `
#include <stdlib.h>
volatile unsigned long sink;
#define FUN(name, n) __attribute__((noinline)) static void name(unsigned long x) { \
	for (unsigned long i = 0; i < x * n; i++) sink += i; }
FUN(seventy, 7) FUN(thirty, 3) FUN(five, 5)
int main(int argc, char **argv) { seventy(atoi(argv[1])); thirty(argc); five(argc); return 0; }
`

// compiledTwice compiles a program of C, and returns it with its symbols and a stripped copy.
func compiledTwice(t *testing.T, flags ...string) (whole, stripped string) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	for _, tool := range []string{"gcc", "strip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "many.c")
	if err := os.WriteFile(source, []byte(manyFunctions), 0o644); err != nil {
		t.Fatal(err)
	}
	whole, stripped = filepath.Join(dir, "whole"), filepath.Join(dir, "stripped")
	for _, c := range []*exec.Cmd{
		exec.Command("gcc", append([]string{"-O2", "-o", whole, source}, flags...)...),
		exec.Command("strip", "-o", stripped, whole),
	} {
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
	}
	return whole, stripped
}

// TestStrippedFunctionsApart: each instruction of a stripped program's functions is named by where
// its function begins, with and without the linker's index of .eh_frame, and in a program at a
// fixed address.
func TestStrippedFunctionsApart(t *testing.T) {
	for _, flags := range [][]string{{}, {"-Wl,--no-eh-frame-hdr"}, {"-no-pie"}, {"-static"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			whole, stripped := compiledTwice(t, flags...)
			f, err := elf.Open(whole)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			symbols, err := f.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			h, tried := headerAt(t, stripped), 0
			for _, s := range symbols {
				if !slices.Contains([]string{"seventy", "thirty", "five", "main"}, s.Name) {
					continue
				}
				tried++
				addrs := []uint64{s.Value, s.Value + s.Size/2, s.Value + s.Size - 1}
				into := map[uint64]learned{}
				if err := h.learn(nil, addrs, into); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("[stripped+0x%x]", s.Value)
				for _, a := range addrs {
					if l := into[a]; named(l.name, "stripped") != want || l.from != a-s.Value {
						t.Errorf("%s at %x: %+v, want %s", s.Name, a, l, want)
					}
				}
				gap := s.Value + s.Size // padding, or the next function
				if err := h.learn(nil, []uint64{gap}, into); err != nil ||
					into[gap].name == into[s.Value].name {
					t.Errorf("%x behind %s is in it: %v", gap, s.Name, err)
				}
			}
			if tried != 4 {
				t.Errorf("%d functions were tried", tried)
			}
		})
	}
}

// TestOpenSymbolEndsAtFunction: a symbol without a size, as _init, has not the instructions of the
// next function, as of the procedure linkage table.
func TestOpenSymbolEndsAtFunction(t *testing.T) {
	whole, _ := compiledTwice(t, "-Wl,-z,lazy", "-fcf-protection=none")
	f, err := elf.Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plt := f.Section(".plt")
	if plt == nil {
		t.Fatal("no .plt")
	}
	into, a := map[uint64]learned{}, plt.Addr+plt.Size-1
	if err := headerAt(t, whole).learn(nil, []uint64{a}, into); err != nil {
		t.Fatal(err)
	}
	if got := into[a].name; got == "_init" || got == "" {
		t.Errorf("the procedure linkage table is called %q", got)
	}
}

func headerAt(t *testing.T, path string) *header {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHeader(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return h
}
