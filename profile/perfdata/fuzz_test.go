package perfdata

import (
	"bytes"
	"errors"
	"testing"

	"culprit/heapbound"
)

// No file makes the reader panic, take memory that is not charged, or return another error than its
// own.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"pipe", "z", "flat"} {
		whole := recording(f, name)
		f.Add(whole[:min(len(whole), 12<<10)])
	}
	heapbound.Fuzz(f, func(t *testing.T, in []byte) {
		charged := 0
		_, err := Read(bytes.NewReader(in), func(n int) {
			if charged += n; n < 0 || charged > 1<<32 {
				t.Fatalf("charged %d, %d in all", n, charged)
			}
		}, func(s *Sample) error {
			if s.Period == 0 || len(s.Frames) > maxRecord {
				t.Fatalf("%+v", s)
			}
			return nil
		})
		var wrong *Error
		if err != nil && !errors.As(err, &wrong) {
			t.Fatal(err)
		}
	})
}
