package heapbound

import (
	"reflect"
	"testing"
)

// failing records whether a check has failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Helper()               {}
func (f *failing) Errorf(string, ...any) { f.failed = true }

// kept keeps the allocations of the test on the heap.
type kept struct{ b []byte }

func TestCheck(t *testing.T) {
	limit := Limit{Base: 1 << 20, PerByte: 1000}
	for _, tt := range []struct {
		name  string
		input uint64
		size  int
		fails bool
	}{
		{"nothing", 0, 0, false},
		{"just below the base", 0, 1<<20 - 64<<10, false},
		{"just above the base", 0, 1<<20 + 64<<10, true},
		{"just below what the input allows", 2000, 1<<20 + 2000*1000 - 64<<10, false},
		{"just above what the input allows", 2000, 1<<20 + 2000*1000 + 64<<10, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, k := &failing{}, &kept{}
			Check(f, limit, tt.input, func() { k.b = make([]byte, tt.size) })
			if f.failed != tt.fails {
				t.Errorf("%d bytes for %d of input fail: %v", len(k.b), tt.input, f.failed)
			}
		})
	}
}

// TestCheckFreed: memory that is freed again counts.
func TestCheckFreed(t *testing.T) {
	f, k := &failing{}, &kept{}
	Check(f, Limit{Base: 1 << 20}, 0, func() {
		for range 32 {
			k.b = make([]byte, 64<<10)
		}
	})
	if !f.failed {
		t.Errorf("32 times %d bytes do not fail", len(k.b))
	}
}

func TestInputSize(t *testing.T) {
	var args []reflect.Value
	for _, a := range []any{[]byte("abc"), "defgh", uint16(7), true} {
		args = append(args, reflect.ValueOf(a))
	}
	if n := inputSize(args); n != 3+5+2+1 {
		t.Errorf("%d bytes", n)
	}
}

func FuzzFuzz(f *testing.F) {
	f.Add([]byte("abc"), "def", 7)
	Fuzz(f, func(t *testing.T, b []byte, s string, n int) {
		if n == 7 && (string(b) != "abc" || s != "def") {
			t.Errorf("the arguments are %q, %q, %d", b, s, n)
		}
	})
}
