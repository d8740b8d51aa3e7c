package collect

import (
	"context"
	"fmt"

	"culprit/kernel"
	"culprit/measure"
)

// Env is what all collectors of one Source share.
type Env struct {
	Root kernel.Root
	// network namespaces to read: "" is the tool's own, "all" is every one, else a name of `ip
	// netns`
	Netns     string
	SinceBoot bool // also emit the first reading, over the time since boot
	// the run lasts for hours, so costly preparations that make readings cheaper pay off
	Long     bool
	Masks    measure.Masker // secrets to mask in command lines
	Programs bool           // emit only the program of a command line, without arguments
	// NoKernelLog makes collectors leave the kernel's log alone
	NoKernelLog bool

	// shared by all collectors of a Source; nil: each collector finds its own
	Namespaces *Namespaces
}

// Collector is one source of counters, such as a file of /proc or a netlink family. It has no
// state: each call of Open returns a Reading of its own.
type Collector interface {
	// Stats returns the statistics that the collector can measure, always the same.
	Stats() []measure.Stat
	// Open prepares to measure the wanted statistics, at least one of which is the collector's. An
	// error means that none of them can be measured; it becomes a note on each.
	Open(env *Env, want Want) (Reading, error)
}

// Reading is an open collector: its open files and the counters of the previous reading.
type Reading interface {
	// Read takes one reading and puts the rows of all wanted statistics into out. In the first
	// reading (out.First) it puts no row of a Delta, as there is nothing to compare with;
	// Counters.Diff takes care of that. What cannot be read becomes NaN with a note, or only a
	// note.
	//
	// An error means that nothing could be read. It becomes a note on all wanted statistics of the
	// collector, the rows put so far are dropped, and the next reading has out.First set.
	Read(out *Out) error
	// Close releases the files. Read is not called after it.
	Close()
}

// Want maps the wanted statistics to their wanted fields, so that a collector can skip costly work.
type Want map[measure.StatID]map[string]bool

// Stat reports whether any of the statistics is wanted.
func (w Want) Stat(ids ...measure.StatID) bool {
	for _, id := range ids {
		if w[id] != nil {
			return true
		}
	}
	return false
}

// Field reports whether a breakdown or predicate uses the field of the statistic.
func (w Want) Field(id measure.StatID, field string) bool { return w[id][field] }

// Source runs collectors as one measure.Source. At each tick it reads each wanted collector once.
type Source struct {
	env        Env
	collectors []Collector
	stats      []measure.Stat
	meter      *meter
	shortages  shortages
	stuck      stuck
}

// New returns a Source of the collectors. Two collectors may offer the same statistic only if they
// declare it alike, as those of cache.entries do. Each then emits a batch with its own rows.
func New(env Env, collectors ...Collector) *Source {
	env.Namespaces = &Namespaces{}
	s := &Source{
		env:        env,
		collectors: collectors,
		meter:      &meter{cost: map[measure.StatID]float64{}},
	}
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

// Stats returns the statistics of all collectors.
func (s *Source) Stats() []measure.Stat { return s.stats }

// Cost implements measure.Meter.
func (s *Source) Cost(id measure.StatID) measure.Span { return s.meter.of(id) }

// Run implements measure.Source. Ticks are planned from the start or by the wall clock, so they do
// not drift. After a late tick the missed ones are left out, and the next batch covers all of the
// time. A collector whose reading takes too long is in a later tick: see run.tick.
//
// An error means that the step is not positive, or is the sink's. The end of ctx is no error.
func (s *Source) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	if len(queries) == 0 {
		<-ctx.Done()
		return nil
	}
	step := queries[0].Step
	if step <= 0 {
		return fmt.Errorf("run %d queries: step %v is not positive", len(queries), step)
	}
	// Planned before Open, so that opening and the first reading are part of the first interval: a
	// run of ten seconds ends after ten seconds.
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
	n := &runState{source: s, want: want, words: NewDictionary(), step: step.AsDuration()}
	defer n.close()
	for _, c := range s.collectors {
		var mine []measure.Stat
		for _, st := range c.Stats() {
			if want.Stat(st.ID) {
				mine = append(mine, st)
			}
		}
		if len(mine) > 0 {
			r := &running{collector: c, out: NewOut(mine, n.words, s.env.SinceBoot)}
			n.open = append(n.open, r)
		}
	}
	n.tick(true) // opens them
	for first := true; plan.Wait(); first = false {
		n.tick(first)
		if first && !s.env.SinceBoot {
			continue
		}
		if err := sink.Accept(n.collect()); err != nil {
			return err
		}
	}
	return nil
}
