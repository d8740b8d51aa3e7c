// Package input turns the bytes of a file into those that a reader of profiles expects: it unpacks
// gzip, zstd, xz and bzip2, and decodes text to UTF-8 with line feeds. It opens nothing.
package input

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// bufferBytes is the size of the buffers of inputs.
const bufferBytes = 64 << 10

// A Packing is a format of compressed files. Inputs packed by it are unpacked while they are read.
type Packing struct {
	Name  string
	magic string
	open  func(io.Reader) (Unpacker, error)
}

// An Unpacker reads the bytes that were packed.
type Unpacker interface {
	io.Reader
	// Ignored returns a note about bytes that were left out; "": none.
	Ignored() string
}

// packings are the formats that are unpacked.
//
// table: RFC 1952, RFC 8878, bzip2(1), xz(1)
var packings = []Packing{
	{"gzip", "\x1f\x8b", func(r io.Reader) (Unpacker, error) { return newGunzip(r) }},
	{"zstd", "\x28\xb5\x2f\xfd", newUnzstd},
	{"zstd", "\x50\x2a\x4d\x18", newUnzstd}, // a skippable frame, with which pzstd begins
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (Unpacker, error) {
		z, err := xz.NewReader(r, maxWindow)
		return allRead{z}, err
	}},
	{"bzip2", "BZh", func(r io.Reader) (Unpacker, error) {
		return allRead{bzip2.NewReader(r)}, nil
	}},
}

// The first blocks that bzip2 can have: one with data, and the end of an empty file.
const (
	bzip2Block = "\x31\x41\x59\x26\x53\x59"
	bzip2End   = "\x17\x72\x45\x38\x50\x90"
)

// PackingOf returns the packing of an input by its first bytes; nil for none. The name of a
// function can begin as bzip2 does, so its first block is checked too.
func PackingOf(head []byte) *Packing {
	for _, p := range packings {
		if !bytes.HasPrefix(head, []byte(p.magic)) {
			continue
		}
		if p.Name != "bzip2" || len(head) >= 10 &&
			(string(head[4:10]) == bzip2Block || string(head[4:10]) == bzip2End) {
			return &p
		}
	}
	return nil
}

// maxWindow is the largest window of zstd and xz in bytes: what zstd(1) unpacks without --long, and
// twice that of xz -9.
const maxWindow = 128 << 20

// newUnzstd returns an Unpacker of zstd that starts no goroutine.
func newUnzstd(r io.Reader) (Unpacker, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	return allRead{z}, err
}

// allRead is an Unpacker that leaves out nothing.
type allRead struct{ io.Reader }

func (allRead) Ignored() string { return "" }

// A gunzip reads gzip of one or several members. It ignores bytes after the last member, as gzip(1)
// does; behind describes them.
type gunzip struct {
	in     *bufio.Reader
	z      *gzip.Reader
	behind string // "": none
}

func newGunzip(in io.Reader) (*gunzip, error) {
	g := &gunzip{in: bufio.NewReaderSize(in, bufferBytes)}
	z, err := gzip.NewReader(g.in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	g.z = z
	return g, nil
}

func (g *gunzip) Ignored() string { return g.behind }

func (g *gunzip) Read(p []byte) (int, error) {
	for {
		if g.z == nil {
			return 0, io.EOF
		}
		n, err := g.z.Read(p)
		if !errors.Is(err, io.EOF) || n > 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
		next, _ := g.in.Peek(2)
		switch {
		case len(next) == 0:
			g.z = nil
		case next[0] == 0x1f && len(next) == 2 && next[1] == 0x8b:
			if err := g.z.Reset(g.in); err != nil {
				return 0, err
			}
			g.z.Multistream(false)
		default:
			g.behind = fmt.Sprintf(
				"bytes behind the end of the gzip data are left out, the first is %#02x", next[0],
			)
			if next[0] == 0 {
				g.behind = "zeros behind the end of the gzip data are left out"
			}
			g.z = nil
		}
	}
}

// Open returns what unpacks an input; nothing needs to be closed. The error is of the first packed
// bytes.
func (p *Packing) Open(in io.Reader) (Unpacker, error) { return p.open(in) }
