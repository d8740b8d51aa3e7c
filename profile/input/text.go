package input

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// Inputs can have a byte order mark, UTF-16, or carriage returns as line ends. The readers get
// UTF-8 with line feeds.

// Decoded returns a reader of the input in UTF-8 with line feeds, by its first bytes. It returns in
// itself for binary input and text that is already in that form.
func Decoded(head []byte, in io.Reader) io.Reader {
	switch {
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		b := bufio.NewReaderSize(in, bufferBytes)
		b.Discard(3) //nolint:errcheck // the bytes are buffered
		return b
	case bytes.HasPrefix(head, []byte("\xff\xfe")) && len(head)%2 == 0 || wideText(head, 0):
		return &wideReader{in: bufio.NewReaderSize(in, bufferBytes), order: binary.LittleEndian}
	case bytes.HasPrefix(head, []byte("\xfe\xff")) || wideText(head, 1):
		return &wideReader{in: bufio.NewReaderSize(in, bufferBytes), order: binary.BigEndian}
	case bytes.IndexByte(head, '\r') >= 0 && !bytes.ContainsAny(head, "\n\x00"):
		return &returnReader{in}
	}
	return in
}

// wideText reports whether bytes are ASCII in UTF-16 without a mark: every second byte, from the
// one after text on, is zero.
func wideText(head []byte, text int) bool {
	n := min(len(head)&^1, 256)
	for i := range n {
		c := head[i]
		if i%2 != text && c != 0 ||
			i%2 == text && (c >= 0x7f || c < ' ' && c != '\n' && c != '\r' && c != '\t') {
			return false
		}
	}
	return n >= 8
}

// A wideReader converts UTF-16 to UTF-8, without the mark. Invalid UTF-16 becomes U+FFFD.
type wideReader struct {
	in    *bufio.Reader
	order binary.ByteOrder
	left  []byte // decoded and not yet read
	text  []byte
	begun bool
}

func (w *wideReader) unit() (rune, error) {
	var b [2]byte
	if _, err := io.ReadFull(w.in, b[:]); err != nil {
		return 0, io.EOF
	}
	return rune(w.order.Uint16(b[:])), nil
}

func (w *wideReader) Read(p []byte) (int, error) {
	if len(w.left) == 0 {
		w.text = w.text[:0]
		for len(w.text) < 4<<10 {
			r, err := w.unit()
			if err != nil {
				if len(w.text) == 0 {
					return 0, err
				}
				break
			}
			if !w.begun {
				if w.begun = true; r == 0xfeff {
					continue
				}
			}
			if utf16.IsSurrogate(r) {
				low, err := w.unit()
				if err != nil {
					low = 0
				}
				r = utf16.DecodeRune(r, low)
			}
			w.text = utf8.AppendRune(w.text, r)
		}
		w.left = w.text
	}
	n := copy(p, w.left)
	w.left = w.left[n:]
	return n, nil
}

// A returnReader replaces carriage returns by line feeds.
type returnReader struct{ in io.Reader }

func (r *returnReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for i, c := range p[:n] {
		if c == '\r' {
			p[i] = '\n'
		}
	}
	return n, err
}
