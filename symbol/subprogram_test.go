package symbol

import (
	"debug/elf"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// withoutSymbols builds a program with debug information, and returns its path and its functions.
// Then it has no table of symbols.
func withoutSymbols(t *testing.T, options ...string) (program string, functions []elf.Symbol) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs: tool gcc")
	}
	dir := t.TempDir()
	const code = "static int __attribute__((noinline)) inner70(int n) { return n*70; }\n" +
		"static inline __attribute__((always_inline)) int within(int n) { return inner70(n)+1; }\n" +
		"__attribute__((noinline)) int outer(int n) { return within(n)*3; }\n" +
		"int main(int n, char **v) { return outer(n); }\n"
	program = filepath.Join(dir, "a")
	if err := os.WriteFile(program+".c", []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-O1", "-g", "-o", program, program + ".c"}, options...)
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Name == "inner70" || s.Name == "outer" || s.Name == "main" {
			functions = append(functions, s)
		}
	}
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	// The table of sections: e_shoff at 40, 64 bytes each, sh_type at 4.
	at := binary.LittleEndian.Uint64(b[40:])
	for i, s := range f.Sections {
		if s.Type == elf.SHT_SYMTAB {
			binary.LittleEndian.PutUint32(b[at+uint64(64*i)+4:], uint32(elf.SHT_PROGBITS))
		}
	}
	if err := os.WriteFile(program, b, 0o700); err != nil {
		t.Fatal(err)
	}
	return program, functions
}

// Functions of a file without a table of symbols have the names and the begins that its debug
// information has. They are the linker's.
func TestNamesOfDebugInformation(t *testing.T) {
	for _, version := range []string{"-gdwarf-4", "-gdwarf-5"} {
		t.Run(version, func(t *testing.T) {
			program, functions := withoutSymbols(t, version)
			if len(functions) != 3 {
				t.Fatalf("%d functions", len(functions))
			}
			f, err := os.Open(program)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, whole := range []bool{false, true} {
				r := &OwnReader{}
				for _, s := range functions {
					q := &Request{Op: OpNames, File: f, Whole: whole, Limit: 20e9,
						Addrs: []uint64{s.Value, s.Value + s.Size - 1}}
					a, err := r.Read(q)
					if err != nil {
						t.Fatal(err)
					}
					for i, n := range a.Names {
						if n.Name != s.Name || n.Start != s.Value {
							t.Errorf("whole %v: %q from %x at %x, want %s from %x", whole, n.Name, n.Start,
								q.Addrs[i], s.Name, s.Value)
						}
					}
				}
				a, err := r.Read(&Request{Op: OpNames, File: f, Whole: whole, Limit: 20e9,
					Addrs: []uint64{functions[0].Value &^ 0xfff}})
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range functions {
					if a.Names[0].Name == s.Name {
						t.Errorf("%s is named where it is not", s.Name)
					}
				}
			}
		})
	}
}
