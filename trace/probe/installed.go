package probe

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"culprit/symbol"
)

const (
	// mostInstalled bounds how many names of files the search for installed programs reads.
	mostInstalled = 200_000
	// installedDepth is how deep directories of libraries are searched: that of
	// /usr/lib/jvm/java/lib/server/libjvm.so.
	installedDepth = 6
)

// programDirs returns the directories of programs: those of PATH, and the usual ones.
func programDirs() []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	return append(dirs, "/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin",
		"/usr/local/sbin")
}

// installed calls each with the path of every installed program and library that has notes of
// probes (USDT) and is not in seen, to which it adds them. It ends after mostInstalled
// names.
func installed(seen map[symbol.MappedFile]bool, each func(path string)) {
	left := mostInstalled
	dirs := map[symbol.MappedFile]bool{} // /lib is a link to /usr/lib
	look := func(path string, want fs.FileMode) {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || want != 0 && info.Mode()&want == 0 {
			return
		}
		if id, ok := mappedFile(info); ok && !seen[id] {
			seen[id] = true
			if symbol.HasNotes(path) {
				each(path)
			}
		}
	}
	for _, dir := range programDirs() {
		if !filepath.IsAbs(dir) || been(dirs, dir) {
			continue
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if left--; left < 0 {
				return
			}
			look(filepath.Join(dir, e.Name()), 0o111)
		}
	}
	for _, top := range []string{"/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64"} {
		if been(dirs, top) {
			continue
		}
		//nolint:errcheck // what may not be read is left out
		filepath.WalkDir(top+"/", func(path string, e fs.DirEntry, err error) error {
			left--
			switch {
			case err != nil:
				return nil
			case left < 0:
				return fs.SkipAll
			case e.IsDir() && strings.Count(path[len(top):], "/") > installedDepth:
				return fs.SkipDir
			case !e.IsDir() && strings.Contains(e.Name(), ".so"):
				look(path, 0)
			}
			return nil
		})
	}
}

// been reports whether a directory was searched, under this name or another, or cannot be.
func been(dirs map[symbol.MappedFile]bool, dir string) bool {
	info, err := os.Stat(dir)
	if err != nil {
		return true
	}
	id, ok := mappedFile(info)
	was := dirs[id]
	dirs[id] = true
	return was || !ok
}

// mappedFile returns the identity of a file; false: it has none.
func mappedFile(info fs.FileInfo) (symbol.MappedFile, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return symbol.MappedFile{}, false
	}
	return symbol.MappedFile{Device: st.Dev, Inode: st.Ino}, true
}
