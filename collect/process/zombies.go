package process

import (
	"cmp"
	"slices"

	"culprit/collect"
)

// putZombies puts how many ended children each process has not waited for. The first thread of a
// program may end before its other threads: such a program is no zombie.
func (r *processReading) putZombies(out *collect.Out) {
	t := out.Table("process.zombies")
	if t == nil {
		return
	}
	r.parents = r.parents[:0]
	for _, p := range r.procs {
		if !p.dead && p.stat.state == 'Z' && p.stat.threads <= 1 {
			r.parents = append(r.parents, p.stat.parent)
		}
	}
	slices.Sort(r.parents)
	for i, next := 0, 0; i < len(r.parents); i = next {
		pid := r.parents[i]
		for next = i; next < len(r.parents) && r.parents[next] == pid; next++ {
		}
		number, name := out.Number(int64(pid)), out.Label("")
		if p := r.find(pid); p != nil {
			number, name = p.name.of(out, p.pid, p.comm)
		}
		t.Put(float64(next-i), number, name)
	}
}

// find returns the process with a pid; nil when it is not visible.
func (r *processReading) find(pid int32) *process {
	i, ok := slices.BinarySearchFunc(r.procs, pid, func(p *process, pid int32) int {
		return cmp.Compare(p.pid, pid)
	})
	if !ok {
		return nil
	}
	return r.procs[i]
}
