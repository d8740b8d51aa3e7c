package remote

import (
	"errors"

	"culprit/wire"
)

// The first frame of each direction is kindHello. Package wire draws a frame.
const headSize = wire.HeadSize

// version is that of the frames. Both ends are the same program, so any other version is an error.
const version = 4

// magic begins the payload of a hello.
const magic = "culprit"

// Sizes of payloads. A larger frame ends the connection.
const (
	maxRequest = 1 << 20  // to the recorder
	maxReply   = 32 << 20 // to the client
)

// kind says what a frame contains.
type kind uint8

// The kinds of frames to the recorder.
const (
	kindHello    kind = iota + 1 // magic, version; from the recorder also its sources
	kindRun                      // start or continue a run of a source
	kindScript                   // start or continue a D script
	kindSample                   // sample the CPUs for some seconds
	kindStop                     // stop the run, script or sampling of an ID
	kindAck                      // ticks of a run are durable up to a number
	kindComplete                 // what may be written in a D program
)

// The kinds of frames to the client.
const (
	kindTick      kind = iota + 65 // the batches of one reading
	kindStarted                    // a script runs: its source
	kindStatus                     // output, losses and notes of a script
	kindSampled                    // a part of the samples
	kindUsage                      // CPU time and memory of the recorder
	kindEnded                      // what an ID names has ended, with its error
	kindCompleted                  // what may be written
)

// IsProtocolError reports whether Recorder.Serve or Client.Serve has closed its connection because
// the peer did not follow the protocol. The peer does not know it.
func IsProtocolError(err error) bool { return errors.Is(err, wire.ErrInvalid) }

func invalid(format string, args ...any) error { return wire.Invalid(format, args...) }

// startFrame appends the head of a frame. endFrame sets its length.
func startFrame(b []byte, k kind) []byte { return wire.Start(b, byte(k)) }

func endFrame(b []byte, from int) []byte { return wire.End(b, from) }

// growth is how large a buffer may be that is kept for the next frame.
const growth = wire.Growth

// frameReader reads frames.
type frameReader struct{ wire.Reader }

// next is wire.Reader.Next.
func (f *frameReader) next() (kind, []byte, error) {
	k, b, err := f.Next()
	return kind(k), b, err
}
