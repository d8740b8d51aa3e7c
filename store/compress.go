package store

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// codec holds a compressor, made at first use. One is enough for the process: what it compresses does not depend on what it
// compressed before, and its tables take a megabyte or so.
type codec struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error

	groupPool sync.Pool // of *group, to be used again
	clockPool sync.Pool // of *clockRoom
}

// group gives room for a group.
func (c *codec) group() *group {
	if g, ok := c.groupPool.Get().(*group); ok {
		return g
	}
	return &group{}
}

// clockRoom is room for the ticks of a segment.
type clockBuffers struct {
	value, plain []byte
	ticks        []tick
}

func (c *codec) clockBuffers() *clockBuffers {
	if r, ok := c.clockPool.Get().(*clockBuffers); ok {
		return r
	}
	return &clockBuffers{}
}

func (c *codec) open() {
	c.once.Do(func() {
		c.enc, c.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(128<<10), zstd.WithEncoderCRC(false))
		if c.err == nil {
			c.dec, c.err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(256<<20))
		}
	})
}

// compress appends plain, compressed, to out, after its length.
func (c *codec) compress(out, plain []byte) []byte {
	c.open()
	out = appendUvarint(out, uint64(len(plain)))
	return c.enc.EncodeAll(plain, out)
}

// decompress gives what compress was given, in out when that has room. A length above limit is refused before memory is taken.
func (c *codec) decompress(out, packed []byte, limit uint64) ([]byte, error) {
	c.open()
	r := reader{b: packed}
	n := r.uvarint()
	if r.err != nil {
		return nil, r.err
	}
	if n > limit || n > 4096*uint64(len(packed)+16) {
		// zstd's best is far from it on what is kept here; a wrong length must not take memory.
		return nil, fmt.Errorf("%d bytes that unfold to %d: %w", len(packed), n, errCorrupt)
	}
	if uint64(cap(out)) < n {
		out = make([]byte, 0, n)
	}
	var h zstd.Header
	if err := h.Decode(r.b); err != nil || h.HasFCS && h.FrameContentSize != n {
		return nil, errCorrupt
	}
	plain, err := c.dec.DecodeAll(r.b, out[:0])
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCorrupt, err)
	}
	if uint64(len(plain)) != n {
		return nil, errCorrupt
	}
	return plain, nil
}
