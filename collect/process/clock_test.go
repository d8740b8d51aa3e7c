package process

import (
	"math"
	"math/rand/v2"
	"testing"

	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/measure"
)

// A process runs and sleeps at random. The kernel shows ticks that are cut, and sometimes a run
// time that lacks a thread. What the clock returned must always add up to the true time.
func TestClockKeepsToTheTruth(t *testing.T) {
	const ticked = uint64(procfs.TickNanoseconds)
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var u, s, missing uint64 // the true time, and what the run time lacks
		var c cpuClock
		var given [2]uint64
		born := seed%2 == 0
		if !born {
			u, s = rnd.Uint64N(1e12), rnd.Uint64N(1e12)
			missing = rnd.Uint64N(u + 1)
			c.start(u+s-missing, true, u/ticked*ticked, s/ticked*ticked)
			given = [2]uint64{c.usr, c.sys}
		}
		exact := seed%3 != 0
		for range 100 {
			size := []uint64{1, 1e5, 1e7, 1e9}[rnd.IntN(4)]
			u += rnd.Uint64N(size)
			s += rnd.Uint64N(size) * uint64(rnd.IntN(2))
			if rnd.IntN(20) == 0 {
				missing += rnd.Uint64N(u + s - missing + 1)
			}
			low := u/ticked*ticked + s/ticked*ticked
			du, ds := c.advance(u+s-missing, exact, u/ticked*ticked, s/ticked*ticked)
			given[0] += du
			given[1] += ds
			sum := given[0] + given[1]
			if sum != c.usr+c.sys || sum < low || sum > low+slack {
				t.Fatalf(
					"seed %d: given %v, clock %d+%d, truth %d+%d", seed, given, c.usr, c.sys, u, s,
				)
			}
			for k, truth := range [2]uint64{u, s} {
				off := math.Abs(float64(given[k]) - float64(truth))
				if off > 2*procfs.TickNanoseconds {
					t.Fatalf("seed %d: part %d is %d, truth %d", seed, k, given[k], truth)
				}
			}
		}
	}
}

func TestClockIsExactWhileNothingEnds(t *testing.T) {
	var c cpuClock
	c.start(5_003_000_000, true, 2_000_000_000, 3_000_000_000)
	usr, sys := c.advance(5_103_500_000, true, 2_090_000_000, 3_010_000_000)
	if usr+sys != 100_500_000 || sys < 1_000_000 || sys > 20_000_000 {
		t.Errorf("%d + %d", usr, sys)
	}
	if usr, sys = c.advance(5_103_500_000, true, 2_090_000_000, 3_010_000_000); usr+sys != 0 {
		t.Errorf("an idle one was given %d + %d", usr, sys)
	}
}

func TestSwitchesOfThreadsThatEnded(t *testing.T) {
	at := func(count, vol, inv uint64) *taskStats {
		return &taskStats{pulse: pulse{count: count}, voluntary: vol, involuntary: inv}
	}
	for name, c := range map[string]struct {
		now, last *taskStats
		threads   uint64
		vol, inv  float64
	}{
		"as counted":                    {at(112, 70, 40), at(100, 60, 38), 2, 10, 2},
		"a thread took its own away":    {at(150, 20, 10), at(100, 60, 38), 1, 50, 0},
		"only the sum is known":         {at(200, 61, 39), at(100, 60, 38), 1, 99, 1},
		"went back":                     {at(5, 1, 1), at(100, 60, 38), 1, measure.NaN, measure.NaN},
		"one more switch than was seen": {at(101, 60, 38), at(100, 60, 38), 1, 0, 0},
	} {
		v, i := switchesGrown(c.now, c.last, c.threads)
		if !collecttest.Near(v, c.vol) || !collecttest.Near(i, c.inv) {
			t.Errorf("%s: %v, %v, want %v, %v", name, v, i, c.vol, c.inv)
		}
	}
}

// A thread that taskstats count twice while it ends has no part in any number.
func TestThreadsCountedTwice(t *testing.T) {
	r := countedByTaskstats()
	p := &process{delta: &processDelta{}}
	reading := func(ticks, run, wait uint64) (cpu, waited float64) {
		before := p.stat
		p.stat = procStat{state: 'R', usr: ticks, threads: 2}
		p.pulsed, p.task = true, taskStats{pulse: pulse{run: run, wait: wait}, kinds: 1}
		p.task.delays[0] = wait
		r.count(p, &before, before.state != 0)
		if d := p.delta; !collecttest.Near(d.delays[0], d.wait) {
			t.Errorf("delayed %v, waited %v", d.delays[0], d.wait)
		}
		return p.delta.usr + p.delta.sys, p.delta.wait
	}
	const second = 1e9
	reading(100, 1*second, 0)
	for i, c := range []struct {
		ticks, run, wait uint64
		cpu, waited      float64
	}{
		{130, 1.3 * second, 50, 0.3 * second, 50},
		{160, 2.2 * second, 900, 0.3 * second, measure.NaN}, // one with 0.6 s is counted twice
		{190, 1.9 * second, 150, 0.3 * second, measure.NaN},
		{220, 2.2 * second, 200, 0.3 * second, 50},
	} {
		cpu, waited := reading(c.ticks, c.run, c.wait)
		if math.Abs(cpu-c.cpu) > 20e6 || !collecttest.Near(waited, c.waited) {
			t.Errorf("reading %d: ran %v, waited %v; want %v, %v", i, cpu, waited, c.cpu, c.waited)
		}
	}
}

// countedByTaskstats is a reading that counts what taskstats say, at time 0.
func countedByTaskstats() *processReading {
	r := &processReading{processSources: processSources{
		taskstats: &taskstatsConn{}, now: func() measure.Span { return 0 }}}
	r.tick, r.delayAcct = procfs.TickNanoseconds, true
	return r
}

// A recorder that waits for a CPU reads the ticks long after taskstats, while three threads run on:
// nothing is counted twice, and waits and switches have values.
func TestTicksReadLate(t *testing.T) {
	const ms = 1e6
	for _, tt := range []struct {
		late  measure.Span // between the two reads in the second reading
		twice bool
	}{{200 * ms, false}, {1 * ms, true}} {
		r := countedByTaskstats()
		p := &process{delta: &processDelta{}}
		for i, c := range []struct {
			ticks, run uint64
			late       measure.Span
		}{
			{100, 1000 * ms, 0},
			{160, 1400 * ms, tt.late}, // 200 ms on another CPU after taskstats were read
			{190, 1900 * ms, 0},
			{240, 2400 * ms, 0},
		} {
			before := p.stat
			p.stat = procStat{state: 'R', usr: c.ticks, threads: 3}
			p.pulsed, p.task = true, taskStats{pulse: pulse{run: c.run, wait: uint64(i) * ms}}
			r.now = func() measure.Span { return c.late }
			r.count(p, &before, i > 0)
			want := 1 * ms
			if i == 0 {
				continue
			}
			if tt.twice && i >= 2 {
				want = measure.NaN
			}
			if !collecttest.Near(p.delta.wait, want) {
				t.Errorf("%v late, reading %d: waited %v, want %v", tt.late, i, p.delta.wait, want)
			}
		}
	}
}
