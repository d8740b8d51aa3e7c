package profile

import (
	"cmp"
	"math"
	"slices"
	"unsafe"
)

// A Timeline says when the stacks of a profile ran: a flame chart draws it. The amounts of the
// moments of a node are the node's own amount, unless Left is above 0.
type Timeline struct {
	Threads []string // what has moments of its own; at least one
	Moments []Moment // of the first thread by time, then of the second, ...
	// Usual is the longest time in ns that one sample counts for. 0: the lengths were measured.
	Usual float64
	// Within is the time in ns within which the order of stacks is unknown. 0: it is known.
	Within float64
	Left   int // moments that are not in the list
}

// A Moment is a time in which a thread had one stack.
type Moment struct {
	Thread uint32 // index into Threads
	Node   int32  // the innermost function
	// Kept is the number of functions of the stack that went on from the moment before; -1: those
	// that both have.
	Kept   int32
	At     float64 // ns since the first moment of the profile
	For    float64 // ns; never beyond the next moment of the thread
	Amount float64
}

const (
	maxMoments         = 500_000 // of a profile; later ones are counted
	maxTimelineThreads = 4096    // as above
)

// A timer records moments for one goroutine while a profile is read. A nil timer records nothing.
type timer struct {
	meter   *meter
	threads map[string]uint32
	line    Timeline
	samples bool    // a moment is a sample: its length is unknown
	usual   float64 // ns between two samples of a thread that runs; 0: unknown
}

// timer returns the timer of a reader; nil unless Options.Times is set.
func (o *Options) timer(samples bool) *timer {
	if !o.Times {
		return nil
	}
	return &timer{meter: o.meter, threads: map[string]uint32{}, samples: samples}
}

// thread returns the index of the thread with a key. Beyond the limit it is maxTimelineThreads.
func (t *timer) thread(key string, name []byte) uint32 {
	if t == nil {
		return 0
	}
	if n, ok := t.threads[key]; ok {
		return n
	}
	n := uint32(len(t.threads))
	if n == maxTimelineThreads {
		return n
	}
	t.meter.add(jsonEntry + 2*len(name) + len(key))
	t.threads[key] = n
	t.line.Threads = append(t.line.Threads, clean(shortened(string(name), maxName)))
	return n
}

// add records a moment. It ignores amounts that Builder.Add ignores.
func (t *timer) add(m Moment) {
	if t == nil || !(m.Amount > 0) || math.IsInf(m.Amount, 1) {
		return
	}
	if len(t.line.Moments) == maxMoments || m.Thread >= maxTimelineThreads ||
		math.Abs(m.At) > 1e19 || math.IsNaN(m.At) || !(m.For >= 0) || m.For > 1e19 {
		t.line.Left++
		return
	}
	t.meter.add(2 * int(unsafe.Sizeof(m)))
	t.line.Moments = append(t.line.Moments, m)
}

// timeline returns the moments in order; nil without any. nodes maps what Moment.Node was so far to
// nodes; nil: these are nodes.
func (t *timer) timeline(nodes []int32) *Timeline {
	if t == nil || len(t.line.Moments) == 0 {
		return nil
	}
	all := t.line.Moments
	first := math.Inf(1)
	for i := range all {
		first = min(first, all[i].At)
		if nodes != nil {
			all[i].Node = nodes[all[i].Node]
		}
	}
	for i := range all {
		all[i].At -= first
	}
	slices.SortStableFunc(all, func(a, b Moment) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.At, b.At))
	})
	if t.samples {
		if t.line.Usual = t.usual; t.usual == 0 {
			t.line.Usual = usualInterval(all)
		}
		spanSamples(all, t.line.Usual)
	}
	for i := range all[1:] {
		if next := &all[i+1]; next.Thread == all[i].Thread {
			all[i].For = min(all[i].For, next.At-all[i].At)
		}
	}
	return &t.line
}

// usualInterval returns the time between two samples of a thread that ran meanwhile: the lower
// quartile of all intervals, since a thread that waited has longer ones.
func usualInterval(all []Moment) float64 {
	var between []float64
	for i := range all[1:] {
		if d := all[i+1].At - all[i].At; all[i+1].Thread == all[i].Thread && d > 0 {
			between = append(between, d)
		}
	}
	if len(between) == 0 {
		return 1e6 // a picture of one moment has any width
	}
	slices.Sort(between)
	return between[len(between)/4]
}

// spanSamples sets the length of samples: the time to the next one of the thread, or the usual
// interval if that is much longer. Samples of one time share it.
func spanSamples(all []Moment, usual float64) {
	for i := 0; i < len(all); {
		end := i + 1
		for end < len(all) && all[end].Thread == all[i].Thread && all[end].At == all[i].At {
			end++
		}
		span := usual
		if end < len(all) && all[end].Thread == all[i].Thread {
			if next := all[end].At - all[i].At; next < 1.5*usual {
				span = next
			}
		}
		each := span / float64(end-i)
		for k := i; k < end; k++ {
			all[k].At += float64(k-i) * each
			all[k].For = each
		}
		i = end
	}
}

// moved returns the timeline of a tree in which node n became to[n]; nil of nil.
func (l *Timeline) moved(to func(node int32) int32) *Timeline {
	if l == nil {
		return nil
	}
	out := *l
	out.Moments = slices.Clone(l.Moments)
	for i := range out.Moments {
		out.Moments[i].Node = to(out.Moments[i].Node)
	}
	return &out
}

// scaled converts times to nanoseconds. One unit of the file is by nanoseconds; 0: its unit is not
// one of time, and the result is nil.
func (l *Timeline) scaled(by float64) *Timeline {
	if l == nil || by == 0 {
		return nil
	}
	for i := range l.Moments {
		l.Moments[i].At *= by
		l.Moments[i].For *= by
	}
	return l
}
