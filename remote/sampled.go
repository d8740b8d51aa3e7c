package remote

import (
	"culprit/measure"
	"culprit/wire"
)

// samplePart is the size in bytes from which on samples are sent as the next part.
const samplePart = 256 << 10

// Limits of the samples that a client takes of one sampling.
const (
	maxSampleBytes  = 64 << 20 // of names
	maxSampleFrames = 16 << 20
	maxSampleTimes  = 1 << 20
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
			names = wire.AppendString(names, text)
			newNames++
		}
		return wire.AppendUint(b, n)
	}
	send := func(last bool) {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		for len(s.out) > growth && s.ctx.Err() == nil {
			s.drained.Wait()
		}
		s.append(kindSampled, func(b []byte) []byte {
			b = wire.AppendUint(wire.AppendUint(b, uint64(id)), newNames)
			b = wire.AppendUint(append(b, names...), newSamples)
			b = wire.AppendBool(append(b, samples...), last)
			if !last {
				return b
			}
			b = wire.AppendInt(wire.AppendInt(b, int64(got.Began)), int64(got.Took))
			b = wire.AppendStrings(wire.AppendUint(b, uint64(got.CPUs)), got.Notes)
			b = appendLoss(wire.AppendInt(b, got.Away), got.Loss)
			return wire.AppendInt(wire.AppendInt(b, int64(got.CPU)), got.Untimed)
		})
		names, samples, newNames, newSamples = names[:0], samples[:0], 0, 0
	}
	for i := range got.Samples {
		one := &got.Samples[i]
		samples = wire.AppendInt(name(samples, one.Process), one.Count)
		samples = wire.AppendInt(name(samples, one.State), one.Amount)
		for _, stack := range [][]string{one.User, one.Kernel} {
			samples = wire.AppendUint(samples, uint64(len(stack)))
			for _, f := range stack {
				samples = name(samples, f)
			}
		}
		samples = appendTimes(samples, one.Times)
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
	times  int
}

// appendTimes appends times, each as the difference from the one before.
func appendTimes(b []byte, all []SampleTime) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	last := SampleTime{}
	for _, t := range all {
		b = wire.AppendInt(b, int64(t.At-last.At))
		b = wire.AppendInt(b, int64(t.TID)-int64(last.TID))
		last = t
	}
	return b
}

// decodeTimes reads what appendTimes has written.
func (p *sampledDecoder) decodeTimes(d *decoder) []SampleTime {
	n := d.Count(2)
	if p.times += n; p.times > maxSampleTimes {
		d.Fail("a sampling of %d times", p.times)
	}
	if n == 0 || d.Err != nil {
		return nil
	}
	all := make([]SampleTime, n)
	last := SampleTime{}
	for i := range all {
		last.At += measure.Span(d.Int())
		last.TID = int(int32(int64(last.TID) + d.Int()))
		all[i] = last
	}
	return all
}

// decode reads a part after its ID. done: it is the last one.
func (p *sampledDecoder) decode(d *decoder) (done bool, err error) {
	for range d.Count(1) {
		text := d.String()
		p.bytes += len(text) + 16
		p.names = append(p.names, text)
	}
	name := func() string {
		n := d.Uint()
		if n >= uint64(len(p.names)) {
			d.Fail("name %d of %d", n, len(p.names))
			return ""
		}
		return p.names[n]
	}
	for range d.Count(7) {
		one := Sample{Process: name(), Count: d.Int(), State: name(), Amount: d.Int()}
		for _, stack := range []*[]string{&one.User, &one.Kernel} {
			n := d.Count(1)
			p.frames += n + 6
			if p.frames > maxSampleFrames || p.bytes > maxSampleBytes {
				d.Fail("a sampling of %d frames and %d bytes of names", p.frames, p.bytes)
				return false, d.Err
			}
			*stack = make([]string, 0, n)
			for range n {
				*stack = append(*stack, name())
			}
		}
		if one.Times = p.decodeTimes(d); d.Err != nil {
			return false, d.Err
		}
		p.out.Samples = append(p.out.Samples, one)
	}
	if done = d.Bool(); done {
		p.out.Began, p.out.Took = measure.Time(d.Int()), measure.Span(d.Int())
		p.out.CPUs, p.out.Notes, p.out.Loss = int(d.ID()), d.Strings(), nil
		p.out.Away, p.out.Loss = d.Int(), d.loss()
		p.out.CPU, p.out.Untimed = measure.Span(d.Int()), d.Int()
	}
	return done, d.End()
}
