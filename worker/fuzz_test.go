package worker

import (
	"bytes"
	"context"
	"io"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
	"culprit/wire"
)

// stream is a connection whose peer sends bytes and takes all.
type stream struct {
	io.Reader
	io.Writer
}

func (stream) Close() error { return nil }

// limit is that of the buffers of frames.
func limit() heapbound.Limit { return heapbound.Limit{Base: 8 << 20, PerByte: 2048} }

// FuzzWorker: whatever a worker sends, its request ends, and other requests go on.
func FuzzWorker(f *testing.F) {
	hello := wire.End(append(wire.Start(nil, kindHello),
		wire.AppendUint(wire.AppendString(nil, magic), version)...), 0)
	frame := func(kind byte, b string) []byte {
		return wire.End(append(wire.Start(nil, kind), b...), 0)
	}
	end := frame(kindDone, "\x00\x02\x02")
	f.Add(bytes.Join([][]byte{hello, frame(kindAsk, "q"), frame(kindReply, "r"), end}, nil))
	f.Add(bytes.Join([][]byte{hello, end, end, hello}, nil))
	f.Add(bytes.Join([][]byte{hello, frame(kindDone, "\x03bug\x02\x02")}, nil))
	heapbound.FuzzWithin(f, limit(), func(t *testing.T, b []byte) {
		pool := NewPool(func(context.Context) (*Process, error) {
			return &Process{Conn: stream{bytes.NewReader(b), io.Discard}, Kill: func() {}}, nil
		})
		defer pool.Close()
		for range 2 {
			_, _ = ask(t.Context(), pool, "x", "y") // any error will do
		}
	})
}

// FuzzServe: whatever the server sends, a worker ends or answers.
func FuzzServe(f *testing.F) {
	frame := func(kind byte, b string) []byte {
		return wire.End(append(wire.Start(nil, kind), b...), 0)
	}
	f.Add(bytes.Join([][]byte{frame(kindJob, "\x04echox"), frame(kindCancel, "")}, nil))
	f.Add(bytes.Join([][]byte{frame(kindAnswer, "x"), frame(kindAnswer, "y")}, nil))
	heapbound.FuzzWithin(f, limit(), func(t *testing.T, b []byte) {
		jobs := map[string]Job{"echo": testJobs()["echo"]}
		_ = Serve(stream{bytes.NewReader(b), io.Discard}, jobs, // any error will do
			func() measure.Span { return 0 })
	})
}
