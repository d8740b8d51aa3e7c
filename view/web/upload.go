package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"runtime"
	"runtime/metrics"

	"culprit/profile"
)

// A user may upload any file, and a parser may need much memory for a small one. The readers here
// bound memory and time, so that recording survives.

// maxGrowth is how many bytes the heap may grow while a file is read. systemd slows the server down
// from 400 MB on.
const maxGrowth = 192 << 20

// limitedReader fails when the context ends, or when the live heap has grown by maxGrowth since the
// first read.
type limitedReader struct {
	ctx   context.Context
	in    io.Reader
	began bool
	first uint64 // heap bytes at the first read
	next  uint64 // heap bytes from which on it collects garbage to measure the live heap
}

func (l *limitedReader) Read(b []byte) (int, error) {
	if err := l.ctx.Err(); err != nil {
		return 0, err
	}
	if now := heapBytes(); !l.began {
		l.began, l.first, l.next = true, now, now+maxGrowth
	} else if now > l.next {
		runtime.GC()
		if now = heapBytes(); now > l.first+maxGrowth {
			return 0, profileTooLarge("the profile takes more than %d MB of memory", maxGrowth>>20)
		}
		l.next = now + maxGrowth/2
	}
	return l.in.Read(b)
}

// heapBytes returns the bytes of the heap, with garbage that has not been collected.
func heapBytes() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// unpack returns the contents of a file that may be compressed by gzip, up to twice. Reading fails
// after limit bytes.
func unpack(r io.Reader, limit int64) (io.Reader, error) {
	for packed := 0; ; packed++ {
		in := bufio.NewReaderSize(r, 64<<10)
		head, err := in.Peek(2)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if !bytes.Equal(head, []byte{0x1f, 0x8b}) {
			return in, nil
		}
		if packed == 2 {
			return nil, &profile.ParseError{What: "it is packed more than twice"}
		}
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, &profile.ParseError{What: "damaged gzip: " + err.Error()}
		}
		r = &unpackedReader{z, limit}
	}
}

// unpackedReader reads an unpacked file. It fails after left more bytes.
type unpackedReader struct {
	in   io.Reader
	left int64
}

func (u *unpackedReader) Read(p []byte) (int, error) {
	if u.left <= 0 {
		return 0, profileTooLarge("the file unpacks to more than %d MB", maxUnpacked>>20)
	}
	if int64(len(p)) > u.left {
		p = p[:u.left]
	}
	n, err := u.in.Read(p)
	u.left -= int64(n)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) ||
		errors.Is(err, io.ErrUnexpectedEOF) {
		err = &profile.ParseError{What: "damaged gzip: " + err.Error()}
	}
	return n, err
}
