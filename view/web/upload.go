package web

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"culprit/profile"
)

// A user may upload any file, and a small one may expand to any size. Reading is bounded in memory
// and time, so that recording survives.

// maxGrowth is how many bytes a profile may take while it is read. systemd slows the server down
// from 400 MB on.
const maxGrowth = 192 << 20

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
