package symbol

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/kernel/proc"
)

const stubCalls = `
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void *volatile keep;
int main(int c, char **v) {
	keep = malloc(10);
	keep = &strlen;
	if (c > 5) { keep = &free; free(keep); }
	return getppid() + strlen(v[0]) > 1;
}`

// TestStubs: stubs of the procedure linkage table have the names that binutils prints, for
// each form of the linker.
func TestStubs(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil || runtime.GOARCH != "amd64" {
		t.Skip("needs: tool gcc")
	}
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("needs: tool objdump")
	}
	source := filepath.Join(t.TempDir(), "stubs.c")
	if err := os.WriteFile(source, []byte(stubCalls), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"-Wl,-z,lazy -fcf-protection=none",
		"-Wl,-z,now -fcf-protection=none", "-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy",
		"-no-pie", "-O2 -s", "-O0 -fplt -Wl,-z,now", "-m32"} {
		t.Run(flags, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "stubs")
			if b, err := exec.Command(gcc, append([]string{"-o", out, source},
				strings.Fields(flags)...)...).CombinedOutput(); err != nil {
				if flags != "-m32" {
					t.Fatalf("%v: %s", err, b)
				}
				t.Skip("needs: tool i686-linux-gnu-gcc (or a gcc that makes 32-bit programs)")
			}
			text, err := exec.Command(objdump, "-d", "--no-show-raw-insn", out).Output()
			if err != nil {
				t.Fatal(err)
			}
			h := headerAt(t, out)
			tried := 0
			for line := range strings.Lines(string(text)) { // 0000000000001030 <getppid@plt>:
				addr, name, ok := strings.Cut(strings.TrimSpace(line), " <")
				name, plt := strings.CutSuffix(name, "@plt>:")
				if !ok || !plt || strings.Contains(name, "ABS") || !h.wide {
					continue
				}
				tried++
				at, err := proc.ParseHex([]byte(addr))
				if err != nil {
					t.Fatal(err)
				}
				for _, off := range []uint64{0, 4} {
					into := map[uint64]learned{}
					if err := h.learn(nil, []uint64{at + off}, into); err != nil ||
						into[at+off].name != name+"@plt" || into[at+off].from != off {
						t.Errorf("%x+%d: %+v, want %s@plt: %v", at, off, into[at+off], name, err)
					}
				}
			}
			if tried < 2 && h.wide {
				t.Errorf("%d stubs were tried", tried)
			}
		})
	}
}

// TestOneNaming: an address has one name, whether the symbols of its file are kept or each is
// looked for, in all functions, stubs and gaps of files of all sorts.
func TestOneNaming(t *testing.T) {
	whole, stripped := compiledTwice(t, "-Wl,-z,lazy")
	for _, name := range []string{whole, stripped, "/lib/x86_64-linux-gnu/libc.so.6", "/bin/bash",
		os.Args[0], goTool()} {
		f, err := elf.Open(name)
		if err != nil {
			continue
		}
		defer f.Close()
		h := headerAt(t, name)
		ps, own := NewProcesses(kernel.Root{}), &process{pid: os.Getpid()}
		file := h.r.(*os.File)
		o, err := ps.load(file, keyOf(file), own, name)
		if err != nil {
			t.Fatal(err)
		}
		var addrs []uint64
		for _, s := range f.Sections {
			if s.Flags&elf.SHF_EXECINSTR == 0 || s.Type == elf.SHT_NOBITS {
				continue
			}
			step := max(1, s.Size/4000)
			for a := s.Addr; a < s.Addr+s.Size; a += step {
				addrs = append(addrs, a)
			}
		}
		slices.Sort(addrs)
		into := map[uint64]learned{}
		debug, _ := ps.openDebug(own, o, name)
		of := &laterFile{file: file, debug: debug, complete: true}
		err = ps.askNames(o, o, of, addrs,
			func(_ []uint64, part map[uint64]learned, failed error) {
				if failed != nil {
					t.Error(failed)
				}
				for a, l := range part {
					into[a] = l
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for _, a := range addrs {
			kept, off, _ := o.find(a)
			if l := into[a]; kept != l.name || kept != "" && off != l.from {
				if wrong++; wrong < 5 {
					t.Errorf("%s: %x is %s+%#x where symbols are kept, else %s+%#x", name, a, kept,
						off, l.name, l.from)
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%s: %d of %d addresses have two names", name, wrong, len(addrs))
		}
	}
}

// goTool returns a stripped program of Go, or "".
func goTool() string {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return filepath.Join(strings.TrimSpace(string(out)), "bin", "gofmt")
}

// FuzzStubs: of no file with sections of stubs does the reader fail, or take much memory.
func FuzzStubs(f *testing.F) {
	for _, name := range []string{"/bin/true", "/bin/bash"} {
		if b, _ := sectionOf(name, ".rela.plt"); b != nil {
			f.Add(b[:min(len(b), 1024)],
				[]byte("\xff\x25\x10\x00\x00\x00\x68\x00\x00\x00\x00\xe9\x00\x00\x00\x00"),
				uint16(3))
		}
	}
	f.Add([]byte{}, []byte(endbr64+"\xf2\xff\x25\x10\x00\x00\x00\x0f\x1f\x44"), uint16(4000))
	heapbound.Fuzz(f, func(t *testing.T, relocs, code []byte, n uint16) {
		names := []byte("\x00.plt\x00.rela.plt\x00")
		file := slices.Concat(names, relocs, code)
		at := uint64(len(names))
		h := &header{r: bytes.NewReader(file), size: uint64(len(file)), wide: true,
			machine: uint16(elf.EM_X86_64), section: names}
		for range int(n)%2000 + 1 { // as many of each, in one place
			h.secs = append(h.secs,
				section{name: 1, kind: uint32(elf.SHT_PROGBITS),
					flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), addr: at, off: at +
						uint64(len(relocs)), size: uint64(len(code))},
				section{name: 6, kind: uint32(elf.SHT_RELA), flags: uint64(elf.SHF_ALLOC), off: at,
					size: uint64(len(relocs)), link: 0})
		}
		heapBound(t, len(file), func() {
			for _, s := range h.stubs() {
				if s.to <= s.from || !strings.HasSuffix(s.name, "@plt") {
					t.Errorf("%+v", s)
				}
			}
		})
	})
}
