package jfr

import (
	"bytes"
	"errors"
	"testing"

	"culprit/heapbound"
)

// No file makes the reader panic, take memory that is not charged, or return another error than its
// own.
func FuzzRead(f *testing.F) {
	for _, compressed := range []bool{true, false} {
		f.Add(made(compressed, func(m *maker) { m.utf8("run") }))
	}
	whole := recording(f)
	f.Add(whole[:min(len(whole), 12<<10)])
	heapbound.Fuzz(f, func(t *testing.T, in []byte) {
		charged := 0
		charge := func(n int) {
			if charged += n; n < 0 || charged > 1<<32 {
				t.Fatalf("charged %d, %d in all", n, charged)
			}
		}
		_, err := Read(bytes.NewReader(in), Handler{
			Charge: charge, Release: func(int) {}, Other: func(string, int) {},
			Wants: func(event string) bool { return len(event)%2 == 0 },
			Sample: func(s *Sample) error {
				if len(s.Values) > maxSampleValues {
					t.Fatalf("%d values", len(s.Values))
				}
				for _, f := range s.Frames {
					if f.Method == nil || f.Line < 0 {
						t.Fatalf("%+v", f)
					}
				}
				return nil
			},
		})
		var wrong *Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatal(err)
		}
	})
}
