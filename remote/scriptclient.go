package remote

import (
	"context"
	"errors"
	"sync"

	"culprit/measure"
)

// Script is a D script of the recorder. It implements dataset.Runner. When the recorder is started
// again, so is the script.
type Script struct {
	ExternalSource
	role  Role
	given measure.Script
	ended chan struct{}
	quit  context.CancelFunc
	ctx   context.Context

	state  sync.Mutex // guards the fields below
	output string
	loss   []measure.Loss
	notes  []string
	err    error
	call   *call // nil: the connection has failed
}

// StartScript starts a script with the Name, Text and Budget of given. The error is that of the
// recorder: a *measure.Diagnostic for a mistake in the text, or why this machine cannot run it.
func (c *Client) StartScript(role Role, given measure.Script) (*Script, error) {
	if err := role.mayScript(); err != nil {
		return nil, err
	}
	s := &Script{role: role, given: given, ended: make(chan struct{})}
	s.ctx, s.quit = context.WithCancel(context.Background())
	a, number, stats, err := s.start(c)
	if err != nil {
		s.quit()
		return nil, err
	}
	s.ExternalSource, s.call = ExternalSource{newSource(c, number, stats)}, a
	go s.follow(a)
	return s, nil
}

// start starts it at the recorder and waits until it runs.
func (s *Script) start(c *Client) (*call, uint32, []measure.Stat, error) {
	a, err := c.call(s.ctx, kindScript, func(b []byte, id uint32) []byte {
		q := scriptRequest{id, s.role, s.given.Name, s.given.Text, s.given.Budget}
		return q.append(b)
	})
	if err != nil {
		return nil, 0, nil, err
	}
	for {
		m, err := a.next(s.ctx)
		if err != nil {
			a.end()
			return nil, 0, nil, err
		}
		d := newDecoder(m.b)
		switch m.kind {
		case kindStarted:
			number, stats := d.ID(), d.stats()
			if err := d.End(); err != nil {
				a.end()
				return nil, 0, nil, err
			}
			return a, number, stats, nil
		case kindEnded:
			err := d.error()
			a.end()
			if bad := d.End(); bad != nil {
				err = bad
			}
			if err == nil {
				err = errors.New("the script ended before it began")
			}
			return nil, 0, nil, err
		}
		a.done(m)
	}
}

// follow reads what the recorder reports of the script.
func (s *Script) follow(a *call) {
	defer close(s.ended)
	for {
		m, err := a.next(context.Background())
		if err != nil {
			a.end()
			if a = s.restart(); a == nil {
				return
			}
			continue
		}
		d := newDecoder(m.b)
		switch m.kind {
		case kindStatus:
			output, loss, notes := d.String(), d.loss(), d.Strings()
			if d.End() == nil {
				s.state.Lock()
				s.output, s.loss, s.notes = output, loss, notes
				s.state.Unlock()
			}
		case kindEnded:
			err := d.error()
			s.state.Lock()
			s.err = err
			s.state.Unlock()
			a.end()
			return
		}
		a.done(m)
	}
}

// Stop implements dataset.Runner.
func (s *Script) Stop() {
	s.quit()
	s.state.Lock()
	a := s.call
	s.state.Unlock()
	if a != nil {
		a.stop()
	}
	<-s.ended
}

// restart starts the script at a recorder that was started again; nil: that failed, or it was
// stopped.
func (s *Script) restart() *call {
	for {
		a, number, _, err := s.start(s.client)
		if s.ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errGone) {
			continue // start waits for the next connection
		}
		s.state.Lock()
		s.err, s.call = err, a
		s.state.Unlock()
		if err != nil {
			return nil
		}
		s.mu.Lock()
		s.number = number
		s.mu.Unlock()
		if s.ctx.Err() != nil { // Stop did not see the call
			a.stop()
		}
		return a
	}
}

// Ended implements dataset.Runner.
func (s *Script) Ended() <-chan struct{} { return s.ended }

// Err implements dataset.Runner.
func (s *Script) Err() error {
	s.state.Lock()
	defer s.state.Unlock()
	return s.err
}

// Output implements dataset.Runner.
func (s *Script) Output() string {
	s.state.Lock()
	defer s.state.Unlock()
	return s.output
}

// Losses implements dataset.Runner.
func (s *Script) Losses() []measure.Loss {
	s.state.Lock()
	defer s.state.Unlock()
	return s.loss
}

// Notes implements dataset.Runner.
func (s *Script) Notes() []string {
	s.state.Lock()
	defer s.state.Unlock()
	return s.notes
}

// Sample samples the CPUs. The error is that of the recorder, or the context's.
func (c *Client) Sample(ctx context.Context, role Role, q Sampling) (*Sampled, error) {
	if err := role.maySample(); err != nil {
		return nil, err
	}
	a, err := c.call(ctx, kindSample, func(b []byte, id uint32) []byte {
		r := sampleRequest{id, role, q}
		return r.append(b)
	})
	if err != nil {
		return nil, err
	}
	defer a.end()
	var parts sampledDecoder
	done := false
	for {
		m, err := a.next(ctx)
		if err != nil {
			a.stop()
			return nil, err
		}
		d := newDecoder(m.b)
		switch {
		case m.kind == kindSampled && !done:
			done, err = parts.decode(d)
		case m.kind == kindEnded:
			if err = d.error(); err == nil {
				err = d.End()
			}
			if err == nil && !done {
				err = errors.New("sample the CPUs: the recorder ended it")
			}
			if err == nil {
				return &parts.out, nil
			}
		default:
			err = invalid("kind %d for a sampling", m.kind)
		}
		a.done(m)
		if err != nil {
			a.stop()
			return nil, err
		}
	}
}
