package sampler

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/probe"

	"golang.org/x/sys/unix"
)

// cgroupPaths are the paths of control groups by ID, of one hierarchy. A group that is removed
// within a second of its creation has no path.
type cgroupPaths struct {
	id    string // the expression of D for the ID of the current thread's group
	at    proc.Cgroup
	paths map[uint64]string
	next  time.Time // no reading before it
}

// mostCgroups is how many control groups have paths.
const mostCgroups = 1 << 17

// newCgroupPaths returns the paths of the hierarchy in which containers are. The error is a
// measure.ErrUnsupported when no hierarchy is mounted.
func newCgroupPaths(env *probe.Env) (*cgroupPaths, error) {
	all, err := proc.Cgroups(env.Root())
	if err != nil {
		return nil, err
	}
	at := containerHierarchy(all)
	if at == nil {
		return nil, fmt.Errorf("no control groups are mounted: %w", measure.ErrUnsupported)
	}
	group := "curthread->cgroups->dfl_cgrp"
	if !at.V2 {
		spec, err := env.BTF()
		if err != nil {
			return nil, err
		}
		n, err := subsystem(spec, at.Controllers)
		if err != nil {
			return nil, err
		}
		group = fmt.Sprintf("curthread->cgroups->subsys[%d]->cgroup", n)
	}
	return &cgroupPaths{id: group + "->kn->id", at: *at, paths: map[uint64]string{}}, nil
}

// containerHierarchy returns the hierarchy in which runtimes put containers; nil: there is none.
// Runtimes limit memory; where version 1 has that controller, version 2 may lack the containers.
func containerHierarchy(all []proc.Cgroup) *proc.Cgroup {
	var found *proc.Cgroup
	best := 0
	for i := range all {
		c, rank := &all[i], 0
		switch {
		case slices.Contains(c.Controllers, "memory"):
			rank = 4
		case slices.Contains(c.Controllers, "pids"), slices.Contains(c.Controllers, "cpu"):
			rank = 3
		case len(c.Controllers) > 0:
			rank = 2
		case c.V2:
			rank = 1
		}
		if rank > best {
			found, best = c, rank
		}
	}
	return found
}

// withCgroups returns a copy of the profile that knows control groups, if they are requested. The
// error is that of newCgroupPaths.
func (p *Profile) withCgroups(env *probe.Env) (*Profile, error) {
	if !p.ByCgroup {
		return p, nil
	}
	own := *p
	var err error
	if own.groups, err = newCgroupPaths(env); err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	own.groups.readAll()
	return &own, nil
}

// cgroupsCost is how many times its own duration passes after a reading.
const cgroupsCost = 100

// read adds the groups that exist now, unless the previous reading was expensive. Without p it does
// nothing.
func (p *cgroupPaths) read() {
	if p != nil && time.Now().After(p.next) {
		p.readAll()
	}
}

// readAll adds the groups that exist now. Without p it does nothing.
func (p *cgroupPaths) readAll() {
	if p == nil {
		return
	}
	began := time.Now()
	defer func() { p.next = time.Now().Add(cgroupsCost * time.Since(began)) }()
	_ = filepath.WalkDir(p.at.Path, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() { // a group that is removed meanwhile
			return nil
		}
		if len(p.paths) >= mostCgroups {
			return fs.SkipAll
		}
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			p.paths[st.Ino] = filepath.Join("/", p.at.Part, strings.TrimPrefix(dir, p.at.Path))
		}
		return nil
	})
}

// path returns the path of a group; "": unknown. Without p it is "".
func (p *cgroupPaths) path(id uint64) string {
	if p == nil {
		return ""
	}
	return p.paths[id]
}
