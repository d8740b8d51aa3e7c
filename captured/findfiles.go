package captured

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

const (
	// leastDeleted is how many bytes of deleted files are reported.
	leastDeleted = 1e9
	// usualFiles is the usual limit of open files of a process, and nearFiles the share of it from
	// which on it is reported.
	usualFiles, nearFiles = 1024, 0.95
	// leastSlab is how many bytes of one cache of the kernel are reported, and slabShare the share
	// of the memory, if known.
	leastSlab, slabShare = 2e9, 0.1
)

// holder is a process with its open files.
type holder struct {
	name, pid string
	files     int
	deleted   float64
	first     *Row // of its files
	largest   *Row // of its deleted files
	unclosed  int  // sockets without a protocol
}

// descriptors judges lists of open files.
func (s *study) descriptors() {
	for _, t := range s.of(Descriptors) {
		all := holders(t)
		sum := 0.0
		for _, h := range all {
			sum += h.deleted
			s.openFiles(h)
		}
		slices.SortStableFunc(all, func(a, b *holder) int {
			return cmp.Compare(b.deleted, a.deleted)
		})
		if len(all) == 0 || sum < leastDeleted {
			s.shown["filesystem"] = s.shown["filesystem"] || len(all) > 0
			continue
		}
		h := all[0]
		severity := diagnose.Low
		if slices.ContainsFunc(s.report.Findings, func(f diagnose.Finding) bool {
			return f.Rule == "filesystem-full"
		}) {
			severity = diagnose.Medium
		}
		f := s.find("deleted-files", h.name, severity, 0.85, diagnose.Culprit{Kind: "process",
			Name: h.name, PID: pidOf(h.pid)}, fmt.Sprintf(
			"Deleted files hold %s: %s[%s] has %s of them open, mostly %s.", phrase.Memory(sum),
			phrase.Clean(h.name), h.pid, phrase.Memory(h.deleted),
			phrase.Clean(h.largest.Word("name"))))
		evidence(f, h.largest, h.largest.Num("size"), "B", "%s, descriptor %s",
			phrase.Memory(h.largest.Num("size")), phrase.Clean(h.largest.Word("fd")))
		caveat(f, "The space becomes free when the program closes the files or ends; "+
			"copytruncate or a signal to open its log again avoids it.")
		f.Verify = "lsof -nP +L1"
	}
}

func pidOf(s string) int {
	v, ok := number(s)
	if !ok || v < 0 || v > 1<<22 {
		return 0
	}
	return int(v)
}

// holders returns the processes of a list in their order. Descriptors that several processes share,
// and files that one process has open several times, hold their space once.
func holders(t *Table) []*holder {
	var all []*holder
	by, seen := map[string]*holder{}, map[string]bool{}
	for _, r := range t.Rows {
		h := by[r.Word("pid")]
		if h == nil {
			h = &holder{name: r.Word("command"), pid: r.Word("pid"), first: r}
			by[h.pid] = h
			all = append(all, h)
		}
		if fd := r.Word("fd"); fd != "" && fd[0] >= '0' && fd[0] <= '9' {
			h.files++
		}
		if r.Word("type") == "sock" && strings.Contains(r.Word("name"), "protocol") {
			h.unclosed++
		}
		key := r.Word("name") + " " + r.Word("size")
		if r.Word("deleted") == "" || r.Word("type") != "REG" || seen[key] ||
			strings.HasPrefix(r.Word("name"), "/dev/") ||
			strings.HasPrefix(r.Word("name"), "/memfd:") || !(r.Num("size") > 0) {
			continue
		}
		seen[key] = true
		h.deleted += r.Num("size")
		if h.largest == nil || r.Num("size") > h.largest.Num("size") {
			h.largest = r
		}
	}
	return all
}

// openFiles finds a process that is near the usual limit, or that leaks sockets.
func (s *study) openFiles(h *holder) {
	if h.unclosed >= leastUnclosed {
		f := s.find("connections-unclosed", h.name, diagnose.Medium, 0.75, diagnose.Culprit{
			Kind: "process", Name: h.name, PID: pidOf(h.pid)}, fmt.Sprintf(
			"%s[%s] has %d sockets that are neither connected nor closed.", phrase.Clean(h.name),
			h.pid, h.unclosed))
		evidence(f, h.first, float64(h.unclosed), "", "%d descriptors of type sock", h.unclosed)
		f.Verify = "lsof -nP -p " + phrase.Shell(h.pid)
	}
	if float64(h.files) < usualFiles*nearFiles || h.files > usualFiles {
		return
	}
	f := s.find("limit-reached", "files:"+h.name, diagnose.Low, 0.6, diagnose.Culprit{
		Kind: "process", Name: h.name, PID: pidOf(h.pid)}, fmt.Sprintf(
		"%s[%s] has %s files open; the usual limit is %s.", phrase.Clean(h.name), h.pid,
		phrase.Count(float64(h.files)), phrase.Count(usualFiles)))
	evidence(f, h.first, float64(h.files), "", "%d descriptors", h.files)
	caveat(f, "The list does not show the limit: grep 'open files' /proc/PID/limits does.")
	f.Verify = "grep 'open files' /proc/" + phrase.Shell(h.pid) + "/limits"
}

