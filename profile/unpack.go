package profile

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// A packing is a format of compressed files. Inputs packed by it are unpacked while they are read.
type packing struct {
	name  string
	magic string
	open  func(io.Reader) (unpacker, error)
}

// An unpacker reads the bytes that were packed.
type unpacker interface {
	io.Reader
	// ignored returns a note about bytes that were left out; "": none.
	ignored() string
}

// packings are the formats that are unpacked.
//
// table: RFC 1952, RFC 8878, bzip2(1), xz(1)
var packings = []packing{
	{"gzip", "\x1f\x8b", func(r io.Reader) (unpacker, error) { return newGunzip(r) }},
	{"zstd", "\x28\xb5\x2f\xfd", newUnzstd},
	{"zstd", "\x50\x2a\x4d\x18", newUnzstd}, // a skippable frame, with which pzstd begins
	{"xz", "\xfd7zXZ\x00", func(r io.Reader) (unpacker, error) {
		z, err := xz.NewReader(r, maxWindow)
		return allRead{z}, err
	}},
	{"bzip2", "BZh", func(r io.Reader) (unpacker, error) { return allRead{bzip2.NewReader(r)}, nil }},
}

// The first blocks that bzip2 can have: one with data, and the end of an empty file.
const (
	bzip2Block = "\x31\x41\x59\x26\x53\x59"
	bzip2End   = "\x17\x72\x45\x38\x50\x90"
)

// packingOf returns the packing of an input by its first bytes; nil for none. The name of a
// function can begin as bzip2 does, so its first block is checked too.
func packingOf(head []byte) *packing {
	for _, p := range packings {
		if !bytes.HasPrefix(head, []byte(p.magic)) {
			continue
		}
		if p.name != "bzip2" || len(head) >= 10 &&
			(string(head[4:10]) == bzip2Block || string(head[4:10]) == bzip2End) {
			return &p
		}
	}
	return nil
}

// maxWindow is the largest window of zstd and xz in bytes: what zstd(1) unpacks without --long, and
// twice that of xz -9.
const maxWindow = 128 << 20

// newUnzstd returns an unpacker of zstd that starts no goroutine.
func newUnzstd(r io.Reader) (unpacker, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	return allRead{z}, err
}

// allRead is an unpacker that leaves out nothing.
type allRead struct{ io.Reader }

func (allRead) ignored() string { return "" }

// readPacked reads a packed input. packed is the number of packings around it.
func readPacked(p *packing, in io.Reader, o Options, packed int) (*Tree, error) {
	if packed > 1 {
		return nil, &ParseError{What: "it is packed more than twice"}
	}
	from := &failingReader{in: in}
	z, err := p.open(from)
	if err != nil {
		what := strings.TrimPrefix(err.Error(), p.name+": ")
		return nil, &ParseError{What: "damaged " + p.name + ": " + what}
	}
	most := o.Unpacked
	if most == 0 {
		most = MaxBytes
	}
	out := &unpackedReader{in: z, from: from, name: p.name, left: most, most: most}
	t, err := read(out, o, packed+1)
	if out.err != nil { // the reader of the format may have made another error of it
		return nil, out.err
	}
	if note := z.ignored(); err == nil && note != "" {
		t.note(note)
	}
	return t, err
}

// A failingReader keeps the error of its input.
type failingReader struct {
	in  io.Reader
	err error
}

func (f *failingReader) Read(b []byte) (int, error) {
	n, err := f.in.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

// An UnpackedError means that an input unpacks to more bytes than Options.Unpacked.
type UnpackedError struct {
	Limit int64 // bytes
}

// Error names the limit.
func (e *UnpackedError) Error() string {
	return fmt.Sprintf("the file unpacks to more than %d MB", e.Limit>>20)
}

// An unpackedReader reads from an unpacker, at most a number of bytes. Its error is a *ParseError
// where the packed bytes are at fault.
type unpackedReader struct {
	in         io.Reader
	from       *failingReader // of the packed bytes
	name       string         // of the packing
	left, most int64          // bytes
	err        error          // other than io.EOF
}

func (u *unpackedReader) Read(b []byte) (int, error) {
	if u.err != nil || len(b) == 0 {
		return 0, u.err
	}
	n, err := u.in.Read(b[:min(int64(len(b)), u.left+1)])
	if int64(n) > u.left {
		n = int(u.left)
		err = &UnpackedError{u.most}
	} else if err != nil && !errors.Is(err, io.EOF) && u.from.err == nil {
		what := strings.TrimPrefix(err.Error(), u.name+": ")
		err = &ParseError{What: "damaged " + u.name + ": " + what}
	}
	u.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		u.err = err
	}
	return n, err
}

// A gunzip reads gzip of one or several members. It ignores bytes after the last member, as gzip(1)
// does; behind describes them.
type gunzip struct {
	in     *bufio.Reader
	z      *gzip.Reader
	behind string // "": none
}

func newGunzip(in io.Reader) (*gunzip, error) {
	g := &gunzip{in: bufio.NewReaderSize(in, detectBytes)}
	z, err := gzip.NewReader(g.in)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	g.z = z
	return g, nil
}

func (g *gunzip) ignored() string { return g.behind }

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
