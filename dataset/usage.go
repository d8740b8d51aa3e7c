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
	usageInterval = 5 * time.Second // interval of samples
)

// usageSample contains the cumulative costs at one moment.
type usageSample struct {
	at         time.Time
	process    measure.Span // CPU time of all processes, and of their programs in the kernel
	recorded   float64      // nanoseconds of it: of all datasets, deleted ones included
	unrecorded float64      // nanoseconds of it: of sources whose statistics no dataset records
	meters     []measure.Span
	garbage    garbage
	sets       map[uint32]totals
}

// meter is a part of the process that knows its cost.
type meter struct {
	what  string
	spent func() measure.Span
}

// Meter adds a part of the process to Health. spent returns its cumulative CPU time and must be
// safe for concurrent use. Call before Run.
func (s *Set) Meter(what string, spent func() measure.Span) {
	s.meters = append(s.meters, meter{what, spent})
}

// MeterProcess adds another process that works for the set. spent returns its cumulative CPU time,
// which is part of Health.CPU, and must be safe for concurrent use. Call before Run.
func (s *Set) MeterProcess(spent func() measure.Span) {
	s.accounting.processes = append(s.accounting.processes, spent)
}

// totals are the cumulative cost and samples of a dataset.
type totals struct {
	cost    float64 // nanoseconds of CPU time: reading, folding, storing
	samples uint64
}

// sample adds a usage sample when one is due. s.mu is held.
func (s *Set) sample() {
	t := time.Now()
	// Ticks are a little early or late: a sample is due at 95 % of the interval.
	const due = usageInterval - usageInterval/20
	if n := len(s.accounting.samples); n > 2 && t.Sub(s.accounting.samples[n-1].at) < due {
		return
	}
	s.account()
	l := usageSample{
		at:         t,
		recorded:   s.accounting.recorded,
		unrecorded: s.accounting.unrecorded,
		garbage:    readGarbage(),
		sets:       make(map[uint32]totals, len(s.folders)),
	}
	for _, m := range s.meters {
		l.meters = append(l.meters, m.spent())
	}
	l.process = processTime() + s.accounting.external
	for _, spent := range s.accounting.processes {
		l.process += spent()
	}
	for id, k := range s.folders {
		l.sets[id] = k.total
	}
	s.accounting.samples = append(s.accounting.samples, l)
	for len(s.accounting.samples) > 2 && t.Sub(s.accounting.samples[1].at) >= usagePeriod {
		s.accounting.samples = slices.Delete(s.accounting.samples, 0, 1)
	}
}

// account adds the cost of reading since its last call: the cost of a statistic is divided among
// its datasets. s.mu is held.
func (s *Set) account() {
	c := s.sourceCatalogue()
	sharers := map[measure.StatID][]*datasetFolder{}
	for _, k := range s.folders {
		sharers[k.dataset.Query.Stat] = append(sharers[k.dataset.Query.Stat], k)
	}
	cost := func(m measure.Meter, id measure.StatID) float64 {
		all := m.Cost(id)
		d := all - s.accounting.reading[id]
		s.accounting.reading[id] = all
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
		s.accounting.recorded += d
	}
	for _, source := range c.sources {
		o, ok := source.(measure.ExternalMeter)
		if !ok {
			continue
		}
		out := o.ExternalCost()
		s.accounting.external += out - s.accounting.externalBySource[source]
		s.accounting.externalBySource[source] = out
		for _, st := range source.Stats() {
			if sharers[st.ID] == nil {
				s.accounting.unrecorded += cost(o, st.ID)
			}
		}
	}
}

// Usage returns the cost of a dataset; NaN and 0 for one that is not recorded.
func (s *Set) Usage(id uint32) measure.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	none := measure.Usage{CPU: measure.NaN}
	if len(s.accounting.samples) < 2 || s.folders[id] == nil {
		return none
	}
	last := s.accounting.samples[len(s.accounting.samples)-1]
	first := last
	// the dataset may be younger than the oldest sample
	for _, l := range slices.Backward(s.accounting.samples) {
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
	return measure.Usage{
		CPU:     (b.cost - a.cost) / 1e9 / seconds,
		Samples: float64(b.samples-a.samples) / seconds,
	}
}

// Health describes the state of the recording. Memory, Disk and DiskLimit are zero; the owner of
// the set fills them in.
func (s *Set) Health() measure.Health {
	h := measure.Health{
		Started:  s.started,
		CPU:      measure.NaN,
		CPULimit: s.budget.share,
		Late:     s.late.Load(),
		Problems: s.archive.Problems(),
	}
	for _, source := range s.sourceCatalogue().sources {
		if p, ok := source.(measure.ProblemReporter); ok {
			h.Problems = append(slices.Clip(h.Problems), p.Problems()...)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.accounting.samples); n > 1 {
		h.CPU, h.Costs = s.costs(&s.accounting.samples[0], &s.accounting.samples[n-1])
	}
	h.Problems = slices.Clip(h.Problems)
	for _, about := range slices.Sorted(maps.Keys(s.problems)) {
		h.Problems = append(
			h.Problems, measure.Problem{Key: "recording: " + about, Text: s.problems[about]},
		)
	}
	return h
}

// costs returns the CPU share of the process between two samples, and its parts.
func (s *Set) costs(a, b *usageSample) (float64, []measure.CostPart) {
	over := float64(b.at.Sub(a.at))
	whole := float64(b.process-a.process) / over
	parts := []measure.CostPart{{Name: "datasets", CPU: (b.recorded - a.recorded) / over}}
	for i, m := range s.meters {
		parts = append(
			parts, measure.CostPart{Name: m.what, CPU: float64(b.meters[i]-a.meters[i]) / over},
		)
	}
	if idle := b.unrecorded - a.unrecorded; idle > 0 {
		parts = append(
			parts, measure.CostPart{Name: "scripts that no dataset records", CPU: idle / over},
		)
	}
	rest := whole
	for _, p := range parts {
		rest -= p.CPU
	}
	rest = max(0, rest) // clocks are read one after another
	garbage := 0.0
	if used := b.garbage.used - a.garbage.used; used > 0 {
		garbage = min(rest, whole*(b.garbage.collecting-a.garbage.collecting)/used)
	}
	return whole, append(
		parts,
		measure.CostPart{Name: "garbage collection", CPU: garbage},
		measure.CostPart{
			Name: "other: Go's scheduler, connections, writing to disk",
			CPU:  rest - garbage,
		},
	)
}

// garbage is the time of Go's processors so far, in seconds by the wall clock. On a busy machine it
// exceeds the CPU time, of all activities alike, so only its ratios are used.
type garbage struct {
	// without the assists of allocating goroutines, which count as their own time
	collecting float64
	used       float64 // by anything
}

func readGarbage() (g garbage) {
	all := []metrics.Sample{
		{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/cpu/classes/gc/pause:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/cpu/classes/idle:cpu-seconds"},
	}
	metrics.Read(all)
	var v [5]float64
	for i, m := range all {
		if m.Value.Kind() == metrics.KindFloat64 { // otherwise this version of Go does not have it
			v[i] = m.Value.Float64()
		}
	}
	return garbage{collecting: v[0] + v[1] + v[2], used: v[3] - v[4]}
}

// processTime returns the CPU time of this process: getrusage(2).
func processTime() measure.Span {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return measure.Span(r.Utime.Nano() + r.Stime.Nano())
}
