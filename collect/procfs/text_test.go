package procfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
)

func TestCPUList(t *testing.T) {
	for text, want := range map[string]int{
		"0-3,8,10-11\n": 7,
		"0\n":           1,
		"":              0,
		"\n":            0,
		"3-1":           -1,
		"x":             -1,
		"1,,2":          -1,
		"0-99999999999": -1,
		"1-":            -1,
	} {
		got, ok := ParseCPUList(nil, []byte(text))
		if ok != (want >= 0) || ok && len(got) != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

func TestCPUListNumbers(t *testing.T) {
	got, ok := ParseCPUList([]int{42}, []byte("0-2,7,65535\n\n"))
	if want := []int{42, 0, 1, 2, 7, 65535}; !ok || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, ok, want)
	}
	if got, ok := ParseCPUList(nil, []byte("65536")); ok {
		t.Errorf("%v has a number beyond 16 bits", got)
	}
}

func TestCutLine(t *testing.T) {
	for _, tt := range []struct{ text, line, rest string }{
		{"", "", ""}, {"a", "a", ""}, {"a\n", "a", ""}, {"\nb", "", "b"}, {"a\nb\nc", "a", "b\nc"},
	} {
		if line, rest := CutLine([]byte(tt.text)); string(line) != tt.line ||
			string(rest) != tt.rest {
			t.Errorf("%q is cut into %q and %q", tt.text, line, rest)
		}
	}
}

func TestReadSysWord(t *testing.T) {
	root := kernel.Root{Sys: t.TempDir()}
	long := strings.Repeat("x", 4000)
	for name, text := range map[string]string{"one": " a word \n", "long": long + "\n", "empty": ""} {
		if err := os.WriteFile(filepath.Join(root.Sys, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := ReadSysWord(root, name); got != strings.TrimSpace(text) {
			t.Errorf("%s has the word %q", name, got)
		}
	}
	if got := ReadSysWord(root, "missing"); got != "" {
		t.Errorf("a missing file has the word %q", got)
	}
}

func FuzzCPUList(f *testing.F) {
	f.Add([]byte("0-3,8"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		got, _ := ParseCPUList(nil, b)
		for _, n := range got {
			if n < 0 || n >= 1<<16 {
				t.Fatalf("%q: %d", b, n)
			}
		}
	})
}
