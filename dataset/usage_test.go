package dataset

import (
	"runtime"
	"testing"
)

// Go's runtime reports the CPU time of garbage collection and the time in use. It updates them at
// the end of a collection.
func TestReadGarbage(t *testing.T) {
	before := readGarbage()
	for range 5 {
		runtime.GC()
	}
	after := readGarbage()
	if !(after.used > before.used) {
		t.Errorf("used %g s after %g s, want more", after.used, before.used)
	}
	if !(after.collecting > before.collecting) {
		t.Errorf("collecting %g s after %g s, want more", after.collecting, before.collecting)
	}
	if after.collecting > after.used {
		t.Errorf("collecting %g s, more than the %g s in use", after.collecting, after.used)
	}
}
