package sampler

import (
	"iter"
	"slices"

	"culprit/lang/format"
)

// waits returns the stacks of waits. Frames are valid until the iteration continues.
func (p *profiling) waits(out *Profiled) iter.Seq[Sampled] {
	for _, a := range p.session.Aggregations() {
		for _, row := range a.Rows {
			switch a.Name {
			case awayName:
				out.Away = max(0, row.Data[0])
			case untoldName:
				if n := row.Data[0]; n > 0 {
					p.lost[lostBack] += uint64(n)
				}
			}
		}
	}
	list, aggs, profile := p.session.FrameTexts(), p.session.Aggregations(), p.profile
	return func(yield func(Sampled) bool) {
		var buffers [4][]string
		for _, a := range aggs {
			if a.Name == awayName || a.Name == untoldName {
				continue
			}
			for _, row := range a.Rows {
				n := 0
				if !yield(profile.sampled(row, func(v format.Value) []string {
					buffers[n] = list(buffers[n][:0], int32(v.Num))
					n++
					return slices.Clip(buffers[n-1])
				})) {
					return
				}
			}
		}
	}
}

// sampled decodes a row of waits, whose key has the layout of keys. frames returns the frames of a
// stack.
func (p *Profile) sampled(row format.AggregationRow, frames func(format.Value) []string) Sampled {
	key := row.Key
	next := func() format.Value {
		v := key[0]
		key = key[1:]
		return v
	}
	one := Sampled{
		TID:     -1,
		CPU:     -1,
		Process: next().Text,
		PID:     int(next().Num),
		Count:   row.Data[0],
		Amount:  row.Data[len(row.Data)-1],
	}
	if p.ByThread {
		one.TID = int(next().Num)
	}
	if p.ByLeader {
		one.Leader = next().Text
	}
	if p.ByCgroup {
		one.Cgroup = p.groups.path(uint64(next().Num))
	}
	one.State = p.state(int64(next().Num))
	if p.kernels() && one.State != stateFutex {
		one.Kernel = frames(next())
	}
	if p.users() {
		one.User = frames(next())
	}
	if p.Wakers {
		w := &Waker{PID: int(next().Num) - 1, Process: next().Text}
		if p.kernels() {
			w.Kernel = frames(next())
		}
		if p.users() {
			w.User = frames(next())
		}
		if w.PID >= 0 {
			one.Waker = w
		}
	}
	return one
}
