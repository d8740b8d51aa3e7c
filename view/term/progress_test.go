package term

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
)

// lockedBuffer is a writer for two goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Reading that takes long shows the bytes read, and erases the line at the end.
func TestProgress(t *testing.T) {
	var out lockedBuffer
	in, feed := io.Pipe()
	defer feed.Close() //nolint:errcheck // a pipe in memory
	r, end := showProgress(&out, in, "x\x1b.txt", 4e6, 0, time.Millisecond)
	read := make([]byte, 3e6)
	go feed.Write(make([]byte, 3e6)) //nolint:errcheck // as above
	if _, err := io.ReadFull(r, read); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(30 * time.Second); ; {
		if strings.Contains(out.text(), "3 MB read of 4") {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("got %q", out.text())
		}
		time.Sleep(time.Millisecond)
	}
	end()
	if got := out.text(); !strings.HasSuffix(got, "\r\x1b[K") || strings.Contains(got, "x\x1b") {
		t.Errorf("got %q", got)
	}
}

// Short reading shows nothing, and neither does a file that is no terminal.
func TestProgressIsSilent(t *testing.T) {
	var out lockedBuffer
	r, end := showProgress(&out, strings.NewReader("abc"), "x", 3, time.Hour, time.Hour)
	if b, err := io.ReadAll(r); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	end()
	if got := out.text(); got != "" {
		t.Errorf("got %q", got)
	}
	in := strings.NewReader("abc")
	if r, end := (&Terminal{}).progress(in, "x", 3); r != io.Reader(in) {
		t.Errorf("%v is read", r)
	} else {
		end()
	}
}

func TestProgressLine(t *testing.T) {
	for _, tt := range []struct {
		n, size int64
		want    string
	}{
		{3e6, 9e6, "a: 7 s, 3 MB read of 9"},
		{9e6, 9e6, "a: 7 s, 9 MB read of 9; adding up"},
		{5e6, 0, "a: 7 s, 5 MB read"},
	} {
		if got := progressLine("a", 7*time.Second, tt.n, tt.size); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
