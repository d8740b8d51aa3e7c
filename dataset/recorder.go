package dataset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// recorder records the datasets of one step. The sources run once for all of them, as a generation.
// When the queries to the sources change, a new generation replaces it. Its first reading is at a
// tick that the old generation still reports, and it reports the later ticks. So a dataset in both
// misses no tick and gets none twice.
type recorder struct {
	set  *Set
	step measure.Span

	// One tick or change at a time; taken after Set.life and before Set.mu. Guards the fields
	// below.
	mu          sync.Mutex
	folders     []*datasetFolder
	current     *generation // reports the ticks; nil: none has begun
	next        *generation // replaces current at its first tick; nil: none
	last        measure.Time
	first       measure.Time // planned end of this process's first tick
	continued   measure.Time // last when the newest generation began
	ids         []uint32
	batches     []*measure.Batch
	tickFolders []*datasetFolder // those of the current tick
	gaps        gaps
}

// generation is one run of the sources.
type generation struct {
	asked map[int][]measure.Query // source -> one query per statistic
	from  measure.Time            // time of its first reading; it reports the later ticks
	stop  context.CancelFunc
	// the statistic whose interval in the previous tick ended at end; "": none yet
	stat       measure.StatID
	end        measure.Time
	parts      map[int][]*measure.Batch
	newestTick map[int]measure.Time // source -> planned end of its newest tick
	again      map[int]bool         // source -> see isAgain
	complete   chan struct{}        // closed when the parts have been recorded
}

// errReplaced ends the run of a source whose generation was replaced.
var errReplaced = errors.New("another run has taken over")

// openingTime is the least time that a new generation gets to open its files.
const openingTime = 50 * measure.Millisecond

// minFirstInterval is the shortest first interval, except for the time to open files: counters with
// a resolution of 10 ms are too coarse for a shorter one.
const minFirstInterval = 300 * measure.Millisecond

// firstReading returns the time of the first reading of a run that replaces none. It is soon,
// because nothing can be shown before the tick after it, or at the next tick if that is too close.
func firstReading(at measure.Time, step measure.Span) measure.Time {
	soon := at.Add(openingTime)
	if tick := floor(soon, step).Add(step); tick.Sub(soon) < minFirstInterval {
		return tick
	}
	return soon
}

// maxContinued is the age of the newest recorded tick up to which sources may continue what an
// earlier program asked for. Their ticks since then come first.
const maxContinued = 2 * measure.Minute

// retryAfter is the delay before a failed run is started again.
const retryAfter = 5 * time.Second

// change makes the recorder record the datasets of folders. The context ends everything that it
// starts.
func (r *recorder) change(ctx context.Context, keepers []*datasetFolder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folders = keepers
	r.start(ctx)
}

// start starts the generation that the folders need, unless it runs. r.mu is held.
func (r *recorder) start(ctx context.Context) {
	c := r.set.sourceCatalogue()
	asked := map[int][]measure.Query{}
	for _, k := range r.folders {
		q := k.dataset.Query
		asked[c.owner[q.Stat]] = merge(asked[c.owner[q.Stat]], q, r.step)
	}
	if r.next != nil {
		if same(r.next.asked, asked) {
			return
		}
		// it has replaced current, although its first tick is still to come
		if r.current != nil && r.last >= r.next.from {
			r.current = r.next
		} else {
			r.next.stop()
		}
		r.next = nil
	}
	if r.current != nil && same(r.current.asked, asked) || ctx.Err() != nil {
		return
	}
	if len(asked) == 0 {
		if r.current != nil {
			r.current.stop()
			r.current = nil
		}
		return
	}
	// If none runs, the first interval may be shorter than the step, so that there is something to
	// show soon. A step of an hour also begins now.
	from := firstReading(now(), r.step)
	if r.current != nil {
		from = floor(now().Add(openingTime), r.step).Add(r.step)
	}
	ctx, stop := context.WithCancel(ctx)
	g := &generation{
		asked:      asked,
		stop:       stop,
		from:       from,
		parts:      map[int][]*measure.Batch{},
		newestTick: map[int]measure.Time{},
		again:      map[int]bool{},
		complete:   make(chan struct{}),
	}
	for source := range asked {
		g.newestTick[source] = floor(from, r.step)
		if r.current == nil && from.Sub(r.last) <= maxContinued {
			// its first ticks may be those that a source kept for this program
			g.newestTick[source] = min(g.newestTick[source], r.last)
			g.again[source] = r.last <= from // or the clock was set back
		}
	}
	r.continued = r.last
	r.next = g
	for source, queries := range asked {
		for i := range queries {
			queries[i].Over.Start = g.from
		}
		r.set.running.Go(func() {
			err := c.sources[source].Run(
				ctx,
				queries,
				measure.SinkFunc(
					func(b []*measure.Batch) error { return r.accept(ctx, g, source, b) },
				),
			)
			if err == nil && ctx.Err() == nil {
				err = errors.New("the source has ended")
			}
			var again interface{ Restarted() bool }
			switch {
			case err == nil || errors.Is(err, errReplaced) || ctx.Err() != nil:
			case errors.As(err, &again) && again.Restarted():
				r.restart(ctx, g)
			default:
				r.restartLater(ctx, g, err)
			}
		})
	}
}

