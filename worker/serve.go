package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime/metrics"

	"culprit/measure"
	"culprit/wire"
)

// Job handles one request in a worker. The context ends when nobody waits for it any more. A write
// to reply fails only when the server has gone.
type Job func(ctx context.Context, request []byte, ask Ask, reply io.Writer) error

// Ask asks the server for something and waits. The answer belongs to the caller. The error is an
// *AnswerError, or the connection's. It is not safe for concurrent use.
type Ask func(question []byte) (answer []byte, err error)

// server is a running Serve.
type server struct {
	conn    io.Writer
	jobs    map[string]Job
	answers chan []byte // of size 1
	spent   func() measure.Span
	cancel  context.CancelFunc // of the newest request; nil: there was none
	running chan struct{}      // of size 1: a request runs
}

// Serve handles requests from a connection, one after the other, until the connection ends, which
// is the error. The process must end then: a request may still run. jobs are the handlers by name;
// spent returns the CPU time of this process so far. The error of a job is one of writing its
// reply: the job replies with all others.
func Serve(conn io.ReadWriter, jobs map[string]Job, spent func() measure.Span) error {
	s := &server{
		conn: conn, jobs: jobs, answers: make(chan []byte, 1), spent: spent,
		running: make(chan struct{}, 1),
	}
	hello := wire.AppendUint(wire.AppendString(nil, magic), version)
	if err := send(conn, kindHello, hello); err != nil {
		return err
	}
	f := wire.Reader{From: bufio.NewReaderSize(conn, 64<<10), Limit: MaxAnswer + maxJob}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	for {
		kind, b, err := f.Next()
		if err != nil {
			return err
		}
		if kind == kindAnswer && len(b) > 0 {
			f.Keep()
		}
		if err := s.handle(ctx, kind, b); err != nil {
			return err
		}
	}
}

// handle handles one frame.
func (s *server) handle(ctx context.Context, kind byte, b []byte) error {
	switch kind {
	case kindJob:
		d := wire.Decoder{Rest: b}
		name := d.String()
		request := bytes.Clone(d.Rest)
		if d.Err != nil {
			return d.Err
		}
		select {
		case s.running <- struct{}{}:
		default:
			return wire.Invalid("a request while another one runs")
		}
		ctx, cancel := context.WithCancel(ctx)
		s.cancel = cancel
		go s.run(ctx, name, request)
		return nil
	case kindAnswer: // Serve keeps its payload
		select {
		case s.answers <- b:
			return nil
		default:
			return wire.Invalid("an answer to nothing")
		}
	case kindCancel:
		if s.cancel != nil {
			s.cancel()
		}
		return nil
	}
	return wire.Invalid("kind %d", kind)
}

// run handles a request and reports that it is done. When that fails, the reader fails too.
func (s *server) run(ctx context.Context, name string, request []byte) {
	f := done{}
	err := s.handleJob(ctx, name, request)
	var bug *measure.Fault
	if errors.As(err, &bug) {
		f.fault = bug.Error()
	}
	f.cpu, f.memory = s.spent(), memory()
	<-s.running
	_ = send(s.conn, kindDone, f.append(nil)) // the reader reports it
}

// handleJob calls the handler of a request. A panic is its error.
func (s *server) handleJob(ctx context.Context, name string, request []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = measure.Recovered("answering in a worker", p)
		}
	}()
	job := s.jobs[name]
	if job == nil {
		return &measure.Fault{Doing: "answering in a worker", Value: "no job " + name, Where: "?"}
	}
	ask := func(question []byte) ([]byte, error) {
		if err := send(s.conn, kindAsk, question); err != nil {
			return nil, err
		}
		return readAnswer(<-s.answers) // at the end of the connection the process ends
	}
	return job(ctx, request, ask, replyWriter{s.conn})
}

// replyWriter sends a reply in parts.
type replyWriter struct{ conn io.Writer }

// Write implements io.Writer.
func (w replyWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part := b[:min(len(b), replyPart)]
		if err := send(w.conn, kindReply, part); err != nil {
			return 0, err
		}
		b = b[len(part):]
	}
	return n, nil
}

// send writes one frame whose payload is in parts.
func send(w io.Writer, kind byte, payload ...[]byte) error {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	if n <= smallFrame {
		b := wire.Start(make([]byte, 0, wire.HeadSize+n), kind)
		for _, p := range payload {
			b = append(b, p...)
		}
		_, err := w.Write(wire.End(b, 0))
		return err
	}
	all := net.Buffers{wire.Head(kind, n)}
	for _, p := range payload {
		all = append(all, p)
	}
	_, err := all.WriteTo(w)
	return err
}

// smallFrame is the size in bytes up to which a frame is copied to be written at once.
const smallFrame = 16 << 10

// memory returns the bytes that the runtime of this process has of the system.
func memory() int64 {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 || s[1].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}
