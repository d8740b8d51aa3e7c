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

// A server that records must live on whatever file somebody drops: what a reader makes of a small one may be large.

// mostGrowth is by how much the heap may grow while a file is read. systemd slows the server down from 400 MB on.
const mostGrowth = 192 << 20

// careful is a reader that ends when the context does, or when the heap has grown too much since its first byte.
type careful struct {
	ctx   context.Context
	in    io.Reader
	began bool
	first uint64 // bytes of the heap at the beginning
	next  uint64 // from when on it is worth a collection to know
}

func (c *careful) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	if now := heapBytes(); !c.began {
		c.began, c.first, c.next = true, now, now+mostGrowth
	} else if now > c.next {
		runtime.GC() // how much of it is alive, nobody knows before
		if now = heapBytes(); now > c.first+mostGrowth {
			return 0, tooLargef("the profile takes more than %d MB of memory", mostGrowth>>20)
		}
		c.next = now + mostGrowth/2
	}
	return c.in.Read(b)
}

// heapBytes gives the bytes of the heap, with what has not been collected yet.
func heapBytes() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// unpacked gives what a file holds that may be packed by gzip, up to twice, and at most so many bytes of it.
func unpacked(r io.Reader, most int64) (io.Reader, error) {
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
		r = &bounded{z, most}
	}
}

// bounded is an unpacked file.
type bounded struct {
	in   io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, tooLargef("the file unpacks to more than %d MB", mostUnpacked>>20)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.in.Read(p)
	b.left -= int64(n)
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = &profile.ParseError{What: "damaged gzip: " + err.Error()}
	}
	return n, err
}
