package trace

import (
	"strconv"

	"culprit/measure"
)

// samples adds up what is sampled: each look takes it out of the kernel, so that what a look costs depends on what was sampled since the
// one before, and not on all that was seen.
type samples struct {
	profile *Profile
	tap     *tap
	count   map[sampleKey]int64
}

// sampleKey is what makes samples alike. Stacks are numbers of frames, 0 for none.
type sampleKey struct {
	process       string
	pid, tid, cpu int32
	kernel, user  int32
}

// mostSampleFrames is how many frames are kept: with what belongs to each, some 200 MB.
const mostSampleFrames = 1 << 20

func newSamples(p *Profile, a *Aggregate) *samples {
	a.unkept = true
	return &samples{profile: p, tap: a.tap(), count: map[sampleKey]int64{}}
}

// take adds what was gathered. Once there are too many frames, stacks are left out, and their samples counted.
func (s *samples) take(frames int) (left uint64) {
	for _, row := range s.tap.take() {
		words := row.words
		next := func() string {
			w := words[0]
			words = words[1:]
			return w
		}
		number := func() int32 {
			n, _ := strconv.ParseInt(next(), 10, 32) // made of one
			return int32(n)
		}
		k := sampleKey{process: next(), pid: number(), tid: -1, cpu: -1}
		if s.profile.ByThread {
			k.tid = number()
		}
		if s.profile.ByCPU {
			k.cpu = number()
		}
		if s.profile.kernels() {
			k.kernel = number()
		}
		if s.profile.users() {
			k.user = number()
		}
		if k.kernel >= mostSampleFrames || k.user >= mostSampleFrames {
			k.kernel, k.user = 0, 0
			left += uint64(row.data[0])
		}
		s.count[k] += row.data[0]
	}
	return left
}

// stacks gives all that was sampled.
func (s *samples) stacks(frames []measure.Frame) []Sampled {
	text := make([]string, len(frames)) // of those that were asked for
	list := func(at int32) []string {
		var out []string
		for at > 0 {
			f := &frames[at]
			if text[at] == "" {
				text[at] = f.Symbol
				if f.Module != "" && f.Symbol != "["+f.Module+"]" {
					text[at] = f.Module + "`" + f.Symbol
				}
			}
			out = append(out, text[at])
			at = f.Parent
		}
		return out
	}
	lists := map[int32][]string{}
	once := func(at int32) []string {
		l, ok := lists[at]
		if !ok {
			l = list(at)
			lists[at] = l
		}
		return l
	}
	out := make([]Sampled, 0, len(s.count))
	for k, n := range s.count {
		out = append(out, Sampled{Process: k.process, PID: int(k.pid), TID: int(k.tid), CPU: int(k.cpu), Kernel: once(k.kernel), User: once(k.user), Count: n, Amount: n})
	}
	return out
}
