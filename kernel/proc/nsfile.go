package proc

import (
	"fmt"
	"io/fs"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// NamespaceInode returns the inode of a namespace by its file. errors.Is fs.ErrNotExist: no
// namespace is mounted there.
func NamespaceInode(path string) (uint64, error) {
	var st unix.Stat_t
	var fst unix.Statfs_t
	if err := unix.Stat(path, &st); err != nil {
		return 0, kernel.AsError(err)
	}
	if err := unix.Statfs(path, &fst); err != nil {
		return 0, kernel.AsError(err)
	}
	if fst.Type != unix.NSFS_MAGIC {
		return 0, fmt.Errorf("%s is no namespace: %w", path, fs.ErrNotExist)
	}
	return st.Ino, nil
}