// slabs judges the caches of the kernel.
func (s *study) slabs() {
	for _, t := range s.of(Slabs) {
		r := largestSlab(t)
		if r == nil {
			continue
		}
		v, memory := r.Num("bytes"), s.memoryTotal()
		if v < leastSlab || memory > 0 && v < slabShare*memory {
			s.clear("kernel memory", "the largest cache is %s with %s (%s, %s)",
				phrase.Clean(r.Word("name")), phrase.Memory(v), t.Tool, r.Place())
			continue
		}
		name := r.Word("name")
		severity, why := diagnose.Low, "the kernel frees it when memory is short"
		if !isReclaimed(name) {
			severity, why = diagnose.Medium, "the kernel cannot free it: see whether it grows"
		}
		share := ""
		if memory > 0 {
			share = ", " + phrase.Percent(v/memory) + " of the memory"
		}
		f := s.find("kernel-memory", name, severity, 0.7, diagnose.Culprit{Kind: "memory",
			Name: name}, fmt.Sprintf("The kernel's cache %s takes %s%s; %s.", phrase.Clean(name),
			phrase.Memory(v), share, why))
		evidence(f, r, v, "B", "%s: %s in %s objects", phrase.Clean(name), phrase.Memory(v),
			phrase.Count(r.Num("objects")))
		f.Verify = "slabtop -o -s c | head -20; culprit caches"
	}
}

func largestSlab(t *Table) (most *Row) {
	for _, r := range t.Rows {
		if v := r.Num("bytes"); v == v && (most == nil || v > most.Num("bytes")) {
			most = r
		}
	}
	return most
}

// isReclaimed reports whether the kernel frees a cache when memory is short.
func isReclaimed(name string) bool {
	return name == "dentry" || name == "buffer_head" || name == "radix_tree_node" ||
		name == "xfs_buf" || name == "xfs_ili" || name == "extent_status" ||
		strings.HasPrefix(name, "kmalloc-rcl") || strings.HasPrefix(name, "ext4_extent") ||
		strings.Contains(name, "inode")
}

// memoryTotal returns the memory of the machine, in bytes; 0: no table shows it.
func (s *study) memoryTotal() float64 {
	for _, t := range s.of(Memory) {
		for _, r := range t.Rows {
			if !strings.HasPrefix(strings.ToLower(r.Word("name")), "swap") && r.Num("total") > 0 {
				return r.Num("total")
			}
		}
	}
	for _, t := range s.of(Counters) {
		if r := counters(t)["MemTotal"]; r != nil && t.Tool == "/proc/meminfo" {
			return zero(r.Num("value")) * 1024
		}
	}
	return 0
}

// queues judges the queues before interfaces.
func (s *study) queues() {
	for _, t := range s.of(Qdiscs) {
		for _, r := range t.Rows {
			dropped, sent := r.Num("dropped"), r.Num("packets")
			share := dropped / (dropped + sent)
			device := r.Word("device")
			if !(dropped >= leastLosses) || !(share >= threshold.QueueShare) ||
				s.find1("net-drops/"+device+"/queue") != nil {
				continue
			}
			severity := diagnose.Low
			if share >= threshold.DropsHigh {
				severity = diagnose.Medium
			}
			f := s.find("net-drops", device+"/queue", severity, 0.75, diagnose.Culprit{
				Kind: "interface", Name: device, Interface: device}, fmt.Sprintf(
				"The queue before %s (%s) has dropped %s packets, %s of all.", phrase.Clean(device),
				phrase.Clean(r.Word("kind")), phrase.Count(dropped), phrase.Percent(share)))
			evidence(f, r, dropped, "packet", "dropped %s of %s", phrase.Count(dropped),
				phrase.Count(dropped+sent))
			if v := r.Num("backlog"); v > 0 {
				evidence(f, r, v, "packet", "%s packets wait in it", phrase.Count(v))
			}
			caveat(f, "Counters since the queue was made: two readings show whether it goes on.")
			f.Verify = "tc -s qdisc show dev " + phrase.Shell(device)
		}
		if len(t.Rows) > 0 {
			s.clear("queues", "no queue drops a hundredth of its packets (%s, %s:%d)", t.Tool,
				t.File, t.Line)
		}
	}
}
