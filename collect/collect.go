package collect

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"culprit/kernel"
	"culprit/measure"
)

// Env is what all collectors of one source share.
type Env struct {
	Root      kernel.Root
	Netns     string // network namespaces to look at: "" the tool's own, a name as `ip netns` shows, or "all"
	SinceBoot bool   // the first reading is emitted too, over the time since boot
	Long      bool   // it goes on for hours: what is dear to begin and cheap to keep is worth it
	Programs  bool   // of command lines the program alone: arguments may have secrets

	Namespaces *Namespaces // found once for all collectors of a Source; nil: each looks for itself
}

// Collector is one source of counters, such as a file of procfs or a netlink family. It holds no state of its own: Open
// makes a Reading, and each run has its own.
type Collector interface {
	// Stats lists what it can measure, always the same.
	Stats() []measure.Stat
	// Open gets ready to measure what is wanted, which is at least one of its statistics. An error here means that none
	// of them can be had: it becomes a note on each.
	Open(env *Env, want Want) (Reading, error)
}

// Reading is an open collector: the files it keeps open and the counters of the reading before.
type Reading interface {
	// Read takes one reading and puts a row into out for everything wanted. When out.First it has nothing to compare
	// with and puts no row of any Delta (out.Diff sees to that). What can't be read becomes NaN with a note, or a note
	// alone; the error is for "nothing could be read": it becomes a note on all wanted statistics of the collector, the
	// rows put so far are dropped, and the next reading begins anew, with out.First.
	Read(out *Out) error
	// Close gives the files back. Nothing is read after it.
	Close()
}

// Want says which statistics and fields somebody asked for, so that a collector can leave out dear work.
type Want map[measure.StatID]map[string]bool

// Stat says whether any of the statistics is wanted.
func (w Want) Stat(ids ...measure.StatID) bool {
	for _, id := range ids {
		if w[id] != nil {
			return true
		}
	}
	return false
}

// Field says whether the field of the statistic is wanted, in a breakdown or a predicate.
func (w Want) Field(id measure.StatID, field string) bool { return w[id][field] }

// Source is the collectors as one measure.Source: one tick, one reading of each collector that is wanted.
type Source struct {
	env        Env
	collectors []Collector
	stats      []measure.Stat
	meter      *meter
}

// New makes the source. Two collectors may not offer the same statistic unless they declare it alike (they then each
// give a batch with rows of their own, as the caches do).
func New(env Env, collectors ...Collector) *Source {
	env.Namespaces = &Namespaces{}
	s := &Source{env: env, collectors: collectors, meter: &meter{cost: map[measure.StatID]float64{}}}
	seen := map[measure.StatID]bool{}
	for _, c := range collectors {
		for _, st := range c.Stats() {
			if !seen[st.ID] {
				seen[st.ID] = true
				s.stats = append(s.stats, st)
			}
		}
	}
	wholes(s.stats)
	return s
}

// Stats lists all that the collectors measure.
func (s *Source) Stats() []measure.Stat { return s.stats }

type running struct {
	reading Reading
	failed  string // why Open failed; then reading is nil
	out     *Out
}

// Cost implements measure.Meter.
func (s *Source) Cost(id measure.StatID) measure.Span { return s.meter.of(id) }

// Run implements measure.Source. Ticks are planned, so that they don't drift: from the start, or by the wall clock. A tick that comes
// late is taken late and those missed meanwhile are left out, the next batch covering the whole time.
func (s *Source) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	step := queries[0].Step
	if step <= 0 {
		return fmt.Errorf("run %d queries: step %v is not positive", len(queries), step)
	}
	// What opening takes is of the first interval, as is what the first reading takes: a look of ten seconds ends after ten.
	plan := kernel.PlanTicks(ctx, step, queries[0].Over.Start)
	want := Want{}
	for _, q := range queries {
		fields := want[q.Stat]
		if fields == nil {
			fields = map[string]bool{}
			want[q.Stat] = fields
		}
		for _, f := range q.By {
			fields[f] = true
		}
		for _, t := range q.Where {
			fields[t.Field] = true
		}
	}
	words := NewDictionary()
	var open []*running
	defer func() {
		for _, r := range open {
			if r.reading != nil {
				r.reading.Close()
			}
		}
	}()
	for _, c := range s.collectors {
		var mine []measure.Stat
		for _, st := range c.Stats() {
			if want.Stat(st.ID) {
				mine = append(mine, st)
			}
		}
		if len(mine) == 0 {
			continue
		}
		r := &running{out: NewOut(mine, words, s.env.SinceBoot)}
		reading, err := c.Open(&s.env, want)
		if err != nil {
			r.failed = err.Error()
		} else {
			r.reading = reading
		}
		open = append(open, r)
	}

	var batches []*measure.Batch
	read := func(first bool) {
		words.StartTick()
		batches = batches[:0]
		// The CPU clock is the thread's, so the goroutine stays on it while it reads.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		spent := kernel.ThreadTime()
		for _, r := range open {
			r.out.unseen = first && !s.env.SinceBoot
			r.out.Start(first, time.Now())
			why := r.failed
			if r.reading != nil {
				if err := r.reading.Read(r.out); err != nil {
					why = err.Error()
				}
			}
			if why != "" {
				r.out.Fail(why)
			}
			batches = r.out.Finish(batches)
			before := spent
			spent = kernel.ThreadTime()
			s.meter.add(r.out, spent-before)
		}
	}

	for first := true; plan.Wait(); first = false {
		read(first)
		if first && !s.env.SinceBoot {
			continue
		}
		if err := sink.Accept(batches); err != nil {
			return err
		}
	}
	return nil
}
