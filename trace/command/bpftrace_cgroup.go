package command

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"culprit/kernel"
	"culprit/kernel/proc"
)

// mostCgroups is how many groups of a hierarchy are looked at for a path. Others have none.
const mostCgroups = 100_000

// cgroupPaths finds the paths of control groups by their IDs, in the hierarchies that are mounted.
type cgroupPaths struct {
	roots []cgroupRoot
	read  time.Time
	paths []map[uint64]string // by root: ID to path
}

// A cgroupRoot is a mounted hierarchy: "unified" for version 2, or the name of its directory.
type cgroupRoot struct{ name, path string }

// of returns "unified:/user.slice,memory:/user.slice": the paths of a group in the hierarchies
// whose names match a pattern. It is empty if there is none. Groups that are new are looked for
// once per second.
func (c *cgroupPaths) of(id uint64, pattern string) string {
	if !c.has(id) && time.Since(c.read) > time.Second {
		c.scan()
	}
	var out []string
	for i, root := range c.roots {
		fits, err := path.Match(pattern, root.name)
		if p := c.paths[i][id]; p != "" && (pattern == "" || fits && err == nil) {
			out = append(out, root.name+":"+p)
		}
	}
	return strings.Join(out, ",")
}

func (c *cgroupPaths) has(id uint64) bool {
	return slices.ContainsFunc(c.paths, func(m map[uint64]string) bool { return m[id] != "" })
}

// scan reads the directories of all hierarchies: version 2 first, then by name.
func (c *cgroupPaths) scan() {
	c.roots, c.paths = nil, nil
	defer func() { c.read = time.Now() }()
	mounted, err := proc.Cgroups(kernel.Root{})
	if err != nil {
		return
	}
	for _, g := range mounted {
		root := cgroupRoot{filepath.Base(g.Path), g.Path}
		if g.V2 {
			root.name = "unified"
		}
		c.roots = append(c.roots, root)
	}
	slices.SortStableFunc(c.roots, func(a, b cgroupRoot) int {
		if first := "unified"; (a.name == first) != (b.name == first) {
			if a.name == first {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	for _, root := range c.roots {
		c.paths = append(c.paths, cgroupsBelow(root.path))
	}
}

var errMany = errors.New("too many groups")

// cgroupsBelow returns the paths of the groups of a hierarchy by their IDs, the inodes.
func cgroupsBelow(root string) map[uint64]string {
	out := map[uint64]string{}
	// groups that end meanwhile are left out
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil
		}
		if len(out) == mostCgroups {
			return errMany
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			out[st.Ino] = cmp.Or(strings.TrimPrefix(name, root), "/")
		}
		return nil
	})
	return out
}
