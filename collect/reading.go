package collect

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/measure"
)

// runState is the state of one Source.Run. One goroutine uses it; others only read collectors.
type runState struct {
	source *Source
	want   Want
	words  *Dictionary // of all collectors that are not alone
	open   []*running
	step   time.Duration

	batches []*measure.Batch // of the tick
}

// running is a collector of a run.
type running struct {
	collector Collector
	reading   Reading
	failed    string // why Open failed, or a fault of the collector; reading is then nil
	retry     bool   // Open failed for lack of a resource: it is tried again at each tick
	out       *Out

	latest
	pace
}

// latest is what the latest reading has left.
type latest struct {
	opened  bool
	taken   bool             // a reading was taken
	first   bool             // it was the collector's first of the run
	words   *Dictionary      // of its labels
	batches []*measure.Batch // of it
}

// pace describes how a collector keeps up with the ticks.
type pace struct {
	busy  chan struct{} // closed when the late reading has ended; nil: none is late
	began time.Time     // of the latest reading
	// alone: a reading took too long, so the collector has a goroutine and a dictionary of its own.
	// quick counts the readings since that did not.
	alone bool
	quick int
	// late: the latest reading ended in a later tick than its own
	late   bool
	absent []measure.Batch
}

const (
	// A reading of a recording may take this part of a step before the tick goes on without it.
	// What comes more than half a step late would miss the tick.
	limitShare = 0.4
	leastLimit = 200 * time.Millisecond
	// Who waits for a table, or for the first reading, rather waits than gets nothing.
	longLimit = 2 * time.Second
	// quickReadings is after how many readings in time a collector is read with the others again.
	quickReadings = 10
	// silentFor is after how long a reading that has not ended is a problem.
	silentFor = 10 * time.Second
)

// Notes of statistics whose reading takes too long.
const (
	stillReading = "not read in this interval: the previous reading takes longer than that"
	readLate     = "a reading took longer than an interval: these numbers came late, and are " +
		"of the intervals before"
)

// open opens the collector. The error of Open becomes failed.
func (r *running) open(env *Env, want Want) {
	reading, err := r.collector.Open(env, want)
	r.reading, r.failed, r.retry = reading, "", false
	if err != nil {
		r.reading, r.failed, r.retry = nil, err.Error(), kernel.IsShortage(err)
	}
}

// read takes a reading of the collector. The first call only opens it.
func (r *running) read(s *Source, want Want, alone bool) {
	if !r.opened {
		r.open(&s.env, want)
		r.opened = true
		return
	}
	r.first, r.taken, r.words = !r.taken, true, r.out.words
	r.out.unneeded = r.first && !s.env.SinceBoot
	if alone {
		r.out.words.StartTick()
	}
	r.out.Start(r.first, time.Now())
	if r.retry && !r.first {
		r.open(&s.env, want)
	}
	why := r.failed
	short := r.retry
	if r.reading != nil {
		if err := r.reading.Read(r.out); err != nil {
			why, short = err.Error(), kernel.IsShortage(err)
		}
	}
	if why != "" {
		r.out.Fail(why)
	}
	s.shortages.set(r, why, short)
	r.batches = r.out.Finish(r.batches[:0])
}

// group is collectors that one goroutine reads, one after the other.
type group struct {
	done chan struct{} // closed when it has ended

	mu    sync.Mutex // guards the fields below
	rest  []*running // the first one is being read
	began time.Time  // when it began
	left  bool       // the rest belongs to another group
}

// start reads collectors on a goroutine of their own.
func (n *runState) start(list []*running, alone bool) *group {
	g := &group{done: make(chan struct{}), rest: list, began: time.Now()}
	go func() {
		defer close(g.done)
		// ThreadTime is the CPU time of the thread, so the goroutine must not change threads.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		spent := kernel.ThreadTime()
		for i, r := range list {
			if i > 0 && !g.next() {
				return
			}
			r.read(n.source, n.want, alone)
			before := spent
			spent = kernel.ThreadTime()
			if r.taken {
				n.source.meter.add(r.out, spent-before)
			}
		}
	}()
	return g
}

// next begins the next collector of the group; false if the rest belongs to another group.
func (g *group) next() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left {
		return false
	}
	g.rest, g.began = g.rest[1:], time.Now()
	return true
}

// wait waits for the end of the group, or until one of its collectors takes longer than limit. Then
// late is that one, and rest are those that the group does not read.
func (g *group) wait(limit time.Duration) (late *running, rest []*running) {
	g.mu.Lock()
	began := g.began
	g.mu.Unlock()
	timer := time.NewTimer(limit - time.Since(began))
	defer timer.Stop()
	for {
		select {
		case <-g.done:
			return nil, nil
		case <-timer.C:
		}
		g.mu.Lock()
		left := limit - time.Since(g.began)
		if left <= 0 {
			select {
			case <-g.done: // this goroutine waited for a CPU
				g.mu.Unlock()
				return nil, nil
			default:
			}
			g.left = true
			late, rest = g.rest[0], g.rest[1:]
		}
		g.mu.Unlock()
		if left <= 0 {
			return late, rest
		}
		timer.Reset(left)
	}
}

