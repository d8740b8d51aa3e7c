package term

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestBrisk(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := newBrisk(w)
	if _, ok := out.(*brisk); !ok {
		t.Fatal("a pipe is no brisk writer")
	}
	// More than the pipe holds, in pieces of all sizes: some writes must wait for the reader.
	var want []byte
	for size := 0; len(want) < 300_000; size += 97 {
		want = append(want, bytes.Repeat([]byte{byte(size)}, size)...)
	}
	got := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(r)
		got <- b
	}()
	rest := want
	for size := 0; len(rest) > 0; size += 97 {
		n, err := out.Write(rest[:min(size, len(rest))])
		if err != nil || n != min(size, len(rest)) {
			t.Fatalf("wrote %d of %d: %v", n, size, err)
		}
		rest = rest[n:]
	}
	w.Close()
	if b := <-got; !bytes.Equal(b, want) {
		t.Errorf("%d bytes came out of %d, or others", len(b), len(want))
	}
	if _, err := out.Write([]byte("x")); err == nil {
		t.Error("writing to a closed file is no error")
	}
	r.Close()

	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if newBrisk(f) != io.Writer(f) {
		t.Error("a file of a disk is written briskly, though it may wait")
	}
}
