package cases

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// envProgram names the program under test; envQuick set to "quick" leaves out all that needs it.
const (
	envProgram = "CULPRIT_BIN"
	envQuick   = "CULPRIT_LAB"
)

func quick() bool { return os.Getenv(envQuick) == "quick" }

// program finds or builds the program under test, once. The folder of a built one is removed by
// TestMain.
var program = sync.OnceValues(func() (string, error) {
	if p := os.Getenv(envProgram); p != "" {
		return filepath.Abs(p)
	}
	if p, err := filepath.Abs("../bin/culprit"); err == nil && !older(p, "..") {
		return p, nil
	}
	dir, err := os.MkdirTemp("", "culprit-cases-")
	if err != nil {
		return "", err
	}
	p := filepath.Join(dir, "culprit")
	c := exec.Command("go", "build", "-trimpath", "-o", p, "../cmd/culprit")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w: %s", err, out)
	}
	return p, nil
})

// older reports whether the file is missing or older than any Go file of the tree: then it isn't
// what the tree says.
func older(file, tree string) bool {
	st, err := os.Stat(file)
	if err != nil {
		return true
	}
	newer := errors.New("newer")
	return filepath.WalkDir(tree, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".go" {
			return err
		}
		i, err := d.Info()
		if err == nil && i.ModTime().After(st.ModTime()) {
			return newer
		}
		return err
	}) != nil
}

// needProgram returns the path of the program under test.
func needProgram(t *testing.T) string {
	t.Helper()
	p, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rows are the rows of one interval of a view's JSON; numbers that are null are absent.
type rows struct {
	View    string
	Start   time.Time
	Seconds float64
	Rows    []map[string]any
}

// find returns the number in a column of the row whose key column is as wanted; false when unknown
// or not there.
func (r rows) find(key, want, column string) (float64, bool) {
	for _, row := range r.Rows {
		if fmt.Sprint(row[key]) == want {
			v, ok := row[column].(float64)
			return v, ok
		}
	}
	return 0, false
}
