package remote

import (
	"context"
	"errors"
	"fmt"

	"culprit/measure"
	"culprit/wire"
)

// Completing is what a client wants to know of a D program that is being written. One of the three
// is asked for.
type Completing struct {
	Text  string // of the program
	Pos   int    // in Text: what may be written there; -1: not asked
	Match string // probes whose names have it; "": not asked
	Check bool   // what is wrong with Text
}

// CompletionWord is what may be written.
type CompletionWord struct{ Text, Kind, Help string }

// Completion is the result of Completing.
type Completion struct {
	From, To int // the part of Text that a word replaces, in bytes
	Words    []CompletionWord
	More     int // words that are left out
}

// Limits of completions.
const (
	maxCompletions = 8 // at a time, those that wait among them
	maxWords       = 1 << 10
	maxMatch       = 1 << 10 // bytes
)

// completeRequest is the content of a kindComplete.
type completeRequest struct {
	id   uint32
	role Role
	Completing
}

func (q *completeRequest) append(b []byte) []byte {
	b = append(wire.AppendUint(b, uint64(q.id)), byte(q.role))
	b = wire.AppendInt(wire.AppendString(b, q.Text), int64(q.Pos))
	return wire.AppendBool(wire.AppendString(b, q.Match), q.Check)
}

func (d *decoder) completeRequest() (q completeRequest) {
	q.id, q.role, q.Text = d.ID(), Role(d.Byte()), d.String()
	pos := d.Int()
	q.Match, q.Check = d.String(), d.Bool()
	if pos < -1 || pos > int64(len(q.Text)) {
		d.Fail("position %d of %d bytes", pos, len(q.Text))
	}
	q.Pos = int(pos)
	return q
}

// startCompletion completes for a client. The result is a kindCompleted, then a kindEnded.
func (r *Recorder) startCompletion(s *session, q completeRequest) {
	err := q.role.mayScript()
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
	case r.config.Complete == nil:
		err = errNone
	case len(q.Text) > maxText || len(q.Match) > maxMatch:
		err = fmt.Errorf("a text of %d bytes: at most %d: %w", len(q.Text)+len(q.Match), maxText,
			measure.ErrTooLarge)
	case r.completions >= maxCompletions:
		err = fmt.Errorf("others complete their programs: %w", measure.ErrUnclear)
	}
	if err != nil {
		s.appendEnded(q.id, err)
		return
	}
	r.completions++
	r.work.Go(func() {
		got, err := r.complete(q.Completing)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.completions--
		if err == nil {
			s.append(kindCompleted, func(b []byte) []byte {
				return got.append(wire.AppendUint(b, uint64(q.id)))
			})
		}
		s.appendEnded(q.id, err)
	})
}

// complete calls config.Complete. A panic is its error.
func (r *Recorder) complete(q Completing) (got *Completion, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = measure.Recovered("completing a script", p)
		}
	}()
	return r.config.Complete(q)
}

func (c *Completion) append(b []byte) []byte {
	b = wire.AppendUint(wire.AppendUint(b, uint64(c.From)), uint64(c.To))
	b = wire.AppendUint(b, uint64(c.More))
	b = wire.AppendUint(b, uint64(len(c.Words)))
	for _, w := range c.Words {
		b = wire.AppendString(wire.AppendString(wire.AppendString(b, w.Text), w.Kind), w.Help)
	}
	return b
}

func (d *decoder) completion() *Completion {
	c := &Completion{From: int(d.ID()), To: int(d.ID()), More: int(d.ID())}
	n := d.Count(3)
	if n > maxWords {
		d.Fail("%d words", n)
		return c
	}
	for range n {
		c.Words = append(c.Words, CompletionWord{d.String(), d.String(), d.String()})
	}
	return c
}

// Complete returns what may be written in a D program, or which probes there are. The error is that
// of the recorder, or the context's. With q.Check it has a *measure.Diagnostic for each mistake.
func (c *Client) Complete(ctx context.Context, role Role, q Completing) (*Completion, error) {
	if err := role.mayScript(); err != nil {
		return nil, err
	}
	a, err := c.call(ctx, kindComplete, func(b []byte, id uint32) []byte {
		r := completeRequest{id, role, q}
		return r.append(b)
	})
	if err != nil {
		return nil, err
	}
	defer a.end()
	var got *Completion
	for {
		m, err := a.next(ctx)
		if err != nil {
			return nil, err
		}
		d := newDecoder(m.b)
		switch {
		case m.kind == kindCompleted && got == nil:
			got = d.completion()
			err = d.End()
			if err == nil && (got.From > got.To || got.To > len(q.Text)+len(q.Match)) {
				err = invalid("words for %d to %d of %d bytes", got.From, got.To, len(q.Text))
			}
		case m.kind == kindEnded:
			if err = d.error(); err == nil {
				err = d.End()
			}
			if err == nil && got == nil {
				err = errors.New("complete a script: the recorder ended it")
			}
			if err == nil {
				return got, nil
			}
		default:
			err = invalid("kind %d for a completion", m.kind)
		}
		a.done(m)
		if err != nil {
			return nil, err
		}
	}
}
