package trace

import (
	"encoding/binary"
	"slices"

	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/symbol/unwind"

	"golang.org/x/sys/unix"
)

// A fileSeen is a file that a program found in a process and that is missing in gen.MapFiles.
type fileSeen struct {
	pid   int
	start uint64 // of the mapping
	key   [gen.FileKey]byte
}

// mostSeen is how many of these wait. Programs report a file again with its next sample.
const mostSeen = 256

// parseSeen parses a record of gen.MapWake; !ok: it is about no file.
func parseSeen(b []byte) (s fileSeen, ok bool) {
	if len(b) != gen.FileSeen {
		return s, false
	}
	// the process ID is in the lower half; it is 0 outside of the namespace
	s.pid = int(binary.NativeEndian.Uint32(b))
	s.start = binary.NativeEndian.Uint64(b[8:])
	copy(s.key[:], b[16:])
	return s, true
}

// see records that a file is missing, or that a code object of an interpreter is new.
func (u *unwinder) see(b []byte) {
	u.seeCode(b)
	if s, ok := parseSeen(b); ok && s.pid != 0 && len(u.seen) < mostSeen {
		u.seen = append(u.seen, s)
	}
}

// loadSeen adds files that were missing and that processes loaded now have. The others wait for
// their processes once more.
func (u *unwinder) loadSeen() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.seen {
		p := u.procs[s.pid]
		if p == nil {
			continue
		}
		i := slices.IndexFunc(p.code, func(c symbol.Executed) bool { return c.Start == s.start })
		if i >= 0 {
			u.putFile(s.key, &p.code[i])
		}
	}
	u.seen = u.seen[:0]
}

// putFile adds a file to gen.MapFiles, so that processes that are not loaded are walked by its
// table. Code without a file, or of a file that could not be read yet, is none.
func (u *unwinder) putFile(key [gen.FileKey]byte, c *symbol.Executed) {
	how, number := u.how(c)
	if c.Table != nil && !c.Whole || how == gen.CodeNotYet || how == gen.CodeTooMany ||
		how == gen.CodeGenerated {
		return
	}
	if _, there := u.byKey[key]; there {
		return
	}
	if len(u.byKey) >= gen.FilesMost {
		for old := range u.byKey {
			u.dropFile(old)
		}
	}
	var value [gen.FileEntry]byte
	binary.NativeEndian.PutUint64(value[:], c.Delta)
	binary.NativeEndian.PutUint32(value[8:], number)
	binary.NativeEndian.PutUint32(value[12:], how)
	if u.files.Put(key, value) == nil {
		u.byKey[key] = c.Table
	}
}

func (u *unwinder) dropFile(key [gen.FileKey]byte) {
	_ = u.files.Delete(key) // it may not be there
	delete(u.byKey, key)
}

// dropUnused removes the files from gen.MapFiles whose tables are about to be removed.
func (u *unwinder) dropUnused(used map[*unwind.Table]bool) {
	for key, table := range u.byKey {
		if table != nil && !used[table] {
			u.dropFile(key)
		}
	}
}

// putFiles adds the files of a process to gen.MapFiles, and the kernel's own code in it. On file
// systems whose inodes have other numbers inside the kernel (overlayfs, btrfs) nothing matches
// these keys; programs report theirs.
func (u *unwinder) putFiles(code []symbol.Executed) {
	for i := range code {
		switch c := &code[i]; {
		case c.Kernel:
			u.putFile([gen.FileKey]byte{}, c)
		case c.File != symbol.FileVersion{}:
			u.putFile(fileKeyOf(c.File), c)
		}
	}
}

// fileKeyOf returns the key of a file in gen.MapFiles.
func fileKeyOf(f symbol.FileVersion) (key [gen.FileKey]byte) {
	const minorBits = 20 // of the kernel's dev_t
	for i, v := range [...]uint64{
		uint64(unix.Major(f.Device))<<minorBits | uint64(unix.Minor(f.Device)),
		f.Inode,
		uint64(f.Size),
		uint64(f.Modified / 1e9),
		uint64(f.Modified % 1e9),
	} {
		binary.NativeEndian.PutUint64(key[8*i:], v)
	}
	return key
}
