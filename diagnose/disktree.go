package diagnose

import (
	"slices"
	"sort"
	"strings"
)

// diskTree is which block device lies on which: a multipath disk on its paths, an array (md) on its
// disks, a mapping (dm: LVM, LUKS, multipath) on what it maps. Partitions stand for their disk.
type diskTree struct {
	kinds map[string]string   // by device: disk partition virtual path
	lower map[string][]string // what a device lies on directly
	head  map[string]string   // of a path: the disk that it is a path to
}

func diskTreeOf(info *Table) diskTree {
	t := diskTree{kinds: map[string]string{}, lower: map[string][]string{}, head: map[string]string{}}
	disk := map[string]string{} // of a partition
	for _, r := range info.Rows {
		name, parent := r.Word("device"), r.Word("parent")
		t.kinds[name] = r.Word("kind")
		if t.kinds[name] == "partition" {
			disk[name] = parent
		}
	}
	for _, r := range info.Rows {
		name, parent := r.Word("device"), r.Word("parent")
		switch t.kinds[name] {
		case "partition":
		case "path":
			if parent != "" {
				t.head[name] = parent
				t.lower[parent] = append(t.lower[parent], name)
			}
		default:
			for _, below := range strings.Split(parent, ",") {
				if whole := disk[below]; whole != "" {
					below = whole
				}
				if below != "" && below != name && !slices.Contains(t.lower[name], below) {
					t.lower[name] = append(t.lower[name], below)
				}
			}
		}
	}
	return t
}

// on reports whether a device lies on another, at any depth.
func (t diskTree) on(upper, lower string) bool {
	seen := map[string]bool{upper: true}
	for next := t.lower[upper]; len(next) > 0; {
		var deeper []string
		for _, name := range next {
			if name == lower {
				return true
			}
			if !seen[name] {
				seen[name] = true
				deeper = append(deeper, t.lower[name]...)
			}
		}
		next = deeper
	}
	return false
}

// above returns every device that lies on the named one.
func (t diskTree) above(name string) (all []string) {
	for upper := range t.lower {
		if t.on(upper, name) {
			all = append(all, upper)
		}
	}
	sort.Strings(all)
	return all
}

// diskGroup is full devices that are one trouble: they lie on one another, or one device lies on all
// of them that does not count its own work.
type diskGroup struct {
	members []*fullDisk
	joined  string // that device; "" none
}

// groups parts full devices into troubles. silent reports that a device does not count its own work.
func (t diskTree) groups(full []*fullDisk, silent func(device string) bool) (all []diskGroup) {
	joins := func(a, b *fullDisk) (string, bool) {
		if t.on(a.name, b.name) || t.on(b.name, a.name) {
			return "", true
		}
		for _, upper := range t.above(a.name) {
			if t.on(upper, b.name) && (silent(upper) || t.head[a.name] == upper && t.head[b.name] == upper) {
				return upper, true
			}
		}
		return "", false
	}
	left := slices.Clone(full)
	for len(left) > 0 {
		g := diskGroup{members: left[:1:1]}
		left = left[1:]
		for i := 0; i < len(g.members); i++ {
			left = slices.DeleteFunc(left, func(d *fullDisk) bool {
				upper, ok := joins(g.members[i], d)
				if ok {
					g.members = append(g.members, d)
					g.joined = max(g.joined, upper)
				}
				return ok
			})
		}
		all = append(all, g)
	}
	return all
}

// speaker returns the member that a finding names: the one device at the bottom; of several the lowest
// that lies on all of them; else the one with the longest queue.
func (g diskGroup) speaker(t diskTree) *fullDisk {
	var bottom []*fullDisk
	for _, d := range g.members {
		if !slices.ContainsFunc(g.members, func(o *fullDisk) bool { return t.on(d.name, o.name) }) {
			bottom = append(bottom, d)
		}
	}
	if len(bottom) == 1 && t.head[bottom[0].name] == "" {
		return bottom[0]
	}
	var over *fullDisk
	for _, d := range g.members {
		all := !slices.ContainsFunc(bottom, func(o *fullDisk) bool { return !t.on(d.name, o.name) })
		if all && (over == nil || t.on(over.name, d.name)) {
			over = d
		}
	}
	if over != nil {
		return over
	}
	return slices.MaxFunc(bottom, func(a, b *fullDisk) int {
		switch x, y := a.queue.Mean(a.s.mask), b.queue.Mean(b.s.mask); {
		case x > y:
			return 1
		case x < y:
			return -1
		}
		return strings.Compare(b.name, a.name)
	})
}

// others returns the members beside one, in the order of their names.
func (g diskGroup) others(of *fullDisk) (all []*fullDisk) {
	for _, d := range g.members {
		if d != of {
			all = append(all, d)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].name < all[j].name })
	return all
}