func same(a, b map[int][]measure.Query) bool {
	return maps.EqualFunc(a, b, func(a, b []measure.Query) bool {
		return len(a) == len(b) && !slices.ContainsFunc(a, func(q measure.Query) bool {
			i := slices.IndexFunc(b, func(p measure.Query) bool { return p.Stat == q.Stat })
			return i < 0 || !sameSet(q.By, b[i].By) || !containsTerms(q.Where, b[i].Where) ||
				!containsTerms(b[i].Where, q.Where)
		})
	})
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

func floor(t measure.Time, step measure.Span) measure.Time { return t - t%measure.Time(step) }

func now() measure.Time { return measure.Time(time.Now().UnixNano()) }

// restartLater reports a failed run and starts it again after retryAfter.
func (r *recorder) restartLater(ctx context.Context, g *generation, err error) {
	r.set.setProblem("run", fmt.Sprintf("recording at steps of %v has paused: %v", r.step, err))
	select {
	case <-ctx.Done():
		return
	case <-time.After(retryAfter):
	}
	r.restart(ctx, g)
}

// restart replaces a generation by a new one, unless another one has done so.
func (r *recorder) restart(ctx context.Context, g *generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	g.stop()
	if r.current == g {
		r.current = nil
	}
	if r.next == g {
		r.next = nil
	}
	r.start(r.set.context())
}

// accept records the batches of one source at a tick.
func (r *recorder) accept(
	ctx context.Context, g *generation, source int, batches []*measure.Batch,
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(g.asked) == 1 || r.isAgain(g, source, batches) || r.isLatePart(g, source, batches) {
		return r.recordParts(g, map[int][]*measure.Batch{source: batches})
	}
	// Wait for the parts of the other sources. Their goroutines wait for this one, so no source
	// overwrites batches that are not recorded yet. A part that is late by half a step is recorded
	// separately.
	g.parts[source] = batches
	if len(g.parts) < len(g.asked) {
		whole := g.complete
		r.mu.Unlock()
		late := time.NewTimer(max(r.step.AsDuration()/2, 100*time.Millisecond))
		select {
		case <-whole:
		case <-late.C:
		case <-ctx.Done():
		}
		late.Stop()
		r.mu.Lock()
		if whole != g.complete {
			return r.endIfReplaced(g)
		}
	}
	r.set.setProblem("silent", r.silentSource(g))
	parts := g.parts
	g.parts = map[int][]*measure.Batch{}
	close(g.complete)
	g.complete = make(chan struct{})
	return r.recordParts(g, parts)
}

// silentSource returns a message about a source that has reported nothing for too long to be late;
// "": none.
func (r *recorder) silentSource(g *generation) string {
	for _, source := range slices.Sorted(maps.Keys(g.asked)) {
		if _, here := g.parts[source]; !here &&
			r.last.Sub(g.newestTick[source]) > max(maxSilence, 3*r.step) {
			return fmt.Sprintf(
				"%s and the statistics measured with it have reported nothing since %v",
				g.asked[source][0].Stat, g.newestTick[source],
			)
		}
	}
	return ""
}

// isLatePart reports whether a source's part belongs to a tick that was recorded without it.
func (r *recorder) isLatePart(g *generation, source int, batches []*measure.Batch) bool {
	if r.current != g || len(batches) == 0 {
		return false
	}
	at := r.tickOf(batches)
	return g.newestTick[source] < at && at <= r.last
}

// tickOf returns the planned end of a source's tick; the newest tick if nothing could be measured.
func (r *recorder) tickOf(batches []*measure.Batch) measure.Time {
	if first := earliest(batches); first.Over.Span() > 0 {
		return floor(first.Over.End, r.step)
	}
	return r.last
}

// isAgain reports whether a source's part belongs to a tick up to the newest that was recorded when
// the generation began. A source that continues the run of an earlier program sends the ticks that
// may not have been stored: some datasets have them and others do not.
func (r *recorder) isAgain(g *generation, source int, batches []*measure.Batch) bool {
	if !g.again[source] || len(batches) == 0 {
		return false
	}
	at := r.tickOf(batches)
	if at > r.continued {
		g.again[source] = false
		return false
	}
	return r.continued.Sub(at) <= maxContinued
}

// recordParts records the parts of a tick. Parts that end in different steps, as on a busy machine,
// are separate ticks.
func (r *recorder) recordParts(g *generation, parts map[int][]*measure.Batch) error {
	if g == r.next {
		if r.current != nil {
			r.current.stop() // it did not reach its last tick
		}
		r.current, r.next = g, nil
	}
	if g != r.current {
		return errReplaced
	}
	for len(parts) > 0 {
		var first *measure.Batch
		for _, b := range parts {
			if len(b) > 0 {
				if e := earliest(b); first == nil || endsBefore(e, first) {
					first = e
				}
			}
		}
		if first == nil {
			break // no source of this recorder reports an empty list
		}
		var sources []int
		var batches []*measure.Batch
		for _, source := range slices.Sorted(maps.Keys(parts)) {
			// A batch that could not look has no time of its own.
			if e := parts[source]; len(e) == 0 || earliest(e).Over.Span() == 0 ||
				floor(earliest(e).Over.End, r.step) == floor(first.Over.End, r.step) {
				sources, batches = append(sources, source), append(batches, e...)
				delete(parts, source)
			}
		}
		r.recordTick(g, first, sources, batches)
	}
	return r.endIfReplaced(g)
}

// endIfReplaced ends a generation whose successor has had its first reading.
func (r *recorder) endIfReplaced(g *generation) error {
	if r.current != g || r.next != nil && r.last >= r.next.from {
		g.stop()
		return errReplaced
	}
	return nil
}

const (
	// a larger jump means that the clock was set; slewing changes it by at most 1/2,000
	clockJump    = 250 * measure.Millisecond
	maxDiscarded = 3600 * measure.Second // the most data discarded when the clock goes back
	lateFromDiv  = 2                     // a tick is late by step/lateFromDiv
	maxSilence   = 10 * measure.Second   // a source that reports nothing for longer is a problem
)

// recordTick records a tick of some sources. first is the batch of its first reading.
func (r *recorder) recordTick(
	g *generation, first *measure.Batch, sources []int, batches []*measure.Batch,
) {
	r.logClock(g, batches)
	over := first.Over
	at := floor(over.End, r.step)
	g.stat, g.end = first.Stat, over.End
	again := r.isAgain(g, sources[0], batches)
	keepers := r.foldersOf(sources, at, again)
	if again && len(keepers) == 0 {
		for _, source := range sources {
			g.newestTick[source] = at
		}
		return
	}
	note := r.gapNote(at, over.Start)
	if note != "" {
		r.set.logGap(at, note)
	}
	newest := at
	switch ahead := r.last.Sub(at); {
	case r.last == 0:
	case ahead >= 0 && again:
		newest = r.last
	case ahead >= 0 && len(g.asked) > 1 && r.isLatePart(g, sources[0], batches):
		r.set.late.Add(1)
		newest = r.last
	case ahead >= 0:
		at = r.rewind(at, ahead)
		newest = at
		for source := range g.newestTick {
			g.newestTick[source] = at.Add(-r.step)
		}
	case r.first != 0:
		r.set.setProblem("clock", "")
		r.set.late.Add(uint64(-ahead/r.step - 1))
		if over.End.Sub(at) > r.step/lateFromDiv {
			r.set.late.Add(1)
		}
	}
	if r.first == 0 {
		r.first = at
	}
	r.last = newest
	for _, source := range sources {
		g.newestTick[source] = at
	}
	r.store(g, at, keepers, batches, note)
}

// logClock logs that the wall clock was set since the previous tick. The length of an interval
// comes from the monotonic clock, so an interval then does not begin at the end of the previous
// one.
func (r *recorder) logClock(g *generation, batches []*measure.Batch) {
	for _, b := range batches {
		if b.Stat != g.stat || b.Over.Span() == 0 {
			continue
		}
		if jump := b.Over.Start.Sub(g.end); jump > clockJump {
			r.set.logClockChange("set forward", measure.Interval{Start: g.end, End: b.Over.Start})
		} else if jump < -clockJump {
			r.set.logClockChange("set back", measure.Interval{Start: b.Over.Start, End: g.end})
		}
		return
	}
}

// foldersOf returns the folders of the datasets of some sources; if again, without those whose
// dataset has the tick. The next call overwrites them.
func (r *recorder) foldersOf(sources []int, at measure.Time, again bool) []*datasetFolder {
	owner := r.set.sourceCatalogue().owner
	folders := r.tickFolders[:0]
	for _, k := range r.folders {
		if slices.Contains(sources, owner[k.dataset.Query.Stat]) &&
			(!again || r.set.archive.Held(k.dataset.ID).Over.End < at) {
			folders = append(folders, k)
		}
	}
	r.tickFolders = folders
	return folders
}

// store appends a tick of the datasets of keepers to the archive, and accounts its cost.
func (r *recorder) store(
	g *generation, at measure.Time, keepers []*datasetFolder, batches []*measure.Batch, note string,
) {
	runtime.LockOSThread() // its CPU clock is read
	defer runtime.UnlockOSThread()
	before := threadTime()
	r.ids, r.batches = r.ids[:0], r.batches[:0]
	rows := 0
	for _, k := range keepers {
		n := len(r.batches)
		r.batches = k.batchesFor(batches, r.queriesFields(g, k.dataset.Query), r.batches)
		for range len(r.batches) - n {
			r.ids = append(r.ids, k.dataset.ID)
		}
		rows += k.rows
		after := threadTime()
		k.cpuTime = float64(after - before)
		before = after
	}
	if note != "" {
		r.batches = withNote(r.batches, note)
	}
	if err := r.set.archive.Append(at, r.ids, r.batches); err != nil {
		r.set.setProblem("append", fmt.Sprintf("the tick of %v could not be recorded: %v", at, err))
	} else {
		r.set.setProblem("append", "")
		r.set.setProblem("run", "")
	}
	// A dataset without rows has a cost too.
	spent := float64(threadTime() - before)
	for _, k := range keepers {
		k.cpuTime += spent * float64(1+k.rows) / float64(rows+len(keepers))
	}
	r.set.finishTick(at, keepers)
}

// queriesFields reports whether the generation queries its sources for everything that q needs.
func (r *recorder) queriesFields(g *generation, q measure.Query) bool {
	for _, a := range g.asked[r.set.sourceCatalogue().owner[q.Stat]] {
		if a.Stat == q.Stat {
			return containsTerms(a.Where, q.Where) &&
				!slices.ContainsFunc(
					fieldsOf(q), func(f string) bool { return !slices.Contains(a.By, f) },
				)
		}
	}
	return false
}

// rewind returns the planned end of a tick that is not later than the previous one, because the
// clock was set back by more than the source waits for. The recorded data of the repeated time is
// discarded, up to an hour of it, because either its times or the new ones are wrong. Otherwise new
// ticks get times ahead of the clock.
func (r *recorder) rewind(at measure.Time, ahead measure.Span) measure.Time {
	if ahead < maxDiscarded || r.first > at && r.last.Sub(r.first) < maxDiscarded {
		over := measure.Interval{Start: at.Add(-r.step), End: r.last}
		ok := true
		for _, k := range r.folders {
			ok = ok && r.set.archive.Discard(k.dataset.ID, over) == nil
		}
		if ok {
			r.set.log(measure.Change{Actor: "clock", Action: "discarded", Over: over})
			r.first = at
			return at
		}
	}
	r.set.setProblem(
		"clock",
		fmt.Sprintf(
			"the clock was set back: recorded times are %v ahead of it; "+
				"to correct this, discard the data ahead of the clock and restart the server",
			(ahead+r.step).AsDuration().Round(time.Second),
		),
	)
	return r.last.Add(r.step)
}

// earliest returns the batch of the earliest reading of a tick that measured anything.
func earliest(batches []*measure.Batch) *measure.Batch {
	first := batches[0]
	for _, b := range batches[1:] {
		if b.Over.Span() > 0 && endsBefore(b, first) {
			first = b
		}
	}
	return first
}

// endsBefore reports whether a's interval ends before b's. A batch that could not look has no time
// and comes last.
func endsBefore(a, b *measure.Batch) bool {
	if (a.Over.Span() > 0) != (b.Over.Span() > 0) {
		return a.Over.Span() > 0
	}
	return a.Over.End < b.Over.End
}

// threadTime returns the CPU time of the calling thread: clock_gettime(2), CLOCK_THREAD_CPUTIME_ID.
func threadTime() measure.Span {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return measure.Span(ts.Nano())
}
