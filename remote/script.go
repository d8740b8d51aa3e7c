package remote

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// maxText is the size of a script's text in bytes.
const maxText = 64 << 10

// scriptRequest is the content of a kindScript.
type scriptRequest struct {
	id     uint32
	role   Role
	name   string
	text   string
	budget float64
}

func (q *scriptRequest) append(b []byte) []byte {
	b = append(wire.AppendUint(b, uint64(q.id)), byte(q.role))
	return wire.AppendFloat(wire.AppendString(wire.AppendString(b, q.name), q.text), q.budget)
}

func (d *decoder) scriptRequest() scriptRequest {
	q := scriptRequest{id: d.ID(), role: Role(d.Byte()), name: d.String(), text: d.String()}
	q.budget = d.Float()
	return q
}

// startScript starts a script, or continues an equal one that lost its client. The result is a
// frame: kindStarted or kindEnded.
func (r *Recorder) startScript(s *session, q scriptRequest) {
	err := q.role.mayScript()
	switch {
	case err != nil:
	case r.config.StartScript == nil:
		err = errNone
	case len(q.text) > maxText:
		err = fmt.Errorf("a script of %d bytes: at most %d: %w", len(q.text), maxText,
			measure.ErrTooLarge)
	case measure.NameOf(q.name) != q.name || q.name == "" || !(q.budget >= 0):
		err = fmt.Errorf("a script of the name %q and the budget %v", q.name, q.budget)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && len(r.scripts) >= maxScripts {
		err = fmt.Errorf("there are %d scripts already", len(r.scripts))
	}
	if err != nil {
		s.appendEnded(q.id, err)
		return
	}
	for _, k := range r.scripts {
		if k.session == nil && k.runner != nil && k.Name == q.name && k.Text == q.text &&
			k.Budget == q.budget {
			k.session, k.id, k.status = s, q.id, nil
			s.appendStarted(k)
			return
		}
	}
	k := &script{session: s, id: q.id}
	k.Name, k.Text, k.Budget = q.name, q.text, q.budget
	r.scripts = append(r.scripts, k)
	r.work.Go(func() { r.runScript(k) })
}

// runScript starts a script and follows it to its end.
func (r *Recorder) runScript(k *script) {
	runner, err := r.config.StartScript(k.Script)
	if err == nil {
		r.mu.Lock()
		k.runner, k.source = runner, r.offer(runner)
		if k.session != nil {
			k.session.appendStarted(k)
		}
		r.mu.Unlock()
		if r.ctx.Err() != nil { // Close did not see it
			runner.Stop()
		}
		every := time.NewTicker(time.Second)
		for ended := false; !ended; {
			select {
			case <-every.C:
			case <-runner.Ended():
				ended = true
			}
			r.reportStatus(k)
		}
		every.Stop()
		err = runner.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.session != nil {
		k.session.appendEnded(k.id, err)
	}
	if k.runner != nil {
		delete(r.sources, k.source)
	}
	r.scripts = slices.DeleteFunc(r.scripts, func(o *script) bool { return o == k })
}

// reportStatus sends what has changed of a script's output, losses and notes.
func (r *Recorder) reportStatus(k *script) {
	b := wire.AppendString(nil, k.runner.Output())
	b = wire.AppendStrings(appendLoss(b, k.runner.Losses()), k.runner.Notes())
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.session == nil || bytes.Equal(b, k.status) {
		return
	}
	k.status = b
	k.session.append(kindStatus, func(out []byte) []byte {
		return append(wire.AppendUint(out, uint64(k.id)), b...)
	})
}

// appendStarted reports to the client that a script runs. r.mu is held.
func (s *session) appendStarted(k *script) {
	s.append(kindStarted, func(b []byte) []byte {
		b = wire.AppendUint(wire.AppendUint(b, uint64(k.id)), uint64(k.source))
		return appendStats(b, k.runner.Stats())
	})
}

// sampleRequest is the content of a kindSample.
type sampleRequest struct {
	id   uint32
	role Role
	Sampling
}

// Limits of a sampling. Those of the server are narrower.
const (
	maxHz       = 10000
	maxSampling = 10 * measure.Minute
	maxCPUs     = 1 << 13
	maxThreads  = 1 << 10 // in each list of a sampling
)

func (q *sampleRequest) append(b []byte) []byte {
	b = append(wire.AppendUint(b, uint64(q.id)), byte(q.role))
	b = wire.AppendInt(wire.AppendUint(b, uint64(q.Hz)), int64(q.For))
	b = wire.AppendBool(wire.AppendBool(wire.AppendBool(b, q.Kernel), q.User), q.Times)
	b = wire.AppendUint(b, uint64(len(q.CPUs)))
	for _, c := range q.CPUs {
		b = wire.AppendUint(b, uint64(c))
	}
	b = wire.AppendString(b, q.Of)
	for _, list := range [][]int{q.PIDs, q.TIDs} {
		b = wire.AppendUint(b, uint64(len(list)))
		for _, id := range list {
			b = wire.AppendUint(b, uint64(id))
		}
	}
	return wire.AppendStrings(wire.AppendStrings(b, q.Processes), q.Cgroups)
}

func (d *decoder) sampleRequest() (q sampleRequest) {
	q.id, q.role = d.ID(), Role(d.Byte())
	hz, span := d.Uint(), d.Int()
	q.Kernel, q.User, q.Times = d.Bool(), d.Bool(), d.Bool()
	n := d.Count(1)
	if hz == 0 || hz > maxHz || span <= 0 || span > int64(maxSampling) || n > maxCPUs {
		d.Fail("%d CPUs sampled at %d Hz for %v", n, hz, measure.Span(span))
		return q
	}
	q.Hz, q.For = int(hz), measure.Span(span)
	for range n {
		c := d.Uint()
		if c >= maxCPUs {
			d.Fail("CPU %d", c)
			return q
		}
		q.CPUs = append(q.CPUs, int(c))
	}
	if q.Of = d.String(); !slices.Contains(subjects, q.Of) {
		d.Fail("a sampling of %q", q.Of)
	}
	q.PIDs, q.TIDs = d.threads(), d.threads()
	q.Processes, q.Cgroups = d.Strings(), d.Strings()
	if len(q.Processes) > maxThreads || len(q.Cgroups) > maxThreads {
		d.Fail("%d processes and %d control groups", len(q.Processes), len(q.Cgroups))
	}
	return q
}

// threads reads a list of IDs of processes or threads.
func (d *decoder) threads() (list []int) {
	n := d.Count(1)
	if n > maxThreads {
		d.Fail("%d IDs", n)
		return nil
	}
	for range n {
		list = append(list, int(d.ID()))
	}
	return list
}

// startSampling samples for a client.
func (r *Recorder) startSampling(s *session, q sampleRequest) {
	err := q.role.maySample()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
	case r.config.Sample == nil:
		err = errNone
	case r.samplings >= maxSamplings:
		err = fmt.Errorf("there are %d samplings already", r.samplings)
	case s.samplings[q.id] != nil:
		err = invalid("sampling %d exists", q.id)
	}
	if err != nil {
		s.appendEnded(q.id, err)
		return
	}
	ctx, stop := context.WithCancel(s.ctx)
	s.samplings[q.id] = stop
	r.samplings++
	r.work.Go(func() {
		defer stop()
		got, err := r.sample(ctx, q.Sampling)
		if err == nil {
			s.sendSampled(q.id, got)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.samplings--
		delete(s.samplings, q.id)
		s.appendEnded(q.id, err)
	})
}

// sample calls config.Sample. A panic is its error.
func (r *Recorder) sample(ctx context.Context, q Sampling) (got *Sampled, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = measure.Recovered("sampling", p)
		}
	}()
	return r.config.Sample(ctx, q)
}
