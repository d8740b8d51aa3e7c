// Package window reads sections of files by pages, so that the size of a file does not determine
// the memory. It opens nothing.
package window

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// A Window reads a section of a file by pages and keeps the newest in memory, so its memory does
// not depend on the section's size. It is fastest in ascending order: going back in a compressed
// section decompresses it again. It is used by one goroutine.
type Window struct {
	r      io.ReaderAt               // of what lies in the file as it is
	off    int64                     // where it begins there
	unpack func() (io.Reader, error) // nil: it lies in the file as it is
	size   uint64                    // bytes of the section, unpacked
	most   int                       // pages that are kept

	pages  []page
	hit    int // the page that was asked last
	tick   uint64
	stream io.Reader // of what is packed, behind page next
	next   uint64
	broken uint64 // the first page that cannot be unpacked; none: math.MaxUint64
	joined []byte // bytes that lie in several pages
}

// A page is a page of a section.
type page struct {
	number uint64
	used   uint64 // when it was asked last; 0: it holds nothing
	b      []byte
}

const (
	// PageSize is how many bytes a page has.
	PageSize = 32 << 10
	// mostBytes is how many bytes may be asked for at once.
	mostBytes = 1 << 20
)

// New returns a window that keeps most pages and reads nothing yet.
func New(most int) *Window { return &Window{most: most} }

// Over moves the window to another section and keeps its buffers.
func (w *Window) Over(r io.ReaderAt, off int64, size uint64, unpack func() (io.Reader, error)) {
	w.r, w.off, w.size, w.unpack, w.stream, w.next, w.tick, w.hit = r, off, size, unpack, nil, 0, 0,
		0
	w.broken = math.MaxUint64
	for i := range w.pages {
		w.pages[i].used = 0
	}
}

// Page returns a page, shorter at the section's end; nil: it can't be read. It is valid until the
// next pages are read.
func (w *Window) Page(number uint64) []byte {
	w.tick++
	if w.hit < len(w.pages) {
		if p := &w.pages[w.hit]; p.used > 0 && p.number == number {
			p.used = w.tick
			return p.b
		}
	}
	oldest := -1
	for i := range w.pages {
		p := &w.pages[i]
		if p.used > 0 && p.number == number {
			p.used, w.hit = w.tick, i
			return p.b
		}
		if oldest < 0 || p.used < w.pages[oldest].used {
			oldest = i
		}
	}
	if len(w.pages) < w.most && (oldest < 0 || w.pages[oldest].used > 0) {
		w.pages = append(w.pages, page{b: make([]byte, 0, PageSize)})
		oldest = len(w.pages) - 1
	}
	p := &w.pages[oldest]
	p.used = 0
	at := number * PageSize
	if at >= w.size {
		return nil
	}
	n := min(PageSize, w.size-at)
	p.b = p.b[:n]
	if !w.fill(number, p.b) {
		return nil
	}
	p.number, p.used, w.hit = number, w.tick, oldest
	return p.b
}

// fill reads a page.
func (w *Window) fill(number uint64, b []byte) bool {
	if w.unpack == nil {
		n, _ := w.r.ReadAt(b, w.off+int64(number*PageSize))
		return n == len(b)
	}
	if number >= w.broken {
		return false
	}
	if w.stream == nil || w.next > number {
		stream, err := w.unpack()
		if err != nil {
			w.broken = 0
			return false
		}
		w.stream, w.next = stream, 0
	}
	for ; w.next < number; w.next++ {
		// a page before the last one is whole
		if _, err := io.ReadFull(w.stream, b[:cap(b)]); err != nil {
			w.stream, w.broken = nil, w.next
			return false
		}
	}
	if _, err := io.ReadFull(w.stream, b); err != nil {
		w.stream, w.broken = nil, w.next
		return false
	}
	w.next++
	return true
}

// Bytes returns n bytes of the section, at most 1 MiB; nil: they can't be read. They are valid
// until the next call.
func (w *Window) Bytes(at, n uint64) []byte {
	if at > w.size || n > w.size-at || n > mostBytes {
		return nil
	}
	if n == 0 {
		return []byte{}
	}
	first, last := at/PageSize, (at+n-1)/PageSize
	if first == last {
		p := w.Page(first)
		if p == nil {
			return nil
		}
		return p[at%PageSize:][:n:n]
	}
	w.joined = slices.Grow(w.joined[:0], int(n))
	for k := first; k <= last; k++ {
		p := w.Page(k)
		if p == nil {
			return nil
		}
		from := max(at, k*PageSize) - k*PageSize
		w.joined = append(w.joined, p[from:min(uint64(len(p)), at+n-k*PageSize)]...)
	}
	return w.joined
}

// Text returns the text up to a NUL; false: there is none within a reasonable length.
func (w *Window) Text(at uint64) (string, bool) {
	const most = 64 << 10
	var out []byte
	for len(out) < most && at < w.size {
		p := w.Page(at / PageSize)
		if p == nil {
			return "", false
		}
		p = p[at%PageSize:]
		if i := bytes.IndexByte(p, 0); i >= 0 {
			return string(append(out, p[:i]...)), true
		}
		out = append(out, p...)
		at += uint64(len(p))
	}
	return "", false
}

// Number returns a number of 4 or 8 bytes; false: it can't be read.
func (w *Window) Number(at uint64, bytes int) (uint64, bool) {
	b := w.Bytes(at, uint64(bytes))
	switch {
	case b == nil:
		return 0, false
	case bytes == 4:
		return uint64(binary.LittleEndian.Uint32(b)), true
	case bytes == 8:
		return binary.LittleEndian.Uint64(b), true
	}
	return 0, false
}

// Size returns how many bytes the section has, unpacked.
func (w *Window) Size() uint64 { return w.size }
