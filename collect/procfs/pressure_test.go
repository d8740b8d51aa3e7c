package procfs

import "testing"

func FuzzPressure(f *testing.F) {
	f.Add([]byte("some avg10=1.69 avg60=8.16 avg300=4.54 total=100\nfull total=3"))
	f.Fuzz(func(t *testing.T, b []byte) {
		some, full, hasSome, hasFull := ParsePressure(b)
		if !hasSome && some != 0 || !hasFull && full != 0 {
			t.Fatalf("%q: %d %d without their lines", b, some, full)
		}
	})
}
