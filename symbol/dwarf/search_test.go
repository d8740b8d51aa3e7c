package dwarf

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/window"
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

// TestInlineAgrees compares each address of the text of programs that gcc made with what addr2line
// says of it.
func TestInlineAgrees(t *testing.T) {
	for _, c := range []struct {
		name, source, compiler, ending string
		flags                          []string
	}{
		{"DWARF 5", inlinedProgram, "gcc", "c", []string{"-gdwarf-5"}},
		{"DWARF 4", inlinedProgram, "gcc", "c", []string{"-gdwarf-4", "-no-pie"}},
		{"packed", inlinedProgram, "gcc", "c", []string{"-gz"}},
		{"DWARF 2", inlinedProgram, "gcc", "c", []string{"-gdwarf-2", "-gstrict-dwarf"}},
		{"C++", inlinedCPP, "g++", "cc", nil},
		{"C++ packed", inlinedCPP, "g++", "cc", []string{"-gz"}},
		{"C++ linked as a whole", inlinedCPP, "g++", "cc", []string{"-flto"}},
		{"C++ without what nobody calls", inlinedCPP, "g++", "cc",
			[]string{"-ffunction-sections", "-Wl,--gc-sections", "-no-pie"}},
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
			if out, err := exec.Command(c.compiler,
				append(c.flags, "-g", "-O2", "-o", program,
					source)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			f, d, e := debugOf(t, program)
			text := e.Section(".text")
			var ask bytes.Buffer
			var addrs []uint64
			for a := text.Addr; a < text.Addr+text.Size; a++ {
				fmt.Fprintf(&ask, "0x%x\n", a)
				addrs = append(addrs, a)
			}
			names, late := d.Inlined(addrs, func() bool { return false })
			if late {
				t.Error("it was late")
			}
			cmd := exec.Command("addr2line", "-a", "-i", "-f", "-e", program)
			cmd.Stdin = &ask
			said, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			deep, several := 0, 0
			// address, then name and place of each, innermost first
			for _, block := range strings.Split(string(said), "0x")[1:] {
				lines := strings.Split(strings.TrimSpace(block), "\n")
				var addr uint64
				if _, err := fmt.Sscanf(lines[0], "%x", &addr); err != nil {
					t.Fatal(err)
				}
				var want []string
				for i := 1; i+2 < len(lines); i += 2 { // the last one is the function itself
					want = append(want, "<"+lines[i]+">")
				}
				if got := names[addr-text.Addr]; !slices.Equal(got, want) {
					t.Errorf("%#x: %q, addr2line says %q", addr, got, want)
				}
				if len(want) > 0 {
					several++
				}
				deep = max(deep, len(want))
			}
			if several < 20 || deep < 2 {
				t.Errorf("%d addresses of inlined functions, %d deep at most: the program tests "+
					"nothing", several, deep)
			}
			if _, late := d.Inlined(addrs, func() bool { return true }); !late && c.name == "C++" {
				t.Error("without time it was not late")
			}
			d.most = 1
			if _, err := d.Over(f); err != ErrTooMuch && strings.Contains(c.name, "packed") {
				t.Errorf("of a file with more than is looked at: %v", err)
			}
		})
	}
}

// TestInlineOfItself: of this program, which Go made, whose information is packed, the calls within
// a function are found.
func TestInlineOfItself(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(inlinedGo), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "p")
	build := exec.Command("go", "build", "-o", program, source)
	build.Env = append(os.Environ(), "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, d, e := debugOf(t, program)
	all, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var addrs []uint64
	for _, s := range all {
		if s.Name == "main.outer" {
			for a := s.Value; a < s.Value+s.Size; a++ {
				addrs = append(addrs, a)
			}
		}
	}
	names, _ := d.Inlined(addrs, func() bool { return false })
	var seen []string
	for _, n := range names {
		if len(n) > 0 && !slices.Contains(seen, strings.Join(n, " ")) {
			seen = append(seen, strings.Join(n, " "))
		}
	}
	slices.Sort(seen)
	if want := []string{"<main.leaf> <main.middle>", "<main.middle>"}; !slices.Equal(seen, want) {
		t.Errorf("%q of %d addresses, not %q", seen, len(addrs), want)
	}
}

const inlinedGo = `package main

import "os"

var sink int

func leaf(n int)   { sink += n * sink }
func middle(n int) { sink ^= n; leaf(n + 1) }

//go:noinline
func outer(n int) { middle(n) }

func main() { outer(len(os.Args)) }
`

// marked shows in a name that it was passed through what makes names readable.
func marked(name string) string { return "<" + name + ">" }

