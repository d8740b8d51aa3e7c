package remote

import (
	"culprit/measure"
)

// samplePart is the size in bytes from which on samples are sent as the next part.
const samplePart = 256 << 10

// Limits of the samples that a client takes of one sampling.
const (
	maxSampleBytes  = 64 << 20 // of names
	maxSampleFrames = 16 << 20
)

// sendSampled sends the result of a sampling in parts: names, then samples by the numbers of their
// names. The last part has the rest.
func (s *session) sendSampled(id uint32, got *Sampled) {
	numbers := map[string]uint64{}
	var names, samples []byte
	newNames, newSamples := uint64(0), uint64(0)
	name := func(b []byte, text string) []byte {
		n, ok := numbers[text]
		if !ok {
			n = uint64(len(numbers))
			numbers[text] = n
			names = appendString(names, text)
			newNames++
		}
		return appendUint(b, n)
	}
	send := func(last bool) {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		for len(s.out) > growth && s.ctx.Err() == nil {
			s.drained.Wait()
		}
		s.append(kindSampled, func(b []byte) []byte {
			b = appendUint(appendUint(b, uint64(id)), newNames)
			b = appendUint(append(b, names...), newSamples)
			b = appendBool(append(b, samples...), last)
			if !last {
				return b
			}
			b = appendInt(appendInt(b, int64(got.Began)), int64(got.Took))
			b = appendLoss(appendStrings(appendUint(b, uint64(got.CPUs)), got.Notes), got.Loss)
			return appendInt(b, int64(got.CPU))
		})
		names, samples, newNames, newSamples = names[:0], samples[:0], 0, 0
	}
	for i := range got.Samples {
		one := &got.Samples[i]
		samples = appendInt(name(samples, one.Process), one.Count)
		for _, stack := range [][]string{one.User, one.Kernel} {
			samples = appendUint(samples, uint64(len(stack)))
			for _, f := range stack {
				samples = name(samples, f)
			}
		}
		newSamples++
		if len(samples)+len(names) > samplePart {
			send(false)
		}
	}
	send(true)
}

// sampledDecoder puts the parts of a sampling together.
type sampledDecoder struct {
	out    Sampled
	names  []string
	bytes  int
	frames int
}

// decode reads a part after its ID. done: it is the last one.
func (p *sampledDecoder) decode(d *decoder) (done bool, err error) {
	for range d.count(1) {
		text := d.string()
		p.bytes += len(text) + 16
		p.names = append(p.names, text)
	}
	name := func() string {
		n := d.uint()
		if n >= uint64(len(p.names)) {
			d.fail("name %d of %d", n, len(p.names))
			return ""
		}
		return p.names[n]
	}
	for range d.count(4) {
		one := Sample{Process: name(), Count: d.int()}
		for _, stack := range []*[]string{&one.User, &one.Kernel} {
			n := d.count(1)
			p.frames += n + 6
			if p.frames > maxSampleFrames || p.bytes > maxSampleBytes {
				d.fail("a sampling of %d frames and %d bytes of names", p.frames, p.bytes)
				return false, d.err
			}
			*stack = make([]string, 0, n)
			for range n {
				*stack = append(*stack, name())
			}
		}
		p.out.Samples = append(p.out.Samples, one)
	}
	if done = d.bool(); done {
		p.out.Began, p.out.Took = measure.Time(d.int()), measure.Span(d.int())
		p.out.CPUs, p.out.Notes, p.out.Loss = int(d.id()), d.strings(), d.loss()
		p.out.CPU = measure.Span(d.int())
	}
	return done, d.end()
}
