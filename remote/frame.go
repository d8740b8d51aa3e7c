package remote

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is its length, its kind and its payload:
//
//	0      4      5
//	+------+------+----------------+
//	| n    | kind | n bytes        |   n: little-endian, without the five bytes of the head
//	+------+------+----------------+
//
// The first frame of each direction is kindHello.
const headSize = 5

// version is that of the frames. Both ends are the same program, so any other version is an error.
const version = 1

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
	kindHello  kind = iota + 1 // magic, version; from the recorder also its sources
	kindRun                    // start or continue a run of a source
	kindScript                 // start or continue a D script
	kindSample                 // sample the CPUs for some seconds
	kindStop                   // stop the run, script or sampling of an ID
	kindAck                    // ticks of a run are durable up to a number
)

// The kinds of frames to the client.
const (
	kindTick    kind = iota + 65 // the batches of one reading
	kindStarted                  // a script runs: its source
	kindStatus                   // output, losses and notes of a script
	kindSampled                  // a part of the samples
	kindUsage                    // CPU time and memory of the recorder
	kindEnded                    // a run, script or sampling has ended, with its error
)

// errFrame means that the peer does not follow the protocol.
var errFrame = errors.New("invalid frame")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errFrame}, args...)...)
}

// startFrame appends the head of a frame. endFrame sets its length.
func startFrame(b []byte, k kind) []byte { return append(b, 0, 0, 0, 0, byte(k)) }

// endFrame sets the length of the frame that starts at from and returns b.
func endFrame(b []byte, from int) []byte {
	binary.LittleEndian.PutUint32(b[from:], uint32(len(b)-from-headSize))
	return b
}

// frameReader reads frames of at most limit bytes.
type frameReader struct {
	r     io.Reader
	limit int
	buf   []byte
}

// growth is the step in which a buffer grows, so that a length without a payload costs no memory.
const growth = 1 << 20

// next returns the next frame. The payload is valid until the next call. The error is io.EOF at the
// end between two frames, io.ErrUnexpectedEOF within one.
func (f *frameReader) next() (kind, []byte, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n > f.limit || n < 0 {
		return 0, nil, invalid("%d bytes exceed %d", n, f.limit)
	}
	f.buf = f.buf[:0]
	for len(f.buf) < n {
		from := len(f.buf)
		f.buf = append(f.buf, make([]byte, min(n-from, max(growth, from)))...)
		if _, err := io.ReadFull(f.r, f.buf[from:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
	if cap(f.buf) > growth && n < growth/4 { // a large frame is rare
		defer func() { f.buf = nil }()
	}
	return kind(head[4]), f.buf, nil
}
