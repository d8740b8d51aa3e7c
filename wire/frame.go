package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// HeadSize is the size of a frame's head in bytes. A frame is its length, its kind and its payload:
//
//	0      4      5
//	+------+------+----------------+
//	| n    | kind | n bytes        |   n: little-endian, without the five bytes of the head
//	+------+------+----------------+
const HeadSize = 5

// ErrInvalid means that the peer does not follow the protocol.
var ErrInvalid = errors.New("invalid frame")

// Invalid returns an error that is ErrInvalid, with a text.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// Start appends the head of a frame. End sets its length.
func Start(b []byte, kind byte) []byte { return append(b, 0, 0, 0, 0, kind) }

// End sets the length of the frame that starts at from and returns b.
func End(b []byte, from int) []byte {
	binary.LittleEndian.PutUint32(b[from:], uint32(len(b)-from-HeadSize))
	return b
}

// Head returns the head of a frame of n bytes.
func Head(kind byte, n int) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(n)), kind)
}

// Reader reads frames of at most Limit bytes.
type Reader struct {
	From  io.Reader
	Limit int
	buf   []byte
}

// Keep leaves the payload of the newest frame to the caller: the next frame has another buffer.
func (f *Reader) Keep() { f.buf = nil }

// Growth is the step in bytes in which the buffer of a Reader grows, so that a length without a
// payload costs no memory.
const Growth = 1 << 20

// Next returns the next frame. The payload is valid until the next call. The error is io.EOF at the
// end between two frames, io.ErrUnexpectedEOF within one.
func (f *Reader) Next() (kind byte, payload []byte, err error) {
	var head [HeadSize]byte
	if _, err := io.ReadFull(f.From, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if n > f.Limit || n < 0 {
		return 0, nil, Invalid("%d bytes exceed %d", n, f.Limit)
	}
	f.buf = f.buf[:0]
	for len(f.buf) < n {
		from := len(f.buf)
		f.buf = append(f.buf, make([]byte, min(n-from, max(Growth, from)))...)
		if _, err := io.ReadFull(f.From, f.buf[from:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
	}
	if cap(f.buf) > Growth && n < Growth/4 { // a large frame is rare
		defer func() { f.buf = nil }()
	}
	return head[4], f.buf, nil
}