// limit returns how long one reading may take before the others go on without it.
func (n *runState) limit(first bool) time.Duration {
	if first || !n.source.env.Long {
		return max(longLimit, time.Duration(limitShare*float64(n.step)))
	}
	return max(leastLimit, time.Duration(limitShare*float64(n.step)))
}

// tick takes one reading of each collector whose previous one has ended. A collector whose reading
// takes too long goes on alone, and is in a later tick.
func (n *runState) tick(first bool) {
	n.words.StartTick()
	var together []*running
	var groups []*group
	for _, r := range n.open {
		r.late = false
		if r.busy != nil {
			select {
			case <-r.busy:
				r.busy, r.late = nil, r.taken
			default:
			}
			if r.busy != nil || r.late {
				continue
			}
		}
		if r.began = time.Now(); r.alone {
			groups = append(groups, n.start([]*running{r}, true))
		} else {
			together = append(together, r)
		}
	}
	for len(together) > 0 {
		g := n.start(together, false)
		late, rest := g.wait(n.limit(first))
		if late != nil {
			n.separate(late, g)
		}
		together = rest
	}
	for _, g := range groups {
		r := g.rest[0]
		if late, _ := g.wait(n.limit(first)); late != nil {
			r.busy, r.quick = g.done, 0
		} else if r.quick++; r.quick > quickReadings {
			n.rejoin(r)
		}
	}
	n.source.stuck.set(n.open)
}

// separate lets a collector that g is reading go on alone, with the dictionary of the run. All
// others get a new one.
func (n *runState) separate(late *running, g *group) {
	late.busy, late.alone, late.quick = g.done, true, 0
	n.words = n.words.sibling()
	for _, r := range n.open {
		if !r.alone {
			r.out.words = n.words
		}
	}
}

// rejoin lets a collector be read with the others again.
func (n *runState) rejoin(r *running) {
	n.translate(r)
	r.alone, r.out.words = false, n.words
}

// translate replaces the labels of a collector's batches by those of the run's dictionary.
func (n *runState) translate(r *running) {
	if r.words == n.words {
		return
	}
	for _, b := range r.batches {
		n.words.translate(b)
	}
	r.words = n.words
}

// collect returns the batches of the tick, in the order of the collectors.
func (n *runState) collect() []*measure.Batch {
	n.batches = n.batches[:0]
	now := measure.Time(time.Now().UnixNano())
	for _, r := range n.open {
		switch {
		case r.busy != nil, !r.taken, r.first && !n.source.env.SinceBoot:
			for i := range r.missing(now, n.words) {
				n.batches = append(n.batches, &r.absent[i])
			}
			continue
		case r.late:
			for _, b := range r.batches {
				// The measured time, at its own length, ends with this tick.
				b.Over = measure.Interval{Start: now.Add(-b.Over.Span()), End: now}
				b.Notes = append(b.Notes, readLate)
			}
		}
		n.translate(r)
		n.batches = append(n.batches, r.batches...)
	}
	return n.batches
}

// missing returns batches that say that nothing was read.
func (r *running) missing(now measure.Time, words *Dictionary) []measure.Batch {
	r.absent = r.absent[:0]
	for i := range r.out.stats {
		// The table belongs to the goroutine that reads: only what never changes is used of it.
		r.absent = append(r.absent, measure.Batch{
			Stat: r.out.stats[i].ID, By: fieldNames(&r.out.stats[i]),
			Over: measure.Interval{Start: now, End: now}, Labels: words.words,
			Notes: []string{stillReading},
		})
	}
	return r.absent
}

// close closes the collectors; those that are being read when that has ended.
func (n *runState) close() {
	for _, r := range n.open {
		n.source.shortages.set(r, "", false)
		shut := func() {
			if r.reading != nil {
				r.reading.Close()
			}
		}
		if r.busy == nil {
			shut()
			continue
		}
		go func() {
			<-r.busy
			shut()
			n.source.shortages.set(r, "", false)
		}()
	}
	n.source.stuck.set(nil)
}

// stuck are the statistics whose reading has not ended for long. Safe for concurrent use.
type stuck struct {
	mu  sync.Mutex // guards the field below
	now []measure.Problem
}

func (s *stuck) set(open []*running) {
	var found []measure.Problem
	for _, r := range open {
		if since := time.Since(r.began); r.busy != nil && since > silentFor {
			var ids []string
			for i := range r.out.stats {
				ids = append(ids, string(r.out.stats[i].ID))
			}
			found = append(found, measure.Problem{
				Key: "silent: " + ids[0],
				Text: fmt.Sprintf("not measured for now: %s: a reading that began at %s has not "+
					"ended; the other statistics go on",
					someOf(ids), r.began.Format(time.TimeOnly)),
			})
		}
	}
	s.mu.Lock()
	s.now = found
	s.mu.Unlock()
}

func (s *stuck) problems() []measure.Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}
