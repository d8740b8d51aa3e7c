// Package heapbound bounds the memory that a fuzz target may allocate. A parser that takes a
// gigabyte for a kilobyte of input ends a server as surely as one that panics, and a fuzzer finds
// only panics.
package heapbound

import (
	"reflect"
	"runtime"
	"testing"
)

// Limit is how much one call of a fuzz target may allocate: Base bytes, and PerByte bytes per byte
// of its input. Memory that is freed again counts: a parser that allocates and drops is no better.
type Limit struct {
	Base    uint64
	PerByte uint64
}

// usual is the limit of Fuzz. The base is what a parser may take for buffers of a fixed size.
func usual() Limit { return Limit{Base: 8 << 20, PerByte: 512} }

// Fuzz is f.Fuzz(target) with the usual limit: 8 MiB and 512 bytes per byte of input.
func Fuzz(f *testing.F, target any) {
	f.Helper()
	FuzzWithin(f, usual(), target)
}

// FuzzWithin is f.Fuzz(target) with a limit. The target is a function as f.Fuzz takes it. It fails
// when it allocates more.
func FuzzWithin(f *testing.F, limit Limit, target any) {
	f.Helper()
	call := reflect.ValueOf(target)
	f.Fuzz(reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
		t := args[0].Interface().(*testing.T) // f.Fuzz has checked the type
		Check(t, limit, inputSize(args[1:]), func() { call.Call(args) })
		return nil
	}).Interface())
}

// Check runs f and fails t when f allocates more than the limit, also when f ends the test.
func Check(t testing.TB, limit Limit, input uint64, f func()) {
	t.Helper()
	most, before := limit.Base+limit.PerByte*input, allocated()
	defer func() {
		if n := allocated() - before; n > most {
			t.Errorf("%d bytes of input allocate %d bytes, more than %d", input, n, most)
		}
	}()
	f()
}

// inputSize returns the bytes of the arguments of a fuzz target.
func inputSize(args []reflect.Value) (n uint64) {
	for _, a := range args {
		switch a.Kind() {
		case reflect.String, reflect.Slice:
			n += uint64(a.Len())
		default:
			n += uint64(a.Type().Size())
		}
	}
	return n
}

// allocated returns the bytes that this process has allocated so far, freed ones included.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}
