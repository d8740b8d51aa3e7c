package term

import (
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"culprit/view"
)

// The times after which reading a file shows how far it is, and between two such lines.
const (
	progressAfter = time.Second
	progressEvery = 500 * time.Millisecond
)

// progress returns a reader of in. While a file is read for longer than a second, a terminal at
// standard error shows the elapsed time and the bytes read, of size if that is above 0. The caller
// calls end once, after which the line is erased.
func (t *Terminal) progress(in io.Reader, name string, size int64) (out io.Reader, end func()) {
	if !t.ErrTTY {
		return in, func() {}
	}
	return showProgress(t.Err, in, name, size, progressAfter, progressEvery)
}

// showProgress is progress that writes to a writer, first after a time and then at an interval.
func showProgress(
	w io.Writer, in io.Reader, name string, size int64, after, every time.Duration,
) (io.Reader, func()) {
	r := &countedReader{in: in}
	began := time.Now()
	ended := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() {
		next := time.NewTimer(after)
		defer next.Stop()
		for line := ""; ; {
			select {
			case <-ended:
				if line != "" {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-next.C:
				line = progressLine(name, time.Since(began), r.n.Load(), size)
				fmt.Fprint(w, "\r\x1b[K"+line)
				next.Reset(every)
			}
		}
	})
	return r, func() {
		close(ended)
		shown.Wait()
	}
}

// progressLine returns how far reading a file is.
func progressLine(name string, elapsed time.Duration, n, size int64) string {
	const mega = 1e6
	text := fmt.Sprintf("%s: %.0f s, %.0f MB read", view.Clean(filepath.Base(name)),
		elapsed.Seconds(), float64(n)/mega)
	if size > 0 {
		text += fmt.Sprintf(" of %.0f", float64(size)/mega)
		if n >= size {
			text += "; adding up"
		}
	}
	return text
}

// A countedReader counts the bytes read.
type countedReader struct {
	in io.Reader
	n  atomic.Int64
}

// Read implements io.Reader. The error is that of the reader.
func (r *countedReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	r.n.Add(int64(n))
	return n, err
}
