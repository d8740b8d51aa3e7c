package proc

import (
	"os"
	"path/filepath"
	"testing"

	"culprit/kernel"
)

// captured makes a Root whose files have these contents, by path: "proc/stat".
func captured(t *testing.T, files map[string]string) kernel.Root {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	return kernel.Root{Proc: dir + "/proc", Sys: dir + "/sys"}
}

// write makes a file and the directories above it, and returns its path.
func write(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
