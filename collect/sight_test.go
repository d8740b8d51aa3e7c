package collect

import (
	"os"
	"path/filepath"
	"testing"

	"culprit/kernel"
)

// TestInsidePIDNamespace: only another namespace than the first says that processes are out of sight.
func TestInsidePIDNamespace(t *testing.T) {
	for link, want := range map[string]bool{firstPIDNamespace: false, "pid:[4026532201]": true, "": false} {
		root := kernel.Root{Proc: t.TempDir()}
		if link != "" {
			if err := os.MkdirAll(filepath.Join(root.Proc, "self/ns"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(link, filepath.Join(root.Proc, "self/ns/pid")); err != nil {
				t.Fatal(err)
			}
		}
		if got := insidePIDNamespace(root); got != want {
			t.Errorf("%q: %v, want %v", link, got, want)
		}
	}
}
