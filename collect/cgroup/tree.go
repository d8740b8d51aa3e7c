package cgroup

import (
	"os"
	"time"

	"culprit/collect/procfs"
	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

func readLink(path string) (string, error) { return os.Readlink(path) }

// openFilesLimit returns how many files this process may have open.
func openFilesLimit() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return 1024
	}
	return int(min(l.Cur, 1<<20))
}

// due reports whether the tree must be walked now. The kernel's number of groups shows that some
// came or went: /proc/cgroups in version 1, cgroup.stat in version 2. /proc/cgroups includes
// removed groups that still hold memory. So a new group and the end of an old one may cancel, and
// the tree is also walked now and then. After a long walk the next one waits a hundred times as
// long.
func (r *cgroupReading) due(t *cgroupTree) bool {
	count, known := r.count(t)
	due := t.order == nil || t.dirty || !known || count != t.count || t.readings >= cgroupRewalk
	if due && t.order != nil && time.Since(t.walked) < 100*t.cost {
		t.late = true
		return false
	}
	if due {
		if t.readings >= cgroupRewalk && count == t.count {
			t.late = true // groups found now may have begun long ago
		}
		t.count = count
	}
	return due
}

func (r *cgroupReading) count(t *cgroupTree) (uint64, bool) {
	if t.v2 {
		if t.counter == nil {
			f, err := proc.Open(t.dir + "/cgroup.stat")
			if err != nil {
				return 0, false
			}
			t.counter = f
		}
		b, err := t.counter.ReadOneInto(r.buf)
		r.buf = b
		if err != nil {
			return 0, false
		}
		return parseCgroupCount(b, "nr_descendants", 0)
	}
	if r.numbers == nil {
		return 0, false
	}
	if r.counts == nil { // one reading for all hierarchies
		b, err := r.numbers.ReadOne()
		if err != nil || b == nil {
			b = []byte{}
		}
		r.counts = b
	}
	return parseCgroupCount(r.counts, t.controller, 1)
}

// parseCgroupCount finds the line that begins with name, skips as many words and returns the next
// number: "memory 4 15 1" in /proc/cgroups (controller, hierarchy, groups, enabled),
// "nr_descendants 3" in cgroup.stat.
func parseCgroupCount(b []byte, name string, skip int) (uint64, bool) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		c := proc.Scan(line)
		if string(c.Word()) != name {
			continue
		}
		c.Skip(skip)
		v := c.Uint()
		return v, c.Err() == nil
	}
	return 0, false
}

// walk updates the tree. The link count of a cgroup directory is 2 plus one for each group in it
// (kernfs_refresh_inode). A directory is read only if the count has changed or a group in it has
// gone. On file systems with other link counts it is read each time.
func (r *cgroupReading) walk(t *cgroupTree) {
	start := time.Now()
	first := t.order == nil
	born := r.round
	if first || t.late {
		born = 0
	}
	for _, n := range t.order {
		if n.gone {
			continue
		}
		n.absent = 0
	}
	t.order = t.order[:0]
	t.tooMany = false
	r.visit(t, t.root, born)
	t.dirty, t.late, t.readings = false, false, 0
	t.walked, t.cost = start, time.Since(start)
}

func (r *cgroupReading) visit(t *cgroupTree, n *cgroupNode, born int) {
	if len(t.order) >= mostCgroups {
		t.tooMany = true
		return
	}
	t.order = append(t.order, n)
	var st unix.Stat_t
	if unix.Stat(n.dir, &st) != nil {
		return // gone meanwhile; reading it fails
	}
	again := int64(st.Nlink) != n.links || st.Nlink < 2
	for _, c := range n.children {
		again = again || c.gone
	}
	if again {
		n.links = int64(st.Nlink)
		r.list(n, born)
	}
	for _, c := range n.children {
		r.visit(t, c, born)
	}
}

// list reads the directory of a group and adds the groups in it.
func (r *cgroupReading) list(n *cgroupNode, born int) {
	old := map[string]*cgroupNode{}
	for _, c := range n.children {
		if !c.gone {
			old[c.dir] = c
		}
	}
	n.children = n.children[:0]
	if d, err := proc.OpenDir(n.dir); err == nil {
		err := d.Names(func(name []byte, isDir bool) bool {
			if !isDir {
				return true
			}
			dir := n.dir + "/" + string(name)
			c := old[dir]
			if c == nil {
				parent := n.name.path
				if parent == "/" {
					parent = ""
				}
				c = r.node(n, dir, r.name(parent+"/"+string(name)), born)
			}
			delete(old, dir)
			n.children = append(n.children, c)
			return true
		})
		d.Close()
		if err != nil {
			n.links = -1
		}
	}
	for _, c := range old {
		r.remove(c)
	}
}

// remove removes a group and all in it.
func (r *cgroupReading) remove(n *cgroupNode) {
	n.gone = true
	r.drop(n)
	for _, c := range n.children {
		r.remove(c)
	}
}
