package facts

import (
	"slices"
	"sort"
	"strings"

	"culprit/diagnose"
)

// DiskTree is the stack of block devices: a multipath disk is on its paths, an array (md) on its
// disks, a mapping (dm: LVM, LUKS, multipath) on what it maps. Partitions represent their disk.
type DiskTree struct {
	Kinds map[string]string   // by device: disk partition virtual path
	lower map[string][]string // what a device is on directly
	Head  map[string]string   // of a path: its multipath disk
}

// DiskTreeOf reads the rows of disk.info.
func DiskTreeOf(info *diagnose.Table) DiskTree {
	t := DiskTree{Kinds: map[string]string{}, lower: map[string][]string{},
		Head: map[string]string{}}
	disk := map[string]string{} // of a partition
	for _, r := range info.Rows {
		name, parent := r.Word("device"), r.Word("parent")
		t.Kinds[name] = r.Word("kind")
		if t.Kinds[name] == "partition" {
			disk[name] = parent
		}
	}
	for _, r := range info.Rows {
		name, parent := r.Word("device"), r.Word("parent")
		switch t.Kinds[name] {
		case "partition":
		case "path":
			if parent != "" {
				t.Head[name] = parent
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

// On reports whether a device is on another, at any depth.
func (t DiskTree) On(upper, lower string) bool {
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

// above returns every device that is on the named one.
func (t DiskTree) above(name string) (all []string) {
	for upper := range t.lower {
		if t.On(upper, name) {
			all = append(all, upper)
		}
	}
	sort.Strings(all)
	return all
}

// DiskGroup is full devices that are one fault: they are on one another, or all below one device
// that does not count its own work.
type DiskGroup struct {
	Members []*Disk
	Joined  string // that device; "" none
}

// Groups divides full devices into faults. silent reports that a device does not count its own
// work.
func (t DiskTree) Groups(full []*Disk, silent func(device string) bool) (all []DiskGroup) {
	joins := func(a, b *Disk) (string, bool) {
		if t.On(a.Name, b.Name) || t.On(b.Name, a.Name) {
			return "", true
		}
		for _, upper := range t.above(a.Name) {
			if t.On(upper, b.Name) &&
				(silent(upper) || t.Head[a.Name] == upper && t.Head[b.Name] == upper) {
				return upper, true
			}
		}
		return "", false
	}
	left := slices.Clone(full)
	for len(left) > 0 {
		g := DiskGroup{Members: left[:1:1]}
		left = left[1:]
		for i := 0; i < len(g.Members); i++ {
			left = slices.DeleteFunc(left, func(d *Disk) bool {
				upper, ok := joins(g.Members[i], d)
				if ok {
					g.Members = append(g.Members, d)
					g.Joined = max(g.Joined, upper)
				}
				return ok
			})
		}
		all = append(all, g)
	}
	return all
}

// Representative returns the member that a finding names: the only device at the bottom; else the
// lowest device that is on all of those; else the one with the longest queue.
func (g DiskGroup) Representative(t DiskTree) *Disk {
	var bottom []*Disk
	for _, d := range g.Members {
		if !slices.ContainsFunc(g.Members, func(o *Disk) bool { return t.On(d.Name, o.Name) }) {
			bottom = append(bottom, d)
		}
	}
	if len(bottom) == 1 && t.Head[bottom[0].Name] == "" {
		return bottom[0]
	}
	var over *Disk
	for _, d := range g.Members {
		all := !slices.ContainsFunc(bottom, func(o *Disk) bool { return !t.On(d.Name, o.Name) })
		if all && (over == nil || t.On(over.Name, d.Name)) {
			over = d
		}
	}
	if over != nil {
		return over
	}
	return slices.MaxFunc(bottom, func(a, b *Disk) int {
		switch x, y := a.Queue.Mean(a.Period.Mask), b.Queue.Mean(b.Period.Mask); {
		case x > y:
			return 1
		case x < y:
			return -1
		}
		return strings.Compare(b.Name, a.Name)
	})
}

// Others returns the members beside one, in the order of their names.
func (g DiskGroup) Others(of *Disk) (all []*Disk) {
	for _, d := range g.Members {
		if d != of {
			all = append(all, d)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
