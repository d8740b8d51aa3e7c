package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inlinedProgram has functions in functions in functions, one in two places, and a loop around one.
const inlinedProgram = `
#include <stdio.h>
#include <stdlib.h>
static volatile long sink;
static inline __attribute__((always_inline)) void leaf(long n) { for (long i = 0; i < n; i++) sink += i * n; }
static inline __attribute__((always_inline)) void middle(long n) { sink ^= n; leaf(n + 1); if (n & 1) leaf(n * 3); sink--; }
static __attribute__((noinline)) void outer(long n) { middle(n); sink += 7; { long k = n * 2; middle(k); } }
static __attribute__((noinline)) void plain(long n) { sink += n; }
int main(int argc, char **argv) { for (long i = 0; i < argc; i++) { outer(i); plain(i); leaf(i); } return 0; }
`

const inlinedCPP = `
#include <vector>
namespace ns {
static volatile long sink;
struct Adder { long by; inline __attribute__((always_inline)) long add(long n) const { sink += n; return n * by + sink; } };
template <class T> static inline __attribute__((always_inline)) long twice(const T &a, long n) { return a.add(a.add(n)); }
__attribute__((noinline)) long run(std::vector<long> const &v) { Adder a{3}; long s = 0; for (long n : v) s += twice(a, n); return s; }
}
int main(int argc, char **) { std::vector<long> v(argc, 2); return ns::run(v) & 1; }
`

// TestInlineAgrees compares each address of the text of programs that gcc made with what addr2line says of it.
func TestInlineAgrees(t *testing.T) {
	for _, c := range []struct {
		name, source, compiler, ending string
		flags                          []string
	}{
		{"DWARF 5", inlinedProgram, "gcc", "c", []string{"-gdwarf-5"}},
		{"DWARF 4", inlinedProgram, "gcc", "c", []string{"-gdwarf-4", "-no-pie"}},
		{"packed", inlinedProgram, "gcc", "c", []string{"-gz"}},
		{"C++", inlinedCPP, "g++", "cc", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, tool := range []string{c.compiler, "addr2line"} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skip("needs: tool " + tool)
				}
			}
			dir := t.TempDir()
			source, program := filepath.Join(dir, "p."+c.ending), filepath.Join(dir, "p")
			if err := os.WriteFile(source, []byte(c.source), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(c.compiler, append(c.flags, "-g", "-O2", "-o", program, source)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			f, err := os.Open(program)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			in, err := readInlines(f, mostDWARF)
			if err != nil || in == nil {
				t.Fatalf("%v, %v", in, err)
			}
			defer in.close()
			e, err := elf.NewFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text := e.Section(".text")
			var ask bytes.Buffer
			for a := text.Addr; a < text.Addr+text.Size; a++ {
				fmt.Fprintf(&ask, "0x%x\n", a)
			}
			cmd := exec.Command("addr2line", "-a", "-i", "-f", "-e", program)
			cmd.Stdin = &ask
			said, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			deep, several := 0, 0
			for _, block := range strings.Split(string(said), "0x")[1:] { // address, then name and place of each, innermost first
				lines := strings.Split(strings.TrimSpace(block), "\n")
				var addr uint64
				if _, err := fmt.Sscanf(lines[0], "%x", &addr); err != nil {
					t.Fatal(err)
				}
				var want []string
				for i := 1; i+2 < len(lines); i += 2 { // the last one is the function itself
					want = append(want, Readable(lines[i]))
				}
				if got := in.at(addr); !slices.Equal(got, want) {
					t.Errorf("%#x: %q, addr2line says %q", addr, got, want)
				}
				if len(want) > 0 {
					several++
				}
				deep = max(deep, len(want))
			}
			if several < 20 || deep < 2 {
				t.Errorf("%d addresses of inlined functions, %d deep at most: the program tests nothing", several, deep)
			}
			if _, err := readInlines(f, 100); err != errMuchDebug {
				t.Errorf("of a file with more than is looked at: %v", err)
			}
		})
	}
}

func FuzzInline(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil && len(self) > 1<<16 {
		f.Add(self[:1<<16], uint64(0x401000))
	}
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		in, err := readInlines(bytes.NewReader(b), 1<<20)
		defer in.close()
		if err == nil && len(in.at(addr)) > mostInline {
			t.Error("deeper than it may be")
		}
	})
}
