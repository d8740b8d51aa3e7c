package process

import "culprit/collect/procfs"

// cpuClock follows the CPU time of one process or thread in nanoseconds.
//
// What the kernel gives: the sum of user and system time, exact (it is the scheduler's sum_exec_runtime, cputime_adjust in
// kernel/sched/cputime.c) but cut to ticks of 10 ms in each of its two parts; and, by another road (schedstat, taskstats),
// the run time in nanoseconds, which may lack threads that have ended. So the time in nanoseconds moves the
// clock, and the ticks hold it within the 20 ms in which they place it: a lost thread, a wrong start or a kernel that does not
// count can't carry it away. All that was given out is kept, so the sum over intervals is the total.
type cpuClock struct {
	usr, sys     uint64 // nanoseconds given out, or before the first reading
	shift        int64  // what is added to the estimate to bring it to the ticks
	lastU, lastS uint64 // ticks of the reading before, as nanoseconds
}

// slack is how far the time may be above its ticks: less than one in each part.
const slack = 2*procfs.TickNanoseconds - 1

// total gives the time that the two roads agree on.
func (c *cpuClock) total(run uint64, exact bool, u, s uint64) uint64 {
	low := u + s
	if !exact {
		return low
	}
	t := int64(run) + c.shift
	if at := max(min(t, int64(low+slack)), int64(low)); at != t {
		c.shift += at - t
		t = at
	}
	return uint64(t)
}

// start sets the clock without giving anything out.
func (c *cpuClock) start(run uint64, exact bool, u, s uint64) {
	*c = cpuClock{lastU: u, lastS: s}
	t := c.total(run, exact, u, s)
	c.usr, c.sys = u, s
	c.spread(t-u-s, u, s)
}

// advance gives the nanoseconds since the call before, of which the parts sum to the growth of the total. run is the exact run time
// if there is one; u and s are the ticks as nanoseconds.
func (c *cpuClock) advance(run uint64, exact bool, u, s uint64) (usr, sys uint64) {
	t := c.total(run, exact, u, s)
	before, beforeSys := c.usr+c.sys, c.sys
	if t > before {
		c.spread(t-before, u, s)
	}
	c.lastU, c.lastS = u, s
	grown := c.usr + c.sys - before
	return grown - (c.sys - beforeSys), c.sys - beforeSys
}

// spread adds d to usr and sys so that each stays within its ticks, in the proportion of the latest ticks where that leaves a choice.
func (c *cpuClock) spread(d, u, s uint64) {
	du, ds := u-min(u, c.lastU), s-min(s, c.lastS)
	if du+ds == 0 { // no tick: as in all its life
		du, ds = u+procfs.TickNanoseconds/2, s+procfs.TickNanoseconds/2
	}
	want := uint64(float64(d) * (float64(ds) / (float64(du) + float64(ds))))
	room := func(upper, has uint64) uint64 { return upper - min(upper, has) }
	least := max(room(s, c.sys), d-min(d, room(u+procfs.TickNanoseconds-1, c.usr)))
	most := min(room(s+procfs.TickNanoseconds-1, c.sys), d-min(d, room(u, c.usr)))
	want = min(max(min(want, most), least), d)
	c.sys += want
	c.usr += d - want
}
