package profile

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"culprit/profile/input"
)

// readPacked reads a packed input. packed is the number of packings around it.
func readPacked(p *input.Packing, in io.Reader, o Options, packed int) (*Tree, error) {
	if packed > 1 {
		return nil, &ParseError{What: "it is packed more than twice"}
	}
	from := &failingReader{in: in}
	z, err := p.Open(from)
	if err != nil {
		what := strings.TrimPrefix(err.Error(), p.Name+": ")
		return nil, &ParseError{What: "damaged " + p.Name + ": " + what}
	}
	most := o.Unpacked
	if most == 0 {
		most = MaxBytes
	}
	out := &unpackedReader{in: z, from: from, name: p.Name, left: most, most: most}
	t, err := read(out, o, packed+1)
	if out.err != nil { // the reader of the format may have made another error of it
		return nil, out.err
	}
	if note := z.Ignored(); err == nil && note != "" {
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

// An unpackedReader reads from an Unpacker, at most a number of bytes. Its error is a *ParseError
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
