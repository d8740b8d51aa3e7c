package sampler

import (
	"cmp"
	"iter"
	"slices"

	"culprit/lang/ir"
	"culprit/measure"
	"culprit/trace"
)

// samples adds up samples. Each reading moves them out of the kernel, so its cost depends on the
// samples since the previous reading, not on all samples.
type samples struct {
	profile *Profile
	session *trace.Session
	fields  []ir.TupleField
	names   map[string]string // of processes, by the bytes of the key
	rows    []sampleRow
	index   map[sampleKey]int32 // into rows
	times   []rowTime           // if Profile.Times
	untimed int64               // samples that are not in times although it is for them
	left    uint64              // samples that are counted without their stacks
	taken   int64               // samples so far
	unnamed int64               // of them, those whose innermost frame of the program is unknown
}

// sampleKey identifies equal samples. Stacks are numbers of frames; 0: no stack.
type sampleKey struct {
	process       string
	leader        string
	cgroup        uint64
	pid, tid, cpu int32
	kernel, user  int32
}

// A sampleRow is the number of equal samples.
type sampleRow struct {
	sampleKey
	n int64
}

// A rowTime is the time of a sample.
type rowTime struct {
	SampleTime
	row int32
}

const (
	// mostTimes is how many samples have times: 6 MB, 42 CPUs for a minute at 99 Hz.
	mostTimes = 250_000
	// mostSampleFrames is how many frames are kept: about 60 MB with their functions.
	mostSampleFrames = 1 << 20
	// mostNames is how many names of processes are cached.
	mostNames = 1 << 12
)

func newSamples(p *Profile, s *trace.Session) *samples {
	a := s.Aggregations()[0]
	out := &samples{
		profile: p,
		session: s,
		fields:  a.Of.Key.Fields,
		names:   map[string]string{},
		index:   map[sampleKey]int32{},
	}
	a.TakeCounts(out.add)
	return out
}

// add adds n samples of a key, which has the layout of keys. When there are too many frames,
// samples are counted without stacks.
func (s *samples) add(key []byte, n int64) {
	fields := s.fields
	next := func() int32 {
		v := trace.FieldOf(key, fields[0])
		fields = fields[1:]
		return int32(v.Int)
	}
	name := func() string {
		text := s.name(key, fields[0])
		fields = fields[1:]
		return text
	}
	k := sampleKey{process: name(), pid: next(), tid: -1, cpu: -1}
	if s.profile.ByThread {
		k.tid = next()
	}
	if s.profile.ByCPU {
		k.cpu = next()
	}
	if s.profile.ByLeader {
		k.leader = name()
	}
	if s.profile.ByCgroup {
		k.cgroup = uint64(trace.FieldOf(key, fields[0]).Int)
		fields = fields[1:]
	}
	if s.profile.kernels() {
		k.kernel = s.session.Frame(uint32(next()))
	}
	if s.profile.users() {
		k.user = s.session.Frame(uint32(next()))
	}
	if k.kernel >= mostSampleFrames || k.user >= mostSampleFrames {
		k.kernel, k.user = 0, 0
		s.left += uint64(n)
	}
	row, ok := s.index[k]
	if !ok {
		row = int32(len(s.rows))
		s.index[k] = row
		s.rows = append(s.rows, sampleRow{sampleKey: k})
	}
	s.rows[row].n += n
	s.taken += n
	if s.profile.Times && k.pid != 0 {
		at := trace.FieldOf(key, fields[0]).Int
		tid := trace.FieldOf(key, fields[1]).Int
		s.timed(rowTime{SampleTime{measure.Span(at), int(int32(tid))}, row}, n)
	}
	if s.profile.users() && s.session.IsUnknown(k.user) {
		s.unnamed += n
	}
}

// timed adds the time of n samples.
func (s *samples) timed(at rowTime, n int64) {
	if len(s.times)+int(n) > mostTimes {
		s.untimed += n
		return
	}
	for range n {
		s.times = append(s.times, at)
	}
}

// name returns the name of a thread in a key.
func (s *samples) name(key []byte, field ir.TupleField) string {
	raw := trace.FieldOf(key, field).Bytes
	name, ok := s.names[string(raw)]
	if !ok {
		if len(s.names) >= mostNames {
			clear(s.names)
		}
		name = trace.Label(field.Type, s.session.Key(key, field))
		s.names[string(raw)] = name
	}
	return name
}

// all returns all samples. Frames and times are valid until the iteration continues.
func (s *samples) all() iter.Seq[Sampled] {
	list, each := s.session.FrameTexts(), int64(1)
	if s.profile.Of == OnEvent {
		each = int64(s.profile.Event.Every)
	}
	return func(yield func(Sampled) bool) {
		var kernel, user []string
		slices.SortStableFunc(s.times, func(a, b rowTime) int {
			return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.At, b.At))
		})
		rest := s.times
		var times []SampleTime
		for row := range s.rows {
			k, n := s.rows[row].sampleKey, s.rows[row].n
			times = times[:0]
			for ; len(rest) > 0 && int(rest[0].row) == row; rest = rest[1:] {
				times = append(times, rest[0].SampleTime)
			}
			kernel, user = list(kernel[:0], k.kernel), list(user[:0], k.user)
			if !yield(
				Sampled{
					Process: k.process,
					Leader:  k.leader,
					Cgroup:  s.profile.groups.path(k.cgroup),
					PID:     int(k.pid),
					TID:     int(k.tid),
					CPU:     int(k.cpu),
					Kernel:  slices.Clip(kernel),
					User:    slices.Clip(user),
					Count:   n,
					Amount:  n * each,
					Times:   slices.Clip(times),
				},
			) {
				return
			}
		}
	}
}