func FuzzInline(f *testing.F) {
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil && len(self) > 1<<16 {
		f.Add(self[:1<<16], uint64(0x401000))
	}
	f.Add(compressedDebug(), uint64(0x401000))
	d := NewDebugFile(marked)
	// Finding the sections and reading them each have the usual base.
	each := heapbound.Limit{Base: 8 << 20, PerByte: 512}
	limit := heapbound.Limit{Base: 2 * each.Base, PerByte: each.PerByte}
	heapbound.FuzzWithin(f, limit, func(t *testing.T, b []byte, addr uint64) {
		if there, err := d.Over(bytes.NewReader(b)); err != nil || !there {
			return
		}
		looks := 0
		var names [][]string
		heapbound.Check(t, each, uint64(len(b)), func() {
			names, _ = d.Inlined([]uint64{addr},
				func() bool { looks++; return looks > 100 })
		})
		if len(names[0]) > MostDeep {
			t.Error("deeper than it may be")
		}
	})
}

// debugOf opens a program, its debug information, of which it must have some, and its ELF file.
func debugOf(t *testing.T, program string) (*os.File, *File, *elf.File) {
	t.Helper()
	f, err := os.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	d := NewDebugFile(marked)
	if there, err := d.Over(f); err != nil || !there {
		t.Fatalf("%v, %v", there, err)
	}
	e, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, d, e
}

// compressedDebug is an ELF file with compressed debug information that has less than it claims.
func compressedDebug() []byte {
	le := binary.LittleEndian
	b := make([]byte, 64)
	names := "\x00.debug_info\x00.debug_abbrev\x00.debug_str\x00.names\x00"
	table := make([]byte, 64)
	add := func(name, kind, flags int, data []byte) {
		s := make([]byte, 64)
		le.PutUint32(s, uint32(name))
		le.PutUint32(s[4:], uint32(kind))
		le.PutUint64(s[8:], uint64(flags))
		le.PutUint64(s[24:], uint64(len(b)))
		le.PutUint64(s[32:], uint64(len(data)))
		table, b = append(table, s...), append(b, data...)
	}
	unit := le.AppendUint32(nil, 8) // length, version, abbreviations, bytes of addresses, code
	unit = append(le.AppendUint16(unit, 4), 0, 0, 0, 0, 8, 1)
	for name, data := range map[int][]byte{1: bytes.Repeat(unit, 100),
		13: []byte("\x01\x11\x00\x03\x0e\x00\x00\x00"), 27: []byte("name\x00")} {
		var packed bytes.Buffer
		for _, v := range []uint64{uint64(elf.COMPRESS_ZLIB), 1 << 20, 1} {
			packed.Write(le.AppendUint64(nil, v))
		}
		z := zlib.NewWriter(&packed)
		_, _ = z.Write(data) // into memory
		_ = z.Close()
		add(name, int(elf.SHT_PROGBITS), int(elf.SHF_COMPRESSED), packed.Bytes())
	}
	add(38, int(elf.SHT_STRTAB), 0, []byte(names))
	copy(b, "\x7fELF\x02\x01\x01")
	for at, v := range map[int]int{16: 2, 18: 62, 20: 1, 52: 64, 58: 64, 60: 5, 62: 4} {
		le.PutUint16(b[at:], uint16(v))
	}
	le.PutUint64(b[40:], uint64(len(b)))
	return append(b, table...)
}

// TestUnpackedAgain: going back in a compressed section, or reading what its bytes do not have,
// allocates no further buffers.
func TestUnpackedAgain(t *testing.T) {
	const pages = 6
	content := make([]byte, pages*window.PageSize)
	for i := range content {
		content[i] = byte(i / window.PageSize)
	}
	var packed bytes.Buffer
	packed.Write(binary.LittleEndian.AppendUint32(nil, uint32(elf.COMPRESS_ZLIB)))
	packed.Write(make([]byte, 20)) // the rest of struct Elf64_Chdr
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s := &elf.Section{SectionHeader: elf.SectionHeader{FileSize: uint64(packed.Len())}}
	w := window.New(2)
	unpack := unpackers{}.of(w, bytes.NewReader(packed.Bytes()), s, true)
	w.Over(nil, 0, 2*uint64(len(content)), unpack)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 200 {
		for _, number := range []uint64{5, 3, 1, pages, 2 * pages} {
			p := w.Page(number)
			if number >= pages && p != nil {
				t.Fatalf("page %d is there", number)
			}
			if number < pages && (len(p) != window.PageSize || p[0] != byte(number)) {
				t.Fatalf("page %d has %d bytes, or others", number, len(p))
			}
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated", grown)
	}
}
