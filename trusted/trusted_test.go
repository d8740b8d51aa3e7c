package trusted

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// other is the user that these tests give files to.
const other = 65534

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// give changes the owner of a file, or of a link itself, to another user.
func give(t *testing.T, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	must(t, os.Lchown(path, other, other))
}

// refused checks that an error is an *Error about a path whose reason contains a word.
func refused(t *testing.T, err error, path, word string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("the error is %v, want a refusal", err)
	}
	if e.Path != path || !strings.Contains(e.Why, word) || e.Do == "" {
		t.Fatalf("the refusal is %q, want one of %s with %q", err, path, word)
	}
}

func TestDirectory(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, above, d string) // d is checked; above contains it
		bad  string                              // below the top; "": d is trusted
		word string
	}{
		{"own", func(*testing.T, string, string) {}, "", ""},
		{"above it is sticky", func(t *testing.T, above, _ string) {
			must(t, os.Chmod(above, os.ModeSticky|0o777))
		}, "", ""},
		{"above it is writable", func(t *testing.T, above, _ string) {
			must(t, os.Chmod(above, 0o777))
		}, "shared", "write"},
		{"writable by the group", func(t *testing.T, _, d string) {
			must(t, os.Chmod(d, 0o770))
		}, "shared/d", "write"},
		{"sticky", func(t *testing.T, _, d string) {
			must(t, os.Chmod(d, os.ModeSticky|0o777))
		}, "shared/d", "write"},
		{"of another user", func(t *testing.T, _, d string) { give(t, d) }, "shared/d", "belongs"},
		{"above it is of another user", func(t *testing.T, above, _ string) {
			give(t, above)
		}, "shared", "belongs"},
		{"missing", func(t *testing.T, _, d string) { must(t, os.Remove(d)) }, "", ""},
		{"missing below another user's", func(t *testing.T, above, d string) {
			must(t, os.Remove(d))
			give(t, above)
		}, "shared", "belongs"},
		{"own link", func(t *testing.T, above, d string) {
			must(t, os.Rename(d, above+"/../e"))
			must(t, os.Symlink("../e", d))
		}, "", ""},
		{"another user's link", func(t *testing.T, above, d string) {
			must(t, os.Rename(d, above+"/../e"))
			must(t, os.Symlink("../e", d))
			give(t, d)
		}, "shared/d", "belongs"},
		{"link to a writable one", func(t *testing.T, above, d string) {
			must(t, os.Rename(d, above+"/../e"))
			must(t, os.Chmod(above+"/../e", 0o777))
			must(t, os.Symlink("../e", d))
		}, "e", "write"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			d := filepath.Join(top, "shared/d")
			must(t, os.MkdirAll(d, 0o700))
			tt.make(t, filepath.Dir(d), d)
			err := Directory(d)
			if tt.bad == "" {
				must(t, err)
				return
			}
			refused(t, err, filepath.Join(top, tt.bad), tt.word)
		})
	}
}

// A link that leads to itself is an error and no endless loop.
func TestDirectoryOfLinks(t *testing.T) {
	top := t.TempDir()
	must(t, os.Symlink("b", top+"/a"))
	must(t, os.Symlink("a", top+"/b"))
	if err := Directory(top + "/a"); !errors.Is(err, unix.ELOOP) {
		t.Fatalf("the error is %v", err)
	}
}

// Tree, Entry and Open judge a file alike.
func TestFiles(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, path string)
		word string // "": it is trusted
	}{
		{"own", func(*testing.T, string) {}, ""},
		{"writable", func(t *testing.T, path string) { must(t, os.Chmod(path, 0o602)) }, "write"},
		{"another user's", give, "belongs"},
		{"link", func(t *testing.T, path string) {
			must(t, os.Rename(path, path+".real"))
			must(t, os.Symlink(path+".real", path))
		}, "link"},
		{"link to nothing", func(t *testing.T, path string) {
			must(t, os.Remove(path))
			must(t, os.Symlink(path+".real", path))
		}, "link"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			path := top + "/archive/000002.log"
			must(t, os.Mkdir(top+"/archive", 0o700))
			must(t, os.WriteFile(path, []byte("x"), 0o600))
			tt.make(t, path)
			f, open := Open(path, os.O_RDONLY, 0)
			for _, err := range []error{Tree(top), Entry(path), open} {
				if tt.word == "" {
					must(t, err)
				} else {
					refused(t, err, path, tt.word)
				}
			}
			if tt.word == "" {
				must(t, f.Close())
			}
		})
	}
}

// Open does not wait at a pipe, and refuses a directory that others may write to.
func TestOpenRefuses(t *testing.T) {
	top := t.TempDir()
	must(t, unix.Mkfifo(top+"/pipe", 0o600))
	_, err := Open(top+"/pipe", os.O_RDONLY, 0)
	refused(t, err, top+"/pipe", "regular")
	must(t, os.WriteFile(top+"/token", []byte("x"), 0o600))
	must(t, os.Chmod(top, 0o777))
	_, err = Open(top+"/token", os.O_RDONLY, 0)
	refused(t, err, top, "write")
}
