package unwind

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/window"
)

// FuzzBounds: of no section does the search fail, name an address by a function behind it, or take
// much memory.
func FuzzBounds(f *testing.F) {
	b, addr := sectionOf("/lib/x86_64-linux-gnu/libc.so.6", ".eh_frame")
	f.Add(b[:min(len(b), 4096)], addr, uint32(0x26000))
	f.Add([]byte{20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0}, uint64(0),
		uint32(1))
	heapbound.Fuzz(f, func(t *testing.T, b []byte, addr uint64, first uint32) {
		w := window.New(2)
		w.Over(bytes.NewReader(b), 0, uint64(len(b)), nil)
		r := NewReader(w, addr, false, func(Row) error { return nil })
		addrs := []uint64{uint64(first), uint64(first) + 1, uint64(first) + 4096, 1<<32 - 2}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r.Inside(nil, addrs, func(a, from uint64) {
			if a < from || !slices.Contains(addrs, a) {
				t.Errorf("%x is in a function that begins at %x", a, from)
			}
		})
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20+64*uint64(len(b)) {
			t.Errorf("%d bytes were allocated for %d", grown, len(b))
		}
	})
}
