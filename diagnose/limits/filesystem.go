package limits

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

func filesystemSpace() Kind {
	return Kind{
		id:   "filesystem",
		used: Source{facts.FilesystemSize, []string{"kind", "used"}},
		// As in df(1): without what is reserved for root.
		sizes: []Source{{facts.FilesystemSize, []string{"kind", "used"}},
			{facts.FilesystemSize, []string{"kind", "available"}}},
		owner:   []string{"mount", "device", "type"},
		skips:   skipFilesystem,
		more:    spaceEvidence,
		culprit: filesystemCulprit,
		verify:  func(r *diagnose.Row) string { return "df -h " + phrase.Shell(r.Word("mount")) },
		fix: func(r *diagnose.Row, size float64) *diagnose.Fix {
			if r.Word("type") != "tmpfs" {
				return nil
			}
			return remount(r, "size=%.0fk", size/1024, "medium: it takes that memory when used")
		},
		errors: errors{elsewhere: true,
			failed: func(l *diagnose.Look, owner, call *diagnose.Row) bool {
				return call.Word("error") == "ENOSPC" && usesFile(call.Word("syscall")) &&
					fullest(l, owner, filesystemSpace())
			},
		},
		words: words{
			things: "of space",
			amount: phrase.Bytes,
			next:   "the next write fails with ENOSPC",
			name:   filesystemName,
		},
	}
}

func filesystemInodes() Kind {
	return Kind{
		id:   "inodes",
		used: Source{facts.FilesystemInodes, []string{"kind", "used"}},
		sizes: []Source{{facts.FilesystemInodes, []string{"kind", "used"}},
			{facts.FilesystemInodes, []string{"kind", "available"}}},
		owner:   []string{"mount", "device", "type"},
		skips:   skipFilesystem,
		more:    doubtFilesystem,
		culprit: filesystemCulprit,
		verify:  func(r *diagnose.Row) string { return "df -i " + phrase.Shell(r.Word("mount")) },
		fix: func(r *diagnose.Row, size float64) *diagnose.Fix {
			if r.Word("type") != "tmpfs" {
				return nil
			}
			return remount(r, "nr_inodes=%.0f", size, "low: an inode takes 1 KiB when used")
		},
		errors: errors{elsewhere: true,
			failed: func(l *diagnose.Look, owner, call *diagnose.Row) bool {
				return call.Word("error") == "ENOSPC" && createsFile(call.Word("syscall")) &&
					fullest(l, owner, filesystemInodes())
			},
		},
		words: words{
			things: "inodes",
			amount: phrase.Count,
			next:   "the next new file fails with ENOSPC",
			name:   filesystemName,
		},
	}
}

// fullest reports whether no file system is fuller than this one, in space or inodes. A failed call
// does not report its file system.
func fullest(l *diagnose.Look, owner *diagnose.Row, k Kind) bool {
	own := shareOf(k, owner)
	for _, o := range []Kind{filesystemSpace(), filesystemInodes()} {
		for _, r := range l.Table(o.used.query).Where(o.used.terms...) {
			if shareOf(o, r) > own && !skipFilesystem(l, r) {
				return false
			}
		}
	}
	return true
}

// shareOf returns the latest share of the space or of the inodes of a file system in use.
func shareOf(k Kind, used *diagnose.Row) float64 {
	left := used.Table.One(append(slices.Clone(k.sizes[1].terms), "mount", used.Word("mount"),
		"device", used.Word("device"), "type", used.Word("type"))...).Last()
	return used.Last() / (used.Last() + left)
}

// doubtFilesystem adds a caveat when several file systems are as full as this one.
func doubtFilesystem(l *diagnose.Look, f *diagnose.Finding, u *use) {
	if u.failing() && !u.isNear {
		f.AddCaveat(0.3, "A failed call does not report its file system: it may be another one, "+
			"such as a network file system.")
	}
	others := 0
	for _, r := range u.table.Where(u.kind.used.terms...) {
		if r != u.owner && shareOf(u.kind, r) >= shareOf(u.kind, u.owner) &&
			!skipFilesystem(l, r) {
			others++
		}
	}
	if others > 0 && u.failing() {
		f.AddCaveat(0.3, "A failed call does not report its file system, and %s as full.",
			phrase.Plural(others, "other is", "others are"))
	}
}

// usesFile reports whether ENOSPC of a system call is about a file system.
func usesFile(call string) bool {
	switch call {
	case "inotify_add_watch", "fanotify_mark", "shmget", "semget", "msgget", "mq_open", "bpf",
		"perf_event_open", "add_key", "keyctl":
		return false
	}
	return true
}

// createsFile reports whether a system call may create a file.
func createsFile(call string) bool {
	for _, prefix := range []string{"open", "creat", "mkdir", "mknod", "symlink", "link", "rename",
		"bind"} {
		if strings.HasPrefix(call, prefix) {
			return true
		}
	}
	return false
}

