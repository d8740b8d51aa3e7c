package captured

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"culprit/heapbound"
)

// FuzzRead reads and diagnoses any text. It fails on a panic, and when the tables keep more than
// 16 MB and a thousand times the text.
func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("testdata/*.*")
	if err != nil || len(names) < 19 {
		f.Fatalf("%d files of testdata: %v", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := Read("fuzz.txt", text)
		if err != nil {
			return
		}
		r := Diagnose([]*Capture{c, c})
		runtime.ReadMemStats(&after)
		if after.HeapAlloc > before.HeapAlloc && after.HeapAlloc-before.HeapAlloc >
			64<<20+1000*uint64(len(text)) {
			t.Errorf("%d bytes of text take %d MB", len(text),
				(after.HeapAlloc-before.HeapAlloc)>>20)
		}
		for _, one := range r.Findings {
			if len(one.Evidence) == 0 || one.Claim == "" {
				t.Errorf("finding %s has no evidence", one.ID)
			}
		}
	})
}
