package proc

import (
	"fmt"
	"slices"
	"strings"

	"culprit/kernel"
)

// Mount is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)), escapes undone.
type Mount struct {
	Major, Minor uint32 // of the file system's device, as st_dev of files in it
	Root         string // the mounted part of the file system: "/" is all of it
	Point        string // where
	Type         string // "ext4", "cgroup2" ...
	Source       string // "/dev/vda1", "cgroup", "none" ...
	Options      string // of this mount: "rw,relatime"
	Super        string // of the file system: "rw,cpu,cpuacct"
}

// ParseMounts parses a whole mountinfo. Malformed lines are left out and counted in bad.
func ParseMounts(b []byte) (mounts []Mount, bad int) {
	for c := Scan(b); !c.End(); {
		line := c.Line()
		if len(line) == 0 {
			continue
		}
		if m, ok := parseMount(line); ok {
			mounts = append(mounts, m)
		} else {
			bad++
		}
	}
	return mounts, bad
}

// parseMount parses a line:
//
//	ID parent major:minor root point options [optional ...] - type source super
func parseMount(line []byte) (m Mount, ok bool) {
	text := func(b []byte) string { return string(AppendUnescaped(nil, b)) }
	c := Scan(line)
	c.Skip(2)
	device := Scan(c.Word())
	major, errMajor := ParseUint(device.Until(':'))
	minor, errMinor := ParseUint(device.Rest())
	m.Root, m.Point, m.Options = text(c.Word()), text(c.Word()), text(c.Word())
	for {
		w := c.Word()
		if w == nil {
			return Mount{}, false
		}
		if string(w) == "-" {
			break
		}
	}
	m.Type = text(c.Word())
	// An empty source is written as nothing between two spaces.
	rest := string(c.Rest())
	if parts := strings.Split(strings.TrimPrefix(rest, " "), " "); len(parts) >= 2 {
		m.Source, m.Super = text([]byte(parts[0])), text([]byte(parts[1]))
	}
	if errMajor != nil || errMinor != nil || major > 1<<32-1 || minor > 1<<32-1 || m.Point == "" ||
		m.Type == "" {
		return Mount{}, false
	}
	m.Major, m.Minor = uint32(major), uint32(minor)
	return m, true
}

// Mounts lists the mounts of this process. The error is of /proc/self/mountinfo.
func Mounts(r kernel.Root) ([]Mount, error) {
	b, err := ReadProc(r, "self/mountinfo", nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.InProc("self/mountinfo"), err)
	}
	mounts, _ := ParseMounts(b)
	return mounts, nil
}

// Cgroup is a mounted hierarchy of control groups.
type Cgroup struct {
	// of its root group, moved below Root.Sys if it is below /sys
	Path string `json:"path"`
	V2   bool   `json:"v2"`
	// v1: "cpu", "cpuacct" ...; v2: of cgroup.controllers; none: it only groups
	Controllers []string `json:"controllers"`
	// mounted part: "/" is all of it, or of this cgroup namespace
	Part string `json:"part"`
}

// Cgroups lists the mounted hierarchies of control groups, v1 and v2, one for each mount. Many
// machines have v1 controllers and a v2 hierarchy without controllers. The error is that of Mounts.
func Cgroups(r kernel.Root) ([]Cgroup, error) {
	mounts, err := Mounts(r)
	if err != nil {
		return nil, err
	}
	var list []Cgroup
	for _, m := range mounts {
		g := Cgroup{Path: m.Point, Part: m.Root, V2: m.Type == "cgroup2", Controllers: []string{}}
		if rest, ok := strings.CutPrefix(m.Point, "/sys/"); ok {
			g.Path = r.InSys(rest)
		}
		switch m.Type {
		case "cgroup":
			for _, o := range strings.Split(m.Super, ",") {
				if slices.Contains(v1Controllers[:], o) {
					g.Controllers = append(g.Controllers, o)
				}
			}
		case "cgroup2":
			if b, err := ReadFile(g.Path+"/cgroup.controllers", nil); err == nil {
				g.Controllers = append(g.Controllers, strings.Fields(string(b))...)
			}
		default:
			continue
		}
		list = append(list, g)
	}
	return list, nil
}

// v1Controllers are the controllers among the options of a v1 mount
// (include/linux/cgroup_subsys.h).
var v1Controllers = [...]string{"cpuset", "cpu", "cpuacct", "blkio", "memory", "devices", "freezer",
	"net_cls", "perf_event", "net_prio",
	"hugetlb", "pids", "rdma", "misc", "debug"}
