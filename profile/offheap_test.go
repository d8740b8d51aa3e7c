package profile

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// TestOffHeap grows a table, finds its elements again, and checks that the kernel has the memory
// back afterwards.
func TestOffHeap(t *testing.T) {
	type entry struct{ hash uint64 }
	o := newOffHeap[entry](4)
	for _, h := range []uint64{1, 6, 8, 15} {
		o.all[h%4].hash = h
	}
	o.grow(func(all []entry, e *entry) { all[e.hash%uint64(len(all))] = *e })
	if len(o.all) != 8 {
		t.Fatalf("%d places, want 8", len(o.all))
	}
	for _, h := range []uint64{1, 6, 8, 15} {
		if o.all[h%8].hash != h {
			t.Errorf("at %d is %d, want %d", h%8, o.all[h%8].hash, h)
		}
	}
	o.close()
	o.close()
	if o.all != nil || o.memory != nil {
		t.Error("there is something left")
	}
}

// TestFindStack fills half of a cache and checks that hardly any stack is evicted.
func TestFindStack(t *testing.T) {
	all := make([]perfStack, 1<<12)
	r := rand.New(rand.NewPCG(1, 2))
	var keys [][2]uint64
	for range len(all) / 2 {
		key := [2]uint64{r.Uint64(), r.Uint64()}
		keys = append(keys, key)
		*findStack(all, &key) = perfStack{key: key, lines: 1}
	}
	kept := 0
	for _, key := range keys {
		if e := findStack(all, &key); e.key == key && e.lines == 1 {
			kept++
		}
	}
	if kept < len(keys)*95/100 {
		t.Errorf("%d of %d stacks are kept", kept, len(keys))
	}
}

// TestReadersFreeMemory compares the mapped memory before and after many inputs, valid and invalid.
func TestReadersFreeMemory(t *testing.T) {
	mapped := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(maps, []byte{'\n'})
	}
	good := string(perfScript(50))
	before := mapped()
	for range 200 {
		if _, err := Read(never, strings.NewReader(good), "", Options{}); err != nil {
			t.Fatal(err)
		}
		o := Options{Event: "nothing"}
		if _, err := Read(never, strings.NewReader(good), "", o); err == nil {
			t.Fatal("samples of an event that is not there")
		}
		if _, err := Read(never, &broken{good}, "", Options{}); err == nil {
			t.Fatal("a broken reader is no error")
		}
	}
	if after := mapped(); after > before+50 {
		t.Errorf("%d mappings before 600 inputs, %d after", before, after)
	}
}

// broken is an input that fails at its end.
type broken struct{ rest string }

func (b *broken) Read(p []byte) (int, error) {
	if b.rest == "" {
		return 0, os.ErrClosed
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
