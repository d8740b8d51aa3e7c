package store

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// codec contains a compressor and a decompressor, created at first use. One is enough for the
// process: they keep no state between calls, and their tables take about a megabyte.
type codec struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
	err  error

	groupPool sync.Pool // of *group
	clockPool sync.Pool // of *clockBuffers
}

// group returns a reusable group.
func (c *codec) group() *group {
	if g, ok := c.groupPool.Get().(*group); ok {
		return g
	}
	return &group{}
}

// clockBuffers are buffers for the ticks of a segment.
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
		c.enc, c.err = zstd.NewWriter(
			nil,
			zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(
				true,
			),
			zstd.WithWindowSize(128<<10),
			zstd.WithEncoderCRC(false),
		)
		if c.err == nil {
			c.dec, c.err = zstd.NewReader(
				nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(256<<20),
			)
		}
	})
}

// compress appends the length of plain and its compressed bytes to out.
func (c *codec) compress(out, plain []byte) []byte {
	c.open()
	out = appendUvarint(out, uint64(len(plain)))
	return c.enc.EncodeAll(plain, out)
}

// decompress reverses compress, into out if that is large enough. It refuses a length above limit
// before it allocates. The error is errCorrupt.
func (c *codec) decompress(out, packed []byte, limit uint64) ([]byte, error) {
	c.open()
	r := reader{b: packed}
	n := r.uvarint()
	if r.err != nil {
		return nil, r.err
	}
	if n > limit || n > 4096*uint64(len(packed)+16) {
		// The data compresses far less than that, and a corrupt length must not allocate memory.
		return nil, fmt.Errorf("%d bytes that decompress to %d: %w", len(packed), n, errCorrupt)
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
