package jfr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Magic is the first bytes of each chunk.
const Magic = "FLR\x00"

// An Error is an error in a file.
type Error struct {
	Byte int64 // of the file
	What string
}

// Error returns the position and what is wrong.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Byte, e.What) }

// A File describes what was read.
type File struct {
	Chunks int
	// Cut means that the last chunk has no end: the program was killed, or the file was copied too
	// early.
	Cut    bool
	Unread int   // bytes at the end that nothing explains
	Lost   int64 // bytes of events that the Java program dropped
	Start  int64 // of the first chunk, ns since 1970
	End    int64 // of the last chunk, ns since 1970
}

// A Handler gets what is read. Its functions may panic, but not keep what they get.
type Handler struct {
	// Charge is called before memory is taken that stays. Release is called when n bytes of it are
	// free again.
	Charge, Release func(n int)
	// Wants reports whether samples of an event are wanted. Others are counted only.
	Wants func(event string) bool
	// Sample gets an event that is wanted. Its error ends the reading.
	Sample func(*Sample) error
	// Other gets the number of events with a stack of a chunk that are not wanted.
	Other func(event string, n int)
}

// The sizes of a chunk.
const (
	headerSize = 68
	maxChunk   = 1 << 30 // bytes
	takeStep   = 256 << 10
)

// header is the start of a chunk, with the most significant byte first:
//
//	0 "FLR\0"  4 major u16  6 minor u16  8 size u64  16 constants u64  24 metadata u64
//	32 start, ns u64  40 length, ns u64  48 start, ticks u64  56 ticks per second u64
//	64 state u8  65 features u24: 1 integers are compressed, 2 the last chunk of the file
type header struct {
	size       int64 // with the header; 0: unknown, the chunk is not complete
	metadata   int64 // position in the chunk; 0: unknown
	start      int64 // ns since 1970
	length     int64 // ns
	hz         int64 // ticks per second
	compressed bool
}

// Read reads a file to its end. The error is an *Error, that of in, or that of h.Sample.
func Read(in io.Reader, h Handler) (*File, error) {
	f := &File{}
	at := int64(0)
	for {
		head := make([]byte, headerSize)
		n, err := io.ReadFull(in, head)
		switch {
		case errors.Is(err, io.EOF) && f.Chunks > 0:
			return f, nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			if f.Chunks > 0 {
				f.Cut, f.Unread = true, f.Unread+n
				return f, nil
			}
			return nil, &Error{at + int64(n), "the file ends in the header of its first chunk"}
		case err != nil:
			return nil, err
		}
		if f.Chunks > 0 && string(head[:len(Magic)]) != Magic {
			// A program that was killed has written more than the header of the chunk says.
			more, err := io.Copy(io.Discard, in)
			if err != nil {
				return nil, err
			}
			f.Cut, f.Unread = true, f.Unread+headerSize+int(more)
			return f, nil
		}
		c, err := parseHeader(head, at)
		if err != nil {
			return nil, err
		}
		if f.Chunks == 0 {
			f.Start = c.start
		}
		f.End = max(f.End, c.start+max(0, c.length))
		f.Chunks++
		size, err := readChunk(in, f, c, at, &h)
		if err != nil {
			return nil, err
		}
		if at += size; f.Cut {
			return f, nil
		}
	}
}

// parseHeader parses the header of a chunk at a position of the file.
func parseHeader(b []byte, at int64) (c header, err error) {
	if string(b[:4]) != Magic {
		return c, &Error{at, fmt.Sprintf("no chunk begins here: %q", b[:4])}
	}
	u64 := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[i:])) }
	if major := binary.BigEndian.Uint16(b[4:]); major != 2 {
		return c, &Error{at + 4, fmt.Sprintf("format %d.%d of Oracle's Java 7 and 8: only "+
			"format 2 of Java 8u262 and later is read; JDK Mission Control opens the others",
			major, binary.BigEndian.Uint16(b[6:]))}
	}
	c = header{size: u64(8), metadata: u64(24), start: u64(32), length: u64(40), hz: u64(56),
		compressed: b[67]&1 != 0}
	if c.size != 0 && c.size < headerSize || c.size > maxChunk {
		return c, &Error{at + 8, fmt.Sprintf("a chunk of %d bytes, and the limit is %d", c.size,
			maxChunk)}
	}
	if c.hz <= 0 {
		return c, &Error{at + 56, fmt.Sprintf("%d ticks per second", c.hz)}
	}
	if c.metadata < headerSize {
		c.metadata = 0
	}
	return c, nil
}

// readChunk reads the rest of a chunk whose header is at a position of the file, and returns the
// size of the chunk.
func readChunk(in io.Reader, f *File, head header, at int64, h *Handler) (int64, error) {
	want := int64(maxChunk)
	if head.size > 0 {
		want = head.size
	}
	charged := headerSize
	h.Charge(charged)
	defer func() { h.Release(charged) }()
	body := make([]byte, headerSize) // positions are of the chunk
	for int64(len(body)) < want {
		step := int(min(want-int64(len(body)), int64(max(takeStep, len(body)))))
		h.Charge(step)
		charged += step
		from := len(body)
		body = slices.Grow(body, step)[:from+step]
		n, err := io.ReadFull(in, body[from:])
		body = body[:from+n]
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			f.Cut = true
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if head.size == 0 {
		if int64(len(body)) == maxChunk {
			return 0, &Error{at, "a chunk of more than 1 GB that was not completed"}
		}
		// The file may have more chunks, which nothing but a search can find.
		if i := bytes.Index(body[headerSize:], []byte(Magic+"\x00\x02")); i >= 0 {
			return 0, &Error{at, "a chunk that was not completed is followed by another: " +
				"jfr disassemble FILE separates them"}
		}
	}
	c := &chunk{header: head, b: body, at: at, file: f, handler: h}
	defer func() { h.Release(c.charged) }()
	return int64(len(body)), c.read()
}
