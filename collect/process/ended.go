package process

import (
	"errors"
	"io/fs"
	"sort"
)

// total returns the CPU time of p's rows, plus what p had before it was first seen, including its
// children.
func (p *process) total(tick uint64) float64 {
	return float64(p.clock.usr + p.clock.sys + (p.stat.childUsr+p.stat.childSys)*tick)
}

// subtractEnded subtracts the rows of ended processes from what their parents received.
func (r *processReading) subtractEnded() {
	for _, g := range r.gone {
		r.passToAncestor(g)
	}
	tick := float64(r.tick)
	for i := 0; i < len(r.procs); i++ {
		p := r.procs[i]
		k := &p.kids
		if !p.ran || !k.waited {
			continue
		}
		if r.wants.short && k.grown > k.rows {
			r.findEnded(p)
		}
		k.leftOver += k.grown - k.rows
		if k.leftOver > 0 {
			p.delta.short, k.leftOver = k.leftOver, 0
		}
		k.leftOver = max(k.leftOver, -2*tick)
		io := &k.rowsIO
		for j, v := range [...]uint64{io.read, io.write, io.rchar, io.wchar} {
			if d := &p.delta.io[j]; *d == *d {
				*d = max(0, *d-float64(v))
			}
		}
	}
}

// passToAncestor adds g's rows to its nearest living ancestor: those between ended in this interval
// too.
func (r *processReading) passToAncestor(g *process) {
	parent := g.stat.parent
	for range 64 { // stops at a longer chain, or a circle of reused pids
		i := sort.Search(len(r.procs), func(i int) bool { return r.procs[i].pid >= parent })
		if i < len(r.procs) && r.procs[i].pid == parent && !r.procs[i].dead {
			k := &r.procs[i].kids
			k.rows += g.total(r.tick)
			k.rowsIO = k.rowsIO.add(g.io)
			return
		}
		var next *process
		for _, other := range r.gone {
			if other.pid == parent {
				next = other
				break
			}
		}
		if next == nil || next == g {
			return
		}
		parent = next.stat.parent
	}
}

// findEnded finds children of p that ended after they were read in this reading, so that p already
// has their time.
func (r *processReading) findEnded(p *process) {
	for _, c := range r.procs {
		if c.stat.parent != p.pid || c.dead || !c.known {
			continue
		}
		if t := c.total(r.tick); t < float64(r.tick)/2 ||
			t > p.kids.grown-p.kids.rows+2*float64(r.tick) {
			continue
		}
		if _, err := r.readOnce(c.pid, "status"); errors.Is(err, fs.ErrNotExist) {
			r.markEnded(c)
			r.passToAncestor(c)
		}
	}
}
