package worker

import (
	"context"
	"errors"

	"culprit/measure"
	"culprit/wire"
)

// The first frame is the hello of the worker. Then, for each request: one kindJob, any number of
// kindAsk with a kindAnswer each, any number of kindReply, one kindDone. kindCancel may follow a
// kindJob.
const (
	magic   = "culprit worker"
	version = 1
)

// The kinds of frames to the worker.
const (
	kindJob    byte = iota + 1 // name and content of a request
	kindAnswer                 // to the last kindAsk: an error or bytes
	kindCancel                 // the request is not needed any more
)

// The kinds of frames to the server.
const (
	kindHello byte = iota + 65 // magic, version
	kindAsk                    // the request needs something of the server
	kindReply                  // a part of the reply
	kindDone                   // the request is done: a fault, and what the worker has used
)

// Sizes of payloads in bytes. A larger frame ends the connection.
const (
	maxJob    = 2 << 20
	MaxAnswer = 64 << 20 // of what a request asks the server
	maxAsk    = 1 << 20
	replyPart = 256 << 10
)

// done is the content of a kindDone.
type done struct {
	fault  string // a bug of culprit that ended the request; "": none
	cpu    measure.Span
	memory int64 // bytes
}

func (f *done) append(b []byte) []byte {
	return wire.AppendInt(wire.AppendInt(wire.AppendString(b, f.fault), int64(f.cpu)), f.memory)
}

func readDone(b []byte) (done, error) {
	d := wire.Decoder{Rest: b}
	f := done{fault: d.String(), cpu: measure.Span(d.Int()), memory: d.Int()}
	if f.cpu < 0 || f.memory < 0 {
		d.Fail("%v of CPU time and %d bytes", f.cpu, f.memory)
	}
	return f, d.End()
}

// The errors of an answer that a worker recognizes.
const (
	answerBytes byte = iota
	answerError
	answerTooLate
	answerCanceled
	answerTooLarge
)

// answerHead returns the start of an answer: its kind, and the text of an error.
func answerHead(err error) []byte {
	if err == nil {
		return []byte{answerBytes}
	}
	kind := answerError
	for k, is := range map[byte]error{
		answerTooLate: context.DeadlineExceeded, answerCanceled: context.Canceled,
		answerTooLarge: measure.ErrTooLarge,
	} {
		if errors.Is(err, is) {
			kind = k
		}
	}
	return append([]byte{kind}, err.Error()...)
}

// AnswerError is an error of the server, in the worker. errors.Is finds context.DeadlineExceeded,
// context.Canceled and measure.ErrTooLarge.
type AnswerError struct {
	text string
	is   error
}

// Error returns the text that it had in the server.
func (e *AnswerError) Error() string { return e.text }

// Unwrap returns the error that it is; nil: another one.
func (e *AnswerError) Unwrap() error { return e.is }

// readAnswer reads an answer.
func readAnswer(b []byte) ([]byte, error) {
	if len(b) == 0 {
		return nil, wire.Invalid("an answer without a kind")
	}
	text := func() string { return string(b[1:]) }
	switch b[0] {
	case answerBytes:
		return b[1:], nil
	case answerError:
		return nil, &AnswerError{text(), nil}
	case answerTooLate:
		return nil, &AnswerError{text(), context.DeadlineExceeded}
	case answerCanceled:
		return nil, &AnswerError{text(), context.Canceled}
	case answerTooLarge:
		return nil, &AnswerError{text(), measure.ErrTooLarge}
	}
	return nil, wire.Invalid("an answer of kind %d", b[0])
}
