package access

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/heapbound"
)

// Tokens that are added at the same time are all kept, each name once.
func TestManyTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens")
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		for range 2 {
			all.Go(func() { _, _ = AddToken(path, Token{Name: name, May: RoleView, Made: 1}) })
		}
	}
	all.Wait()
	if got, err := ReadTokens(path); err != nil || len(got) != 6 {
		t.Errorf("%d: %v", len(got), err)
	}
	for _, bad := range []string{"", "a b", "é", strings.Repeat("x", 65), "a\n"} {
		if _, err := AddToken(path, Token{Name: bad, May: RoleView}); err == nil {
			t.Errorf("the name %q is taken", bad)
		}
	}
	if err := RemoveToken(path, "g"); err == nil || !strings.Contains(err.Error(), "no token for") {
		t.Errorf("%v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 { // it and its lock
		t.Errorf("%v %v", entries, err)
	}
}

// A file of tokens that is accepted can be written and read again.
func FuzzTokens(f *testing.F) {
	f.Add(
		[]byte(
			`[{"name":"ann","may":"view","sha256":"` + strings.Repeat(
				"0f", 32,
			) + `","made_ms":1,"until_ms":2}]`,
		),
	)
	f.Add([]byte(`[{"name":"ann","may":"trace","sha256":"zz"}]`))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		all, err := parseTokens(b)
		if err != nil {
			return
		}
		for _, p := range all {
			if CheckName(p.Name) != nil || p.May < RoleMetrics || p.May > RoleTrace || p.Ends < 0 {
				t.Errorf("%+v", p)
			}
		}
	})
}

func TestReadServerToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	a, made, err := ReadServerToken(path)
	if err != nil || !made || len(a) < MinSecret {
		t.Fatal(a, made, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if b, made, err := ReadServerToken(path); b != a || made || err != nil {
		t.Error(b, made, err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ReadServerToken(path); err == nil {
		t.Error("a token that others may read is taken")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "short", strings.Repeat("x", 20) + " " + strings.Repeat("x", 20)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadServerToken(path); err == nil {
			t.Errorf("token %q is taken", bad)
		}
	}
	if _, _, err := ReadServerToken(filepath.Join(path, "x")); err == nil {
		t.Error("no error below a file")
	}
}

// The first wrong tokens are answered at once, then a few per second.
func TestRateLimit(t *testing.T) {
	now := time.Now()
	b := rateLimit{}
	n := 0
	for range 100 {
		if b.allow(now) {
			n++
		}
	}
	if n != wrongAtOnce || !b.allow(now.Add(time.Second)) {
		t.Errorf("%d at once", n)
	}
}
