package profile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/heapbound"
)

func legacyFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/corpus", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// appNames names one offset of one file.
type appNames struct{ err error }

func (n appNames) Functions(file, _ string, offsets []uint64) ([][]string, error) {
	out := make([][]string, len(offsets))
	for i, at := range offsets {
		if file == "/usr/bin/app" && at == 0x1050 {
			out[i] = []string{"inner;1", "outer(int)"}
		}
	}
	return out, n.err
}

func (appNames) GeneratedFunctions(string, uint64, []uint64) ([]string, error) { return nil, nil }

func (appNames) KernelFunctions(string, string, uint64, []uint64) ([]string, []string, error) {
	return nil, nil, nil
}

// Addresses of a profile without names are named by the file that was mapped there.
func TestLegacyNames(t *testing.T) {
	in := legacyFile(t, "legacy-cpu.gperf")
	for _, tt := range []struct {
		name  string
		names Namer
		want  string
		note  string
	}{
		{"none", nil, "0x400100;0x400050 70000000\n0x400200 30000000\n", ""},
		{"file", appNames{}, "0x400100;outer;inner:1 70000000\n0x400200 30000000\n",
			"/usr/bin/app are named by the file here"},
		{"no file", appNames{errors.New("gone")}, "0x400100;0x400050 70000000\n0x400200 30000000\n",
			"functions of /usr/bin/app have no names: gone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Read(never, bytes.NewReader(in), "", Options{Names: tt.names})
			if err != nil {
				t.Fatal(err)
			}
			if got := folded(t, tree); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if notes := strings.Join(tree.Notes, "\n"); !strings.Contains(notes, tt.note) {
				t.Errorf("no %q in %s", tt.note, notes)
			}
		})
	}
}

// A damaged file is an error, and the name of a function can begin like a legacy profile.
func TestLegacyErrors(t *testing.T) {
	in := legacyFile(t, "legacy-cpu.gperf")
	var wrong *ParseError
	if _, err := Read(never, bytes.NewReader(in[:50]), "", Options{}); !errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
	const name = "heap profile: ;work 3\n"
	tree, err := Read(never, strings.NewReader(name), "", Options{})
	if err != nil || tree.Sum() != 3 {
		t.Errorf("%v, %v", tree, err)
	}
}

// No file makes the reader panic or take memory that is not charged.
func FuzzLegacy(f *testing.F) {
	for _, name := range []string{"cpu", "heap", "contention"} {
		f.Add(legacyFile(f, "legacy-"+name+".gperf"))
	}
	f.Add([]byte("--- threadz 1 ---\n\n--- Thread 7eff (name: main/2) stack: ---\n  PC: 0x41 0x42\n"))
	heapbound.FuzzWithin(f, heapbound.Limit{Base: 16 << 20, PerByte: 2048},
		func(_ *testing.T, in []byte) {
			if !looksLegacy(in) {
				return
			}
			_, _ = Read(context.Background(), bytes.NewReader(in), "", Options{}) // may be an error
		})
}