// spaceEvidence adds the space that is reserved for root, and the programs that write most.
func spaceEvidence(l *diagnose.Look, f *diagnose.Finding, u *use) {
	doubtFilesystem(l, f, u)
	t := u.table
	total := t.One("kind", "total", "mount", u.owner.Word("mount"), "device",
		u.owner.Word("device"), "type", u.owner.Word("type"))
	if reserve := total.Last() - u.size; reserve > 0.001*u.size {
		f.AddEvidence(t, u.near, total.Query(), total.Last(), t.Unit,
			fmt.Sprintf("%s more are reserved for root", phrase.Bytes(reserve)))
	}
	if f.Severity == diagnose.Low {
		return
	}
	io := l.Table(facts.ProcessIO)
	if all := facts.Programs(io, io.Where("direction", "write"), nil); len(all) > 0 {
		f.AddEvidence(io, diagnose.WholePeriod(io), all[0].Query(io), all[0].Rate, io.Unit,
			fmt.Sprintf("%s writes %s, most of all, to some file system", all[0],
				phrase.BytesRate(all[0].Rate)))
	}
}

// remount doubles an option of a tmpfs.
func remount(r *diagnose.Row, option string, now float64, risk string) *diagnose.Fix {
	set := func(v float64) string {
		return "mount -o remount," + fmt.Sprintf(option, v) + " " + phrase.Shell(r.Word("mount"))
	}
	return &diagnose.Fix{Command: set(2 * now), Undo: set(now), Risk: risk}
}

func filesystemCulprit(r *diagnose.Row) diagnose.Culprit {
	return diagnose.Culprit{Kind: "filesystem", Name: r.Word("mount")}
}

func filesystemName(r *diagnose.Row) string {
	return fmt.Sprintf("File system %s (%s on %s)", phrase.Clean(r.Word("mount")),
		phrase.Clean(r.Word("type")), phrase.Clean(r.Word("device")))
}

// Full returns the mount of a file system of which nothing is left, "" when there is none. query is
// that of its space or of its inodes.
func Full(tables diagnose.Tables, query string) string {
	k := filesystemSpace()
	if query == facts.FilesystemInodes {
		k = filesystemInodes()
	}
	for _, r := range tables(query).Where(k.used.terms...) {
		if shareOf(k, r) >= threshold.LimitFull && !isSkipped(tables(facts.FilesystemAccess), r) {
			return r.Word("mount")
		}
	}
	return ""
}

// skipFilesystem reports whether a file system is read-only, or an overlay over another one that is
// listed: it has the size of that one.
func skipFilesystem(l *diagnose.Look, r *diagnose.Row) bool {
	return isSkipped(l.Table(facts.FilesystemAccess), r)
}

func isSkipped(access *diagnose.Table, r *diagnose.Row) bool {
	for _, a := range access.Where("mount", r.Word("mount"), "device",
		r.Word("device"), "type", r.Word("type")) {
		if a.Word("access") != "rw" && a.Last() > 0 {
			return true
		}
	}
	if r.Word("type") != "overlay" {
		return false
	}
	for _, o := range r.Table.Where("kind", r.Word("kind")) {
		if o.Word("type") != "overlay" && o.Last() == r.Last() {
			return true
		}
	}
	return false
}

// readOnlyFilesystems reports file systems that the kernel made read-only after an error.
func readOnlyFilesystems(l *diagnose.Look) {
	t := l.Table(facts.FilesystemAccess)
	for _, r := range t.Where("access", "failed") {
		s, ok := diagnose.Lasting(t, diagnose.HasValue(r),
			func(c int) bool { return r.At(c) > 0 })
		if !ok {
			continue
		}
		severity, text := diagnose.Medium, ""
		calls := l.Table(facts.FailedCalls)
		refused := calls.Where("error", "EROFS")
		var lost refusals
		lost.of(refused, calls, s.Known)
		if lost.cells >= threshold.LimitCells {
			severity = diagnose.High
			text = fmt.Sprintf(" %s calls per second fail with EROFS, of %s.",
				phrase.Count(lost.refused), facts.ProgramNames(calls, refused, nil))
		}
		id := "read-only:" + strings.TrimPrefix(phrase.Clean(r.Word("mount")), "/")
		f := l.Found(id, severity, 0.9,
			filesystemCulprit(r), filesystemName(r)+" is read-only although it is mounted "+
				"read-write: the kernel stopped writing after an error."+text)
		f.AddEvidence(t, s, r.Query(), 1, t.Unit,
			"it cannot be written for "+s.String())
		if text != "" {
			f.AddEvidence(calls, diagnose.WholePeriod(calls), calls.QueryOf(nil, "error", "EROFS"),
				lost.refused, calls.Unit, strings.TrimSpace(text))
		}
		f.Verify = "findmnt -o TARGET,OPTIONS,FS-OPTIONS " + phrase.Shell(r.Word("mount")) +
			"; dmesg | tail -50"
	}
}
