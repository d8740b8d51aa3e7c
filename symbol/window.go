package symbol

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// A window reads a section of a file by pages and keeps the newest in memory, so its memory does
// not depend on the section's size. It is fastest in ascending order: going back in a compressed
// section decompresses it again. It is used by one goroutine.
type window struct {
	r      io.ReaderAt               // of what lies in the file as it is
	off    int64                     // where it begins there
	unpack func() (io.Reader, error) // nil: it lies in the file as it is
	size   uint64                    // bytes of the section, unpacked
	most   int                       // pages that are kept

	pages  []windowPage
	hit    int // the page that was asked last
	tick   uint64
	stream io.Reader // of what is packed, behind page next
	next   uint64
	broken uint64 // the first page that cannot be unpacked; none: math.MaxUint64
	joined []byte // bytes that lie in several pages
}

// A windowPage is a page of a section.
type windowPage struct {
	number uint64
	used   uint64 // when it was asked last; 0: it holds nothing
	b      []byte
}

const (
	windowPageSize = 32 << 10
	// windowMost is how many bytes may be asked for at once.
	windowMost = 1 << 20
)

// newWindow returns a window that keeps most pages and reads nothing yet.
func newWindow(most int) *window { return &window{most: most} }

// over moves the window to another section and keeps its buffers.
func (w *window) over(r io.ReaderAt, off int64, size uint64, unpack func() (io.Reader, error)) {
	w.r, w.off, w.size, w.unpack, w.stream, w.next, w.tick, w.hit = r, off, size, unpack, nil, 0, 0,
		0
	w.broken = math.MaxUint64
	for i := range w.pages {
		w.pages[i].used = 0
	}
}

// page returns a page, shorter at the section's end; nil: it can't be read. It is valid until the
// next pages are read.
func (w *window) page(number uint64) []byte {
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
		w.pages = append(w.pages, windowPage{b: make([]byte, 0, windowPageSize)})
		oldest = len(w.pages) - 1
	}
	p := &w.pages[oldest]
	p.used = 0
	at := number * windowPageSize
	if at >= w.size {
		return nil
	}
	n := min(windowPageSize, w.size-at)
	p.b = p.b[:n]
	if !w.fill(number, p.b) {
		return nil
	}
	p.number, p.used, w.hit = number, w.tick, oldest
	return p.b
}

// fill reads a page.
func (w *window) fill(number uint64, b []byte) bool {
	if w.unpack == nil {
		n, _ := w.r.ReadAt(b, w.off+int64(number*windowPageSize))
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

// bytes returns at most windowMost bytes of the section; nil: they can't be read. They are valid
// until the next call.
func (w *window) bytes(at, n uint64) []byte {
	if at > w.size || n > w.size-at || n > windowMost {
		return nil
	}
	if n == 0 {
		return []byte{}
	}
	first, last := at/windowPageSize, (at+n-1)/windowPageSize
	if first == last {
		p := w.page(first)
		if p == nil {
			return nil
		}
		return p[at%windowPageSize:][:n:n]
	}
	w.joined = slices.Grow(w.joined[:0], int(n))
	for k := first; k <= last; k++ {
		p := w.page(k)
		if p == nil {
			return nil
		}
		from := max(at, k*windowPageSize) - k*windowPageSize
		w.joined = append(w.joined, p[from:min(uint64(len(p)), at+n-k*windowPageSize)]...)
	}
	return w.joined
}

// text returns the text up to a NUL; false: there is none within a reasonable length.
func (w *window) text(at uint64) (string, bool) {
	const most = 64 << 10
	var out []byte
	for len(out) < most && at < w.size {
		p := w.page(at / windowPageSize)
		if p == nil {
			return "", false
		}
		p = p[at%windowPageSize:]
		if i := bytes.IndexByte(p, 0); i >= 0 {
			return string(append(out, p[:i]...)), true
		}
		out = append(out, p...)
		at += uint64(len(p))
	}
	return "", false
}

// number returns a number of 4 or 8 bytes; false: it can't be read.
func (w *window) number(at uint64, bytes int) (uint64, bool) {
	b := w.bytes(at, uint64(bytes))
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
