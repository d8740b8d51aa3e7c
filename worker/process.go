package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// Times that a worker has.
const (
	helloTime  = 15 * time.Second // to start on a busy machine
	cancelTime = time.Second      // to end a request that is not needed any more
	writeTime  = 10 * time.Second // to take a frame
	lostTime   = time.Second      // to end after its connection has failed
)

// worker is a process of a pool. One request at a time has it.
type worker struct {
	process *Process
	frames  chan frame    // closed when the connection has failed
	taken   chan struct{} // the newest frame was used
	gone    chan struct{} // closed by end
	closing sync.Once
	timer   *time.Timer // of an idle worker

	jobs    int
	hello   bool // it has said hello
	began   bool // it has sent a frame of the current request
	lost    bool // its connection has failed
	ended   bool // it is not usable any more
	used    done
	counted measure.Span // of used.cpu
}

// frame is a frame of a worker. Its payload is valid until worker.taken is sent to.
type frame struct {
	kind    byte
	payload []byte
}

func newWorker(p *Process) *worker {
	w := &worker{
		process: p, frames: make(chan frame), taken: make(chan struct{}),
		gone: make(chan struct{}),
	}
	go w.read()
	return w
}

// read passes frames on until the connection fails.
func (w *worker) read() {
	defer close(w.frames)
	f := wire.Reader{From: bufio.NewReaderSize(w.process.Conn, 64<<10), Limit: maxAsk}
	for {
		kind, b, err := f.Next()
		if err != nil {
			return
		}
		select {
		case w.frames <- frame{kind, b}:
			<-w.taken
		case <-w.gone:
			return
		}
	}
}

// end ends the process. It may be called again.
func (w *worker) end() {
	w.closing.Do(func() {
		w.ended = true
		close(w.gone)
		_ = w.process.Conn.Close() // the process ends at the end of its connection
		if w.lost {
			time.AfterFunc(lostTime, w.process.Kill) // its own end is what is reported
			return
		}
		w.process.Kill()
	})
}

// send sends a frame.
func (w *worker) send(kind byte, payload ...[]byte) error {
	if c, ok := w.process.Conn.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = c.SetWriteDeadline(time.Now().Add(writeTime)) // else the write reports it
	}
	return send(w.process.Conn, kind, payload...)
}

// do runs a request. After an error of the worker it is ended.
func (w *worker) do(ctx context.Context, q *Request) error {
	w.began = false
	w.jobs++
	err := w.run(ctx, q)
	if errors.Is(err, errInTime) {
		return ctx.Err()
	}
	if err != nil {
		w.end()
	}
	if errors.Is(err, wire.ErrInvalid) {
		err = fmt.Errorf("%w (%w)", ErrEnded, err)
	}
	return err
}

// errInTime means that the worker has ended a request after its context.
// table: an error is no constant
var errInTime = errors.New("canceled")

// run sends a request and handles frames until it is done.
func (w *worker) run(ctx context.Context, q *Request) error {
	if err := w.awaitHello(ctx); err != nil {
		return err
	}
	b := append(wire.AppendString(nil, q.Job), q.Content...)
	if len(b) > maxJob {
		return fmt.Errorf("a request of %d bytes: %w", len(b), measure.ErrTooLarge)
	}
	if w.send(kindJob, b) != nil {
		return ErrEnded
	}
	canceled, overdue := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case f, ok := <-w.frames:
			if !ok {
				w.lost = true
				return ErrEnded
			}
			w.began = true
			last, err := w.handle(ctx, q, f)
			w.taken <- struct{}{}
			if err != nil {
				return err
			}
			if last && canceled == nil {
				return errInTime
			}
			if last {
				return nil
			}
		case <-canceled:
			if w.send(kindCancel, nil) != nil {
				return ctx.Err()
			}
			canceled, overdue = nil, time.After(cancelTime)
		case <-overdue:
			return ctx.Err()
		}
	}
}

// awaitHello waits for the first frame of a new worker.
func (w *worker) awaitHello(ctx context.Context) error {
	if w.hello {
		return nil
	}
	select {
	case f, ok := <-w.frames:
		if !ok {
			return ErrEnded
		}
		d := wire.Decoder{Rest: f.payload}
		if text, v := d.String(), d.Uint(); f.kind != kindHello || text != magic || v != version {
			d.Fail("no hello of version %d", version)
		}
		w.taken <- struct{}{}
		w.hello = true
		return d.End()
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(helloTime):
		return ErrEnded
	}
}

// handle handles a frame of a request. last: the request is done.
func (w *worker) handle(ctx context.Context, q *Request, f frame) (last bool, err error) {
	switch f.kind {
	case kindReply:
		return false, q.Reply(f.payload)
	case kindAsk:
		if q.Ask == nil {
			return false, wire.Invalid("a question")
		}
		got, err := q.Ask(ctx, f.payload)
		if err == nil && len(got) > MaxAnswer {
			err = fmt.Errorf("more than %d MB: %w", MaxAnswer>>20, measure.ErrTooLarge)
		}
		if err != nil {
			got = nil
		}
		if w.send(kindAnswer, answerHead(err), got) != nil {
			return false, ErrEnded
		}
		return false, nil
	case kindDone:
		used, err := readDone(f.payload)
		if err != nil {
			return false, err
		}
		w.used = used
		if used.fault != "" {
			return true, newFault(used.fault)
		}
		return true, nil
	}
	return false, wire.Invalid("kind %d", f.kind)
}

// newFault returns a bug that ended a request in a worker.
func newFault(text string) error {
	return &measure.Fault{Doing: "working on a request", Value: text, Where: "a worker"}
}
