package remote

import (
	"bufio"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// session is a connection to a client.
type session struct {
	r         *Recorder
	conn      io.ReadWriteCloser
	ctx       context.Context
	end       context.CancelFunc
	closing   sync.Once
	woken     chan struct{}                 // of size 1: there is something to send
	samplings map[uint32]context.CancelFunc // guarded by r.mu
	out       []byte                        // frames to send; guarded by r.mu
	drained   *sync.Cond                    // of r.mu: out was sent, or the session ended
}

func newSession(r *Recorder, conn io.ReadWriteCloser) *session {
	s := &session{
		r: r, conn: conn,
		woken:     make(chan struct{}, 1),
		samplings: map[uint32]context.CancelFunc{},
		drained:   sync.NewCond(&r.mu),
	}
	s.ctx, s.end = context.WithCancel(r.ctx)
	return s
}

// close ends the session. It may be called again.
func (s *session) close() {
	s.closing.Do(func() {
		s.end()
		_ = s.conn.Close() // the reader and the writer see it
	})
}

// wake makes the writer look for ticks and frames.
func (s *session) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// maxPending is the number of bytes that may wait in out. A client that takes nothing for so long
// is disconnected.
const maxPending = 2 * maxReply

// append adds a frame to those that are sent next. r.mu is held.
func (s *session) append(k kind, content func([]byte) []byte) {
	if s.ctx.Err() != nil {
		return
	}
	from := len(s.out)
	s.out = endFrame(content(startFrame(s.out, k)), from)
	if len(s.out)-from-headSize > maxReply {
		s.out = s.out[:from] // no content is so large but samples, which come in parts
	}
	if len(s.out) > maxPending {
		s.end()
	}
	s.wake()
}

// appendEnded reports to the client that a run, script or sampling has ended. r.mu is held.
func (s *session) appendEnded(id uint32, err error) {
	s.append(kindEnded, func(b []byte) []byte {
		return appendError(wire.AppendUint(b, uint64(id)), err)
	})
}

// appendTicks adds the ticks of a run that were not sent, as far as there is space. r.mu is held.
func (s *session) appendTicks(u *run) {
	for len(s.out) < growth {
		t := u.backlog.after(u.sent)
		if t == nil {
			return
		}
		if u.backlog.dropped > 0 {
			for i := range t.batches {
				t.batches[i].Notes = append(t.batches[i].Notes, noteDropped)
			}
			u.backlog.dropped = 0
		}
		u.sent = t.number
		from := len(s.out)
		s.out = endFrame(u.enc.append(startFrame(s.out, kindTick), u.id, t), from)
		if len(s.out)-from-headSize > maxReply {
			s.out = s.out[:from]
			u.enc = newEncoder(u.backlog.stats) // the client has not seen its newest tables
			u.backlog.dropped++
		}
	}
	s.wake() // for the rest
}

// noteDropped is a note of the first tick after ticks that exceeded a limit.
const noteDropped = "ticks before this one are missing: they waited too long for the server"

// serve reads requests until the connection fails. The error says why.
func (s *session) serve() error {
	var failed error
	var writer sync.WaitGroup
	writer.Go(func() {
		failed = s.write()
		s.close()
	})
	stop := context.AfterFunc(s.ctx, s.close)
	defer stop()
	err := s.read()
	s.close()
	writer.Wait()
	s.r.mu.Lock()
	s.drained.Broadcast()
	s.r.mu.Unlock()
	if errors.Is(failed, wire.ErrInvalid) {
		return failed
	}
	return err
}

// write sends frames until the session ends.
func (s *session) write() error {
	s.r.mu.Lock()
	s.append(kindHello, func(b []byte) []byte {
		b = wire.AppendUint(append(b, magic...), version)
		b = wire.AppendUint(b, uint64(len(s.r.config.Sources)))
		for _, source := range s.r.config.Sources {
			_, external := source.(measure.ExternalMeter)
			b = appendStats(wire.AppendBool(b, external), source.Stats())
		}
		return b
	})
	s.r.mu.Unlock()
	usage := time.NewTicker(time.Second)
	defer usage.Stop()
	var b []byte
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case <-usage.C:
			s.sendUsage()
		case <-s.woken:
		}
		s.r.mu.Lock()
		for _, u := range s.r.runs {
			if u.session == s {
				s.appendTicks(u)
			}
		}
		b, s.out = s.out, b[:0]
		s.drained.Broadcast()
		s.r.mu.Unlock()
		if len(b) == 0 {
			continue
		}
		if _, err := s.conn.Write(b); err != nil {
			return err
		}
		if cap(b) > growth {
			b = nil
		}
	}
}

// sendUsage adds what the recorder takes, and the problems of each source.
func (s *session) sendUsage() {
	var u Usage
	if s.r.config.Usage != nil {
		u = s.r.config.Usage()
	}
	problems := make([][]measure.Problem, len(s.r.config.Sources))
	for i, source := range s.r.config.Sources {
		if p, ok := source.(measure.ProblemReporter); ok {
			problems[i] = p.Problems()
		}
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.append(kindUsage, func(b []byte) []byte {
		b = wire.AppendInt(wire.AppendInt(b, int64(u.CPU)), u.Memory)
		b = wire.AppendUint(b, uint64(len(problems)))
		for _, p := range problems {
			b = appendProblems(b, p)
		}
		return b
	})
}

// read handles the frames of the client.
func (s *session) read() error {
	f := frameReader{wire.Reader{From: bufio.NewReader(s.conn), Limit: maxRequest}}
	for first := true; ; first = false {
		k, payload, err := f.next()
		if err != nil {
			return err
		}
		if first != (k == kindHello) {
			return invalid("kind %d where a hello is due, or a second hello", k)
		}
		if err := s.handle(k, newDecoder(payload)); err != nil {
			return err
		}
	}
}

// handle handles one frame. The error means that the client does not follow the protocol.
func (s *session) handle(k kind, d *decoder) error {
	switch k {
	case kindHello:
		d.hello()
		return d.End()
	case kindRun:
		q := d.runRequest()
		if err := d.End(); err != nil {
			return err
		}
		if err := s.r.startRun(s, q); errors.Is(err, wire.ErrInvalid) {
			return err
		} else if err != nil {
			s.r.mu.Lock()
			defer s.r.mu.Unlock()
			s.appendEnded(q.id, err)
		}
		return nil
	case kindScript:
		q := d.scriptRequest()
		if err := d.End(); err != nil {
			return err
		}
		s.r.startScript(s, q)
		return nil
	case kindSample:
		q := d.sampleRequest()
		if err := d.End(); err != nil {
			return err
		}
		s.r.startSampling(s, q)
		return nil
	case kindComplete:
		q := d.completeRequest()
		if err := d.End(); err != nil {
			return err
		}
		s.r.startCompletion(s, q)
		return nil
	case kindStop:
		id := d.ID()
		if err := d.End(); err != nil {
			return err
		}
		s.r.stopID(s, id)
		return nil
	case kindAck:
		id, number := d.ID(), d.Uint()
		if err := d.End(); err != nil {
			return err
		}
		s.r.ack(s, id, number)
		return nil
	}
	return invalid("kind %d", k)
}

// hello reads the start of a hello.
func (d *decoder) hello() {
	if string(d.Bytes(len(magic))) != magic {
		d.Fail("this is no hello")
	}
	if v := d.Uint(); v != version && d.Err == nil {
		d.Fail("version %d, this program has version %d", v, version)
	}
}
