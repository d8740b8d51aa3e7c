package process

import "culprit/collect/procfs"

// cpuClock follows the CPU time of one process or thread in nanoseconds.
//
// The kernel shows two numbers. The sum of user and system time is exact (the scheduler's
// sum_exec_runtime, cputime_adjust in kernel/sched/cputime.c), but both parts are cut to ticks of
// 10 ms. The run time of schedstat and taskstats is in nanoseconds, but may lack threads that have
// ended.
//
// So the run time advances the clock, and the ticks keep it within the 20 ms in which they place
// it. A lost thread, a wrong start or a kernel that does not count cannot make it drift. The clock
// remembers all time that it returned, so the sum over intervals is the total.
type cpuClock struct {
	usr, sys     uint64 // nanoseconds returned, or before the first reading
	shift        int64  // added to the run time to agree with the ticks
	lastU, lastS uint64 // ticks of the previous reading in nanoseconds
}

// slack is how far the time may be above its ticks: less than one in each part.
const slack = 2*procfs.TickNanoseconds - 1

// above returns by how much the run time is more than the ticks allow; negative if it is less.
func (c *cpuClock) above(run, u, s uint64) int64 {
	return int64(run) + c.shift - int64(u+s+slack)
}

// total returns the time on which both numbers agree.
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

// start sets the clock and returns no time.
func (c *cpuClock) start(run uint64, exact bool, u, s uint64) {
	*c = cpuClock{lastU: u, lastS: s}
	t := c.total(run, exact, u, s)
	c.usr, c.sys = u, s
	c.spread(t-u-s, u, s)
}

// advance returns the nanoseconds since the previous call. Their sum is the growth of the total.
// run is the run time if exact is true; u and s are the ticks in nanoseconds.
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

// spread adds d to usr and sys so that each stays within its ticks. Within that it uses the
// proportion of the latest ticks.
func (c *cpuClock) spread(d, u, s uint64) {
	du, ds := u-min(u, c.lastU), s-min(s, c.lastS)
	if du+ds == 0 { // no tick: the proportion of its whole life
		du, ds = u+procfs.TickNanoseconds/2, s+procfs.TickNanoseconds/2
	}
	want := uint64(float64(d) * (float64(ds) / (float64(du) + float64(ds))))
	below := func(upper, has uint64) uint64 { return upper - min(upper, has) }
	least := max(below(s, c.sys), d-min(d, below(u+procfs.TickNanoseconds-1, c.usr)))
	most := min(below(s+procfs.TickNanoseconds-1, c.sys), d-min(d, below(u, c.usr)))
	want = min(max(min(want, most), least), d)
	c.sys += want
	c.usr += d - want
}
