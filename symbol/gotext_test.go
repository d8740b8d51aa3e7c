package symbol

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Functions of a Go program have their names also where C code lies before them and no symbols are
// left.
func TestGoFunctionsBehindC(t *testing.T) {
	for _, tool := range []string{"gcc", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("needs: tool " + tool)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module behind\n\ngo 1.24\n",
		"main.go": "package main\n\n// int one(void) { return 1; }\nimport \"C\"\n\nfunc main() " +
			"{ println(C.one()) }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := func(out string, args ...string) string {
		c := exec.Command("go", append([]string{"build", "-o", out}, args...)...)
		c.Dir, c.Env = dir, append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=")
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		return filepath.Join(dir, out)
	}
	whole, err := elf.Open(build("whole", "."))
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	symbols, err := whole.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(build("bare", "-ldflags", "-s -w", "."))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHeader(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	g, n := h.goTable(), 0
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || !strings.HasPrefix(s.Name, "main.") &&
			!strings.HasPrefix(s.Name, "runtime.") || strings.HasPrefix(s.Name, "runtime.e") &&
			s.Size == 0 {
			continue
		}
		if l, ok := g.find(s.Value); ok && s.Size > 0 {
			if n++; l.name != s.Name && strings.TrimSuffix(s.Name, ".abi0") != l.name ||
				l.from != 0 {
				t.Errorf("%s is called %s+%#x", s.Name, l.name, l.from)
			}
		}
	}
	if n < 500 {
		t.Errorf("%d functions have names", n)
	}
}
