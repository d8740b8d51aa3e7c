package window

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
)

// content returns bytes of which each group of four contains its own offset.
func content(size int) []byte {
	b := make([]byte, 0, size+4)
	for at := 0; len(b) < size; at += 4 {
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
	}
	return b[:size]
}

// TestWindowBytes: bytes within a page, over the edge of two and at the end are those of the
// section, in whatever order they are asked for, as it lies in the file and unpacked.
func TestWindowBytes(t *testing.T) {
	const before = 100
	b := content(5*PageSize + 1000)
	file := append(make([]byte, before), b...)
	for _, tt := range []struct {
		name string
		r    io.ReaderAt
		off  int64
		open func() (io.Reader, error)
	}{
		{"in the file", bytes.NewReader(file), before, nil},
		{"unpacked", nil, 0, func() (io.Reader, error) { return bytes.NewReader(b), nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := New(2)
			w.Over(tt.r, tt.off, uint64(len(b)), tt.open)
			places := []int{5 * PageSize, 0, 3*PageSize - 6, PageSize + 8, len(b) - 12,
				2 * PageSize}
			for _, at := range places {
				if got := w.Bytes(uint64(at), 12); !bytes.Equal(got, b[at:at+12]) {
					t.Errorf("bytes at %d: % x, want % x", at, got, b[at:at+12])
				}
			}
			all := w.Bytes(0, uint64(len(b)))
			if !bytes.Equal(all, b) {
				t.Error("the whole section differs")
			}
			if got := w.Bytes(uint64(len(b)-4), 5); got != nil {
				t.Errorf("behind the end: % x", got)
			}
			if got, ok := w.Number(PageSize+8, 4); !ok || got != PageSize+8 {
				t.Errorf("number of 4 bytes: %d, %t", got, ok)
			}
			if got, ok := w.Number(PageSize+8, 8); !ok || got != (PageSize+12)<<32|(PageSize+8) {
				t.Errorf("number of 8 bytes: %#x, %t", got, ok)
			}
			if _, ok := w.Number(PageSize, 3); ok {
				t.Error("a number of 3 bytes")
			}
			if len(w.pages) != 2 {
				t.Errorf("%d pages are kept, want 2", len(w.pages))
			}
			if w.Size() != uint64(len(b)) {
				t.Errorf("size %d, want %d", w.Size(), len(b))
			}
		})
	}
}

// TestWindowMost: more than 1 MiB is not returned at once, 1 MiB is.
func TestWindowMost(t *testing.T) {
	b := content(2 << 20)
	w := New(1)
	w.Over(bytes.NewReader(b), 0, uint64(len(b)), nil)
	if got := w.Bytes(4, 1<<20); !bytes.Equal(got, b[4:4+1<<20]) {
		t.Errorf("%d bytes, want 1 MiB", len(got))
	}
	if got := w.Bytes(4, 1<<20+1); got != nil {
		t.Errorf("%d bytes", len(got))
	}
}

// TestWindowText: a text ends with a NUL, also behind the edge of a page; without one there is
// none.
func TestWindowText(t *testing.T) {
	b := []byte(strings.Repeat("x", PageSize-3) + "edge of pages\x00no end")
	w := New(2)
	w.Over(bytes.NewReader(b), 0, uint64(len(b)), nil)
	if got, ok := w.Text(PageSize - 3); !ok || got != "edge of pages" {
		t.Errorf("%q, %t", got, ok)
	}
	if got, ok := w.Text(PageSize + 11); ok {
		t.Errorf("%q without a NUL", got)
	}
}

// TestWindowBroken: what cannot be unpacked is not read, and what comes before it is.
func TestWindowBroken(t *testing.T) {
	b := content(2 * PageSize)
	opened := 0
	w := New(1)
	w.Over(nil, 0, uint64(3*len(b)), func() (io.Reader, error) {
		opened++
		return bytes.NewReader(b), nil
	})
	for _, number := range []uint64{5, 2, 4} {
		if p := w.Page(number); p != nil {
			t.Errorf("page %d has %d bytes", number, len(p))
		}
	}
	if opened != 1 {
		t.Errorf("unpacked %d times to find that page 2 cannot be read, want once", opened)
	}
	if p := w.Page(1); !bytes.Equal(p, b[PageSize:]) {
		t.Error("page 1 differs")
	}
	w.Over(nil, 0, 10, func() (io.Reader, error) { return nil, errors.New("not packed") })
	if p := w.Page(0); p != nil {
		t.Errorf("%d bytes of what is not packed", len(p))
	}
}
