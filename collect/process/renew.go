package process

import (
	"culprit/collect"
)

// renew reads again, in turn, what may change while a process sleeps.
func (r *processReading) renew(out *collect.Out) {
	over := out.Over().Seconds()
	w := &r.wants
	if w.rss || w.state || w.count || w.info || w.threads || w.long {
		r.renewStats(over)
	}
	if !w.info {
		return
	}
	for range r.facts.due(len(r.procs), over/renewInfo) {
		p := r.procs[r.facts.next(len(r.procs))]
		// A process changes its user and its command line itself, and the walk shows a change of
		// cgroup.
		if p.info != nil && (!r.walk.on() || p.ranSinceInfo || r.facts.round%renewStill == 0) {
			p.info.stale = true
		}
	}
	for _, p := range r.procs {
		if !p.dead && (p.info == nil || p.info.stale) {
			r.readInfo(p)
		}
	}
}

// renewStats reads the stat lines of processes that did not run: of all in turn, or of those whose
// line has changed by the walk. In the second case it limits their number, since all of them may
// change when memory is short.
func (r *processReading) renewStats(over float64) {
	r.renewed = r.renewed[:0]
	renew := func(p *process) {
		if p.head != nil && r.readStat(p) && r.line.start == p.stat.start {
			p.stat.rss, p.stat.state, p.stat.parent = r.line.rss, r.line.state, r.line.parent
			p.stat.virtual, p.stat.schedule = r.line.virtual, r.line.schedule
			p.statStale = false
		}
	}
	defer func() {
		r.readHeads()
		for _, p := range r.renewed {
			renew(p)
		}
		r.freeHeads()
	}()
	n := len(r.procs)
	due := r.fresh.due(n, over/renewStat)
	if !r.walk.on() || !r.walk.tasks.Resident() {
		for range due {
			if p := r.procs[r.fresh.next(n)]; !p.ran && !p.dead {
				r.renewed = append(r.renewed, p)
				r.askHead(p, false)
			}
		}
		return
	}
	due += renewLeast
	for range n {
		p := r.procs[r.fresh.next(n)]
		if !p.statStale || p.ran || p.dead {
			continue
		}
		r.renewed = append(r.renewed, p)
		r.askHead(p, false)
		if due--; due == 0 {
			return
		}
	}
}

const (
	renewStat  = 10 // seconds after which everything has been read again
	renewInfo  = 60
	renewLeast = 16 // stat lines in any reading, at 10 us each
	renewStill = 10 // rounds after which also the info of processes that did not run is read again
)

// cursor goes around a list.
type cursor struct {
	at      int
	round   int // how often it has started again
	pending float64
}

// due returns how many of n are due after the given part of a round.
func (c *cursor) due(n int, part float64) int {
	c.pending = min(c.pending+part*float64(n), float64(n))
	whole := int(c.pending)
	c.pending -= float64(whole)
	return whole
}

func (c *cursor) next(n int) int {
	if c.at >= n {
		c.at = 0
		c.round++
	}
	c.at++
	return c.at - 1
}
