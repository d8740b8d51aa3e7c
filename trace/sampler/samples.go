package sampler

import (
	"iter"
	"slices"

	"culprit/lang/ir"
	"culprit/trace"
)

// samples adds up samples. Each reading moves them out of the kernel, so its cost depends on the
// samples since the previous reading, not on all samples.
type samples struct {
	profile *Profile
	session *trace.Session
	fields  []ir.TupleField
	names   map[string]string // of processes, by the bytes of the key
	count   map[sampleKey]int64
	left    uint64 // samples that are counted without their stacks
	taken   int64  // samples so far
	unnamed int64  // of them, those whose innermost frame of the program is unknown
}

// sampleKey identifies equal samples. Stacks are numbers of frames; 0: no stack.
type sampleKey struct {
	process       string
	leader        string
	cgroup        uint64
	pid, tid, cpu int32
	kernel, user  int32
}

const (
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
		count:   map[sampleKey]int64{},
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
	s.count[k] += n
	s.taken += n
	if s.profile.users() && s.session.IsUnknown(k.user) {
		s.unnamed += n
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

// all returns all samples. Frames are valid until the iteration continues.
func (s *samples) all() iter.Seq[Sampled] {
	list, each := s.session.FrameTexts(), int64(1)
	if s.profile.Of == OnEvent {
		each = int64(s.profile.Event.Every)
	}
	return func(yield func(Sampled) bool) {
		var kernel, user []string
		for k, n := range s.count {
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
				},
			) {
				return
			}
		}
	}
}
