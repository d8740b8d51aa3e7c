package dataset

import (
	"maps"
	"runtime/metrics"
	"slices"
	"syscall"
	"time"

	"culprit/measure"
)

const (
	usagePeriod   = time.Minute     // of the means
	usageInterval = 5 * time.Second // how often the sums are looked at
)

// look is the sums at one moment.
type usageSample struct {
	at         time.Time
	process    measure.Span // CPU time of the whole process, and of what it put into the kernel
	recorded   float64      // nanoseconds of it: of all datasets, also those that are gone
	unrecorded float64      // and of what runs, and nobody records
	meters     []measure.Span
	garbage    garbage
	sets       map[uint32]totals
}

// meter is a part of the process that knows what it has taken.
type meter struct {
	what  string
	spent func() measure.Span
}

// Meter lets Health tell what another part of the process takes: the CPU time so far, from any goroutine. To be called before Run.
func (s *Set) Meter(what string, spent func() measure.Span) {
	s.meters = append(s.meters, meter{what, spent})
}

// sums are what recording a dataset has cost and given so far.
type totals struct {
	cost    float64 // nanoseconds of CPU time: reading, folding, keeping
	samples uint64
}

// sample looks at the sums when it is time to. s.mu is held.
func (s *Set) sample() {
	t := time.Now()
	if n := len(s.samples); n > 2 && t.Sub(s.samples[n-1].at) < usageInterval-usageInterval/20 {
		return
	}
	s.account()
	l := usageSample{at: t, recorded: s.recordedCPU, unrecorded: s.unrecordedCost, garbage: readGarbage(), sets: make(map[uint32]totals, len(s.folders))}
	for _, m := range s.meters {
		l.meters = append(l.meters, m.spent())
	}
	l.process = processTime() + s.externalCost
	for id, k := range s.folders {
		l.sets[id] = k.total
	}
	s.samples = append(s.samples, l)
	for len(s.samples) > 2 && t.Sub(s.samples[1].at) >= usagePeriod {
		s.samples = slices.Delete(s.samples, 0, 1)
	}
}

// account adds up what reading has cost since it was last called: what a statistic has cost is shared by its datasets. s.mu is held.
func (s *Set) account() {
	c := s.sourceCatalogue()
	sharers := map[measure.StatID][]*datasetFolder{}
	for _, k := range s.folders {
		sharers[k.dataset.Query.Stat] = append(sharers[k.dataset.Query.Stat], k)
	}
	cost := func(m measure.Meter, id measure.StatID) float64 {
		all := m.Cost(id)
		d := all - s.readCost[id]
		s.readCost[id] = all
		return float64(d)
	}
	for id, sharing := range sharers {
		m, ok := c.sources[c.owner[id]].(measure.Meter)
		if !ok {
			continue
		}
		d := cost(m, id)
		for _, k := range sharing {
			k.total.cost += d / float64(len(sharing))
		}
		s.recordedCPU += d
	}
	for _, source := range c.sources {
		o, ok := source.(measure.ExternalMeter)
		if !ok {
			continue
		}
		out := o.ExternalCost()
		s.externalCost += out - s.externalBySource[source]
		s.externalBySource[source] = out
		for _, st := range source.Stats() {
			if sharers[st.ID] == nil {
				s.unrecordedCost += cost(o, st.ID)
			}
		}
	}
}

// Usage says what a dataset costs. NaN and 0 for one that is not recorded.
func (s *Set) Usage(id uint32) measure.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := measure.Usage{CPU: measure.NaN}
	if len(s.samples) < 2 || s.folders[id] == nil {
		return none
	}
	last := s.samples[len(s.samples)-1]
	first := last
	for _, l := range slices.Backward(s.samples) { // it may be younger than the oldest look
		if _, ok := l.sets[id]; !ok {
			break
		}
		first = l
	}
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 {
		return none
	}
	a, b := first.sets[id], last.sets[id]
	return measure.Usage{CPU: (b.cost - a.cost) / 1e9 / seconds, Samples: float64(b.samples-a.samples) / seconds}
}

// Health says how the recording does. Memory, Disk and DiskLimit are left zero: who has made the set knows them.
func (s *Set) Health() measure.Health {
	h := measure.Health{Started: s.started, CPU: measure.NaN, CPULimit: s.budget.share, Late: s.late.Load(), Problems: s.archive.Problems()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.samples); n > 1 {
		h.CPU, h.Costs = s.costs(&s.samples[0], &s.samples[n-1])
	}
	h.Problems = slices.Clip(h.Problems)
	for _, about := range slices.Sorted(maps.Keys(s.problems)) {
		h.Problems = append(h.Problems, measure.Problem{Key: "recording: " + about, Text: s.problems[about]})
	}
	return h
}

// spent says what the process has taken between two looks, and for what.
func (s *Set) costs(a, b *usageSample) (float64, []measure.CostPart) {
	over := float64(b.at.Sub(a.at))
	whole := float64(b.process-a.process) / over
	parts := []measure.CostPart{{Name: "datasets", CPU: (b.recorded - a.recorded) / over}}
	for i, m := range s.meters {
		parts = append(parts, measure.CostPart{Name: m.what, CPU: float64(b.meters[i]-a.meters[i]) / over})
	}
	if idle := b.unrecorded - a.unrecorded; idle > 0 {
		parts = append(parts, measure.CostPart{Name: "scripts that nobody records", CPU: idle / over})
	}
	rest := whole
	for _, p := range parts {
		rest -= p.CPU
	}
	rest = max(0, rest) // clocks are read one after the other
	garbage := 0.0
	if used := b.garbage.used - a.garbage.used; used > 0 {
		garbage = min(rest, whole*(b.garbage.collecting-a.garbage.collecting)/used)
	}
	return whole, append(parts, measure.CostPart{Name: "garbage collection", CPU: garbage},
		measure.CostPart{Name: "the rest: Go's runtime as it wakes and sleeps, connections, writing to disk", CPU: rest - garbage})
}

// garbage is what Go's runtime tells of its processors' time so far, in seconds by the wall clock. Where others have the CPU meanwhile that is more than the CPU time, of
// all that is done alike; so only the share is used.
type garbage struct {
	collecting float64 // without what those who allocate were made to do: that is in their own
	used       float64 // by anything
}

func readGarbage() (g garbage) {
	all := []metrics.Sample{{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}, {Name: "/cpu/classes/gc/pause:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"}}
	metrics.Read(all)
	var v [5]float64
	for i, m := range all {
		if m.Value.Kind() == metrics.KindFloat64 { // else this Go knows it no more
			v[i] = m.Value.Float64()
		}
	}
	return garbage{collecting: v[0] + v[1] + v[2], used: v[3] - v[4]}
}

// processTime gives the CPU time of this process: getrusage(2).
func processTime() measure.Span {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return measure.Span(r.Utime.Nano() + r.Stime.Nano())
}
