package lock

import (
	"bytes"

	"culprit/collect/procfs"
	"culprit/kernel/proc"
)

// A lockLine is a line of /proc/locks, or of "lock:" in /proc/PID/fdinfo.
type lockLine struct {
	waits bool   // the lock is waited for, not held
	kind  string // flock posix ofd lease
	// pid is the process that took the lock or waits for it. 0: it has ended, or belongs to
	// another PID namespace. -1: an OFD lock, which belongs to an open file.
	pid  int32
	file []byte // device and inode as in "fe:00:9977917"; a part of the line
}

// lockKind returns the kind of a lock by its word in /proc/locks (lock_get_status, fs/locks.c); ""
// for any other word.
func lockKind(word []byte) string {
	switch string(word) {
	case "FLOCK":
		return "flock"
	case "POSIX", "ACCESS":
		return "posix"
	case "OFDLCK":
		return "ofd"
	case "LEASE", "DELEG":
		return "lease"
	}
	return ""
}

// parseLockLine parses a line, with or without its number. It returns false for anything else.
//
//	2: FLOCK  ADVISORY  WRITE 9643 fe:00:9977917 0 EOF
//	2: -> FLOCK  ADVISORY  WRITE 9648 fe:00:9977917 0 EOF      waits for the lock above
//	3: OFDLCK ADVISORY  READ  -1 fe:00:10060125 0 EOF
//	4: LEASE  BREAKER   WRITE 9650 <none>:0 0 EOF
func parseLockLine(line []byte) (l lockLine, ok bool) {
	c := proc.Scan(line)
	word := c.Word()
	if !bytes.HasSuffix(word, []byte(":")) {
		return l, false
	}
	if word = c.Word(); string(word) == "->" {
		l.waits, word = true, c.Word()
	}
	l.kind = lockKind(word)
	c.Word() // ADVISORY MSNFS ACTIVE BREAKING BREAKER *NOINODE*
	mode := c.Word()
	pid := c.Int()
	l.file = c.Word()
	ok = c.Err() == nil && l.kind != "" && pid >= -1 && pid <= 1<<31-1 &&
		(string(mode) == "READ" || string(mode) == "WRITE" || string(mode) == "UNLCK")
	l.pid = int32(pid) //nolint:gosec // compared above
	return l, ok && bytes.Count(l.file, []byte(":")) <= 2 && len(l.file) <= mostFileName
}

// mostFileName is the longest device and inode: "ffffff:fffff:18446744073709551615".
const mostFileName = 40

// processStat is what /proc/PID/stat shows about a process.
type processStat struct {
	comm   []byte
	state  byte
	parent int32
}

// parseStat parses the first fields of /proc/PID/stat. The name may contain anything.
//
//	9648 (flock) S 6655 9648 ...
func parseStat(b []byte) (s processStat, ok bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open || end+1 >= len(b) {
		return s, false
	}
	c := proc.Scan(b[end+1:])
	state, parent := c.Word(), c.Uint()
	if c.Err() != nil || len(state) != 1 || parent > 1<<31-1 {
		return s, false
	}
	return processStat{comm: b[open+1 : end], state: state[0], parent: int32(parent)}, true
}

// lockedFile reports whether the fdinfo of an open file has a lock. Its holder does not count.
//
//	pos:	0
//	lock:	1: FLOCK  ADVISORY  WRITE 9643 fe:00:9977917 0 EOF
func lockedFile(fdinfo []byte, key lockKey) bool {
	for len(fdinfo) > 0 {
		var line []byte
		line, fdinfo = procfs.CutLine(fdinfo)
		rest, has := bytes.CutPrefix(line, []byte("lock:\t"))
		if !has {
			continue
		}
		l, ok := parseLockLine(rest)
		if ok && !l.waits && l.kind == key.kind && string(l.file) == key.file {
			return true
		}
	}
	return false
}
