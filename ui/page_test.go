package ui_test

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"

	"culprit/ui"
)

// budget is what a browser may load for the whole page, in bytes, gzipped.
const budget = 220_000

// TestFiles checks the embedded files: either no page at all, or a complete page within its budget
// that loads from its own server only.
func TestFiles(t *testing.T) {
	files := ui.Files()
	index, err := fs.ReadFile(files, "index.html")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := fs.Stat(files, "README"); err != nil {
			t.Fatalf("neither a page nor the README that says why: %v", err)
		}
		t.Log("built without the page")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(index), `src="./page.js"`) {
		t.Errorf("index.html loads no ./page.js:\n%s", index)
	}
	if strings.Contains(string(index), "style=") || strings.Contains(string(index), "<style") {
		t.Errorf("the security policy refuses inline styles; index.html has some:\n%s", index)
	}
	total := int64(0)
	err = fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && p == "file" { // see TestFile
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || p == "README" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch path.Ext(p) {
		case ".gz":
			total += info.Size()
		case ".br":
		case ".html", ".js", ".css", ".svg":
			for _, packed := range []string{p + ".gz", p + ".br"} {
				if _, err := fs.Stat(files, packed); err != nil {
					t.Errorf("%s has no %s", p, packed)
				}
			}
		default:
			t.Errorf("%s: what is this doing in the page?", p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the page is %d bytes gzipped", total)
	if total == 0 || total > budget {
		t.Errorf("the page is %d bytes gzipped; its budget is %d", total, budget)
	}
}

// TestFile checks that the page in one file is within its budget, and that its script can stand in
// a document.
func TestFile(t *testing.T) {
	script, style := ui.File()
	if script == "" && style == "" {
		t.Log("built without the page")
		return
	}
	if n := len(script) + len(style); n > 160_000 || style == "" {
		t.Errorf("%d bytes, %d of them the style", n, len(style))
	}
	for _, end := range []string{"</script", "<script", "</style"} {
		if strings.Contains(strings.ToLower(script+style), end) {
			t.Errorf("the page in one file contains %s", end)
		}
	}
}
