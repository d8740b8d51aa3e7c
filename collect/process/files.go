package process

import (
	"bytes"
	"errors"
	"io/fs"
	"path"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// openFiles is how many files a process has open, and how many it may open.
type openFiles struct {
	counted bool // the number is known
	stale   bool // must be counted again
	number  int
	limit   uint64 // 0: none, or not known
}

// filesReading is the progress of counting open files in one reading.
type filesReading struct {
	denied int // processes whose files may not be listed
}

// renewFiles counts the open files of the processes that ran, since only those can have opened or
// closed any. Before Linux 6.2 the kernel has no counter and the files must be listed, at a
// microsecond each. Then each process is listed at most every renewStat seconds. Limits, which
// other processes can change, are read again every renewInfo seconds.
func (r *processReading) renewFiles(out *collect.Out) {
	if !r.wants.files {
		return
	}
	if r.listFiles == unknownYet {
		r.listFiles = yes
		if n, err := r.dir.OpenFiles(r.self); err == nil && n > 0 && r.root.Proc == "" {
			r.listFiles = no
		}
	}
	over := out.Over().Seconds()
	for range r.counts.due(len(r.procs), over/renewInfo) {
		p := r.procs[r.counts.next(len(r.procs))]
		p.files.limit = r.filesLimit(p.pid)
	}
	if r.listFiles == yes {
		for range r.lists.due(len(r.procs), over/renewStat) {
			r.procs[r.lists.next(len(r.procs))].files.stale = true
		}
	}
	for _, p := range r.procs {
		if !p.dead && !p.stat.kernel {
			r.countFiles(p)
		}
	}
}

func (r *processReading) countFiles(p *process) {
	f := &p.files
	fresh := !f.counted
	switch {
	case fresh, r.listFiles == no && p.ran, f.stale:
	default:
		return
	}
	n, err := 0, error(nil)
	if r.listFiles == no {
		n, err = r.dir.OpenFiles(p.pid)
	} else {
		r.tids, err = r.dir.ListFDs(p.pid, r.tids[:0])
		n = len(r.tids)
	}
	f.stale = false
	switch {
	case err == nil:
		f.counted, f.number = true, n
	case errors.Is(err, fs.ErrNotExist):
	default:
		r.files.denied++
		f.counted = false
	}
	if fresh && f.counted {
		f.limit = r.filesLimit(p.pid)
	}
}

func (r *processReading) filesLimit(pid int32) uint64 {
	b, err := r.readOnce(pid, "limits")
	if err != nil {
		return 0
	}
	return parseFilesLimit(b)
}

// parseFilesLimit returns the soft limit of open files in /proc/PID/limits; 0 if there is none.
//
//	Max open files            1024                 524288               files
func parseFilesLimit(b []byte) uint64 {
	_, after, ok := bytes.Cut(b, []byte("Max open files"))
	if !ok {
		return 0
	}
	c := proc.Scan(after)
	v := c.Uint() // "unlimited" is not a number
	if c.Err() != nil {
		return 0
	}
	return v
}

func (r *processReading) putFiles(out *collect.Out) {
	files, limits := out.Table("process.files"), out.Table("process.files.limit")
	if files == nil && limits == nil {
		return
	}
	for _, p := range r.procs {
		if p.dead || !p.files.counted || p.stat.state == 'Z' {
			continue
		}
		pid, name := p.name.of(out, p.pid, p.comm)
		files.Put(float64(p.files.number), pid, name)
		if p.files.limit > 0 {
			limits.Put(float64(p.files.limit), pid, name)
		}
	}
	if r.files.denied > 0 {
		files.Note("the open files of other users' processes cannot be counted by this user: " +
			"this kernel, before 6.2, has no counter of them")
	}
}

// visibilityStat declares process.visibility.
func visibilityStat() measure.Stat {
	return measure.Stat{
		ID:   "process.visibility",
		Kind: measure.Level,
		Unit: measure.Count,
		Fold: measure.Max,
		Help: "1: whether /proc shows the processes of the whole machine; the CPU time of " +
			"hidden processes is in no process",
		Fields: []measure.Field{{Name: "visible", Type: measure.Word, Help: "all or some"},
			{Name: "reason", Type: measure.Word, Help: "why not all: hidepid, pid namespace, " +
				"unreadable; else empty"}},
	}
}

// partInSight begins the notes of process.visibility. They are for people; programs read the
// statistic.
const partInSight = "not all processes of this machine are visible: "

// putVisibility puts whether all processes of the machine are visible. The kernel's threads belong
// to the first pid namespace and to root. So if process 2, kthreadd, is visible, the processes of
// all namespaces and all users are.
func (r *processReading) putVisibility(out *collect.Out) {
	reason := ""
	switch {
	case r.hidden && r.hide != "":
		reason = "hidepid"
	case r.kernelSeen():
		if r.hidden {
			reason = "unreadable"
		}
	case r.hide != "":
		reason = "hidepid"
	default:
		reason = "pid namespace"
	}
	if t := out.Table("process.visibility"); t != nil {
		visible := "all"
		if reason != "" {
			visible = "some"
		}
		t.Row(1, visible, reason)
	}
	switch reason {
	case "hidepid":
		out.NoteAll(partInSight + "/proc is mounted with hidepid")
	case "pid namespace":
		out.NoteAll(partInSight + "/proc is of a pid namespace, as in a container")
	case "unreadable":
		out.NoteAll("some processes in /proc may not be read")
	}
}

// kernelSeen reports whether the processes include a thread of the kernel.
func (r *processReading) kernelSeen() bool {
	for _, p := range r.procs[:min(len(r.procs), 64)] {
		if p.stat.kernel {
			return true
		}
	}
	return false
}

// hidePID returns the option hidepid of the mount of /proc: "" if there is none, or if it hides
// nothing ("0", "off").
func hidePID(dir *proc.Dir, buf []byte) string {
	b, err := dir.ReadFile("self/mountinfo", buf)
	if err != nil {
		return ""
	}
	hide := ""
	for _, m := range procfs.ParseMounts(b) {
		if m.Type != "proc" || m.Path != path.Clean(dir.Path()) {
			continue
		}
		hide = "" // a later mount covers an earlier one
		for _, o := range bytes.Split([]byte(m.Options), []byte(",")) {
			if v, ok := bytes.CutPrefix(o, []byte("hidepid=")); ok && string(v) != "0" &&
				string(v) != "off" {
				hide = string(v)
			}
		}
	}
	return hide
}

// tristate is a fact that may not be known yet.
type tristate uint8

const (
	unknownYet tristate = iota
	yes
	no
)
