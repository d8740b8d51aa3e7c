package symbol

import (
	"slices"
	"strings"
	"time"

	"culprit/kernel/bpf"
)

// What processes map is read from /proc now and then. Of those that are watched by a bpf.MapWatch
// each mapping is known from its first instruction on, also when it was gone before anybody looked.

// mostFormer is how many former layouts of a process are kept.
const mostFormer = 8

// Follow applies the events of a bpf.MapWatch. It returns the processes whose mappings changed,
// each once, and those that ended.
func (ps *Processes) Follow(events []bpf.MapEvent) (changed, ended []int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	change := func(pid int) {
		if !slices.Contains(changed, pid) {
			changed = append(changed, pid)
		}
	}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case bpf.Forked:
			if parent := ps.procs[e.Parent]; parent != nil {
				ps.put(parent.fork(ps, e.PID))
				change(e.PID)
			}
		case bpf.Executed:
			p := ps.followed(e.PID)
			p.watched = true
			p.retire()
			p.maps, p.keys, p.exe, p.inside, p.jit, p.frames = nil, map[int]fileKey{}, "", 0,
				jitMap{}, frameCheck{}
			ps.renew(p)
		case bpf.Mapped:
			p, m := ps.followed(e.PID), mappingOf(e)
			p.watched = true
			if i := find(p.maps, m.Start); m.Inode == 0 && i >= 0 && p.maps[i].Inode == 0 &&
				m.End <= p.maps[i].End {
				continue // a compiler that may write where it executes in turns
			}
			p.insert(m)
			ps.renew(p)
			if m.Inode != 0 {
				ps.holdFile(p, find(p.maps, m.Start))
				change(e.PID)
			}
		case bpf.Ended:
			changed = slices.DeleteFunc(changed, func(pid int) bool { return pid == e.PID })
			ended = append(ended, e.PID)
		case bpf.MapsLost:
			for _, p := range ps.procs {
				p.read = time.Time{} // read again when an address is not found
			}
		}
	}
	return changed, ended
}

// followed returns a process whose mappings are reported one by one.
func (ps *Processes) followed(pid int) *process {
	if p := ps.procs[pid]; p != nil {
		return p
	}
	p := &process{pid: pid, keys: map[int]fileKey{}, checked: time.Now()}
	p.start, _, _ = ps.stat(pid) // 0: it has ended
	ps.userOf(p)
	ps.put(p)
	return p
}

// put stores a process.
func (ps *Processes) put(p *process) {
	delete(ps.procs, p.pid)
	ps.makeSpace(p.cost())
	ps.tick++
	p.used = ps.tick
	ps.procs[p.pid] = p
}

// renew assigns a new number to the mappings of a process.
func (ps *Processes) renew(p *process) {
	ps.reads++
	p.reading = ps.reads
}

// fork returns a process with the mappings of p.
func (p *process) fork(ps *Processes, pid int) *process {
	child := *p
	child.pid, child.inside, child.jit, child.frames, child.checked = pid, 0, jitMap{},
		frameCheck{}, time.Now()
	child.start, _, _ = ps.stat(pid)
	child.keys = make(map[int]fileKey, len(p.keys))
	for i, key := range p.keys {
		child.keys[i] = key
	}
	child.former = slices.Clone(p.former)
	ps.renew(&child)
	return &child
}

// retire makes the current layout a former one.
func (p *process) retire() {
	if len(p.maps) == 0 {
		return
	}
	old := *p
	old.former = nil
	p.former = append(p.former, &old)
	if len(p.former) > mostFormer {
		p.former = slices.Delete(p.former, 0, 1)
	}
}

// lookup returns the mapping of an address: the current one, else the last former one; -1: none.
func (p *process) lookup(addr uint64) (*process, int) {
	if i := find(p.maps, addr); i >= 0 {
		return p, i
	}
	for _, old := range slices.Backward(p.former) {
		if i := find(old.maps, addr); i >= 0 {
			return old, i
		}
	}
	return p, -1
}

// mappingOf returns the mapping of an event.
func mappingOf(e *bpf.MapEvent) Mapping {
	m := Mapping{Start: e.Start, End: e.Start + e.Length, Offset: e.Offset, Exec: true,
		Device: e.Device, Inode: e.Inode, Path: e.Path}
	switch {
	case m.Inode != 0:
		m.Path, m.Deleted = strings.CutSuffix(m.Path, " (deleted)")
	case m.Path == "//anon":
		m.Path = ""
	}
	return m
}

// insert adds a mapping to a process and removes what it overlaps.
func (p *process) insert(m Mapping) {
	maps := make([]Mapping, 0, len(p.maps)+2)
	keys := make(map[int]fileKey, len(p.keys))
	placed := false
	place := func() {
		if !placed {
			maps, placed = append(maps, m), true
		}
	}
	add := func(o Mapping, was int) {
		if o.Start >= m.End {
			place()
		}
		if key, ok := p.keys[was]; ok {
			keys[len(maps)] = key
		}
		maps = append(maps, o)
	}
	for i, o := range p.maps {
		if o.End <= m.Start || o.Start >= m.End {
			add(o, i)
			continue
		}
		if o.Start < m.Start {
			left := o
			left.End = m.Start
			add(left, i)
		}
		if o.End > m.End {
			right := o
			right.Start, right.Offset = m.End, o.Offset+m.End-o.Start
			add(right, i)
		}
	}
	place()
	p.maps, p.keys = maps, keys
}

// containsAll reports whether maps contain all code of old, at the same place of the same files.
func containsAll(maps, old []Mapping) bool {
	for _, o := range old {
		if !o.Exec || o.Inode == 0 {
			continue
		}
		i := find(maps, o.Start)
		if i < 0 || o.End > maps[i].End || maps[i].Inode != o.Inode || maps[i].Path != o.Path ||
			maps[i].Offset+o.Start-maps[i].Start != o.Offset {
			return false
		}
	}
	return true
}
