package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/measure"
)

// While the directory of the archive is away, Problems says so and appending goes on in memory.
// When it is back, everything is written.
func TestDirectoryGoes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(dir, away string) error
	}{
		{"moved", os.Rename},
		{"replaced", func(dir, away string) error {
			if err := os.Rename(dir, away); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o700)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "archive")
			away := dir + ".away"
			o := Options{retryAfter: 1, Memory: 64 << 20}
			s, n, w := filled(t, dir, o, 5)
			at := w.run(t, s, n, someTime, 300)
			s.Settle()
			if err := tt.leave(dir, away); err != nil {
				t.Fatal(err)
			}
			trouble := s.Problems()
			if len(trouble) != 1 || !strings.Contains(trouble[0].Text, dir) ||
				!strings.Contains(trouble[0].Text, "removed or replaced") {
				t.Fatalf("the problems are %v", trouble)
			}
			at = w.run(t, s, n, at, 700)
			s.Settle()
			compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
			_ = os.Remove(dir) // the replacement, which stayed empty
			if err := os.Rename(away, dir); err != nil {
				t.Fatal(err)
			}
			at = w.run(t, s, n, at, 3)
			s.Settle()
			s.Settle()
			if trouble := s.Problems(); len(trouble) > 0 {
				t.Fatalf("the problems are %v", trouble)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, o)
			if err != nil {
				t.Fatal(err)
			}
			compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
			s.Close()
		})
	}
}

// A directory that is deleted while Pebble rotates its logs and writes tables does not end the
// program.
func TestDirectoryIsDeleted(t *testing.T) {
	for range 3 {
		dir := filepath.Join(t.TempDir(), "archive")
		s, n, w := filled(t, dir, Options{retryAfter: 1}, 6)
		at := w.run(t, s, n, someTime, 100)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		at = w.run(t, s, n, at, 700)
		s.Settle()
		if trouble := s.Problems(); len(trouble) != 1 ||
			!strings.Contains(trouble[0].Text, "removed or replaced") {
			t.Fatalf("the problems are %v", trouble)
		}
		sample(t, s, n, at)
		if err := s.Close(); err == nil {
			t.Fatal("what could not be written is not reported")
		}
	}
}
