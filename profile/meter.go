package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"unsafe"
)

// DefaultMemory is how many bytes a reader may take for a profile if Options.Memory is 0.
const DefaultMemory = 8 << 30

// A MemoryError means that a profile needs more memory than the reader may take. A small file can
// expand to any size: one location with a million inlined lines, named a million times.
type MemoryError struct {
	Limit int64 // bytes
}

// Error names the limit.
func (e *MemoryError) Error() string {
	if e.Limit < 1<<20 {
		return fmt.Sprintf("the profile takes more than %d kB of memory", e.Limit>>10)
	}
	return fmt.Sprintf("the profile takes more than %d MB of memory", e.Limit>>20)
}

// A meter bounds the memory and the time of reading one profile, for one goroutine. Readers charge
// it before they expand what they read. It panics with a stopped, which Read recovers, so that no
// reader can lose the error. A nil meter bounds nothing.
type meter struct {
	ctx     context.Context
	limit   int64  // bytes
	used    int64  // bytes charged
	work    int64  // charges since the last look
	first   uint64 // bytes of the heap at the start
	collect uint64 // bytes of the heap from which on a look collects garbage
}

// stopped is the panic of a meter.
type stopped struct{ err error }

// lookEach is how much work passes between two looks at the context and the heap: bytes charged and
// frames visited.
const lookEach = 4 << 20

func newMeter(ctx context.Context, limit int64) *meter {
	if limit <= 0 {
		limit = DefaultMemory
	}
	now := heapBytes()
	return &meter{ctx: ctx, limit: limit, first: now, collect: now + uint64(limit)}
}

// add charges n bytes that stay until the tree is complete.
func (m *meter) add(n int) {
	if m == nil {
		return
	}
	if m.used += int64(n); m.used > m.limit {
		panic(stopped{&MemoryError{m.limit}})
	}
	m.visit(n)
}

// release takes back a charge of n bytes.
func (m *meter) release(n int) {
	if m != nil {
		m.used -= int64(n)
	}
}

// visit charges work that takes no memory, as one per frame or byte.
func (m *meter) visit(n int) {
	if m == nil {
		return
	}
	if m.work += int64(n); m.work >= lookEach {
		m.work = 0
		if err := m.look(); err != nil {
			panic(stopped{err})
		}
	}
}

// look returns an error when the context ended or the live heap of the program grew by the limit.
// The heap shows what no reader charged.
func (m *meter) look() error {
	if err := m.ctx.Err(); err != nil {
		return err
	}
	now := heapBytes()
	if now <= m.collect {
		return nil
	}
	runtime.GC()
	if now = heapBytes(); now > m.first+uint64(m.limit) {
		return &MemoryError{m.limit}
	}
	m.collect = now + uint64(m.limit)/2
	return nil
}

// heapBytes returns the bytes of the heap, with garbage that has not been collected.
func heapBytes() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}

// recoverStopped sets err to the error of a meter that panicked.
func recoverStopped(err *error) {
	switch p := recover().(type) {
	case nil:
	case stopped:
		*err = p.err
	default:
		panic(p)
	}
}

// A meteredReader looks at the meter while it reads.
type meteredReader struct {
	in io.Reader
	m  *meter
}

func (r *meteredReader) Read(b []byte) (int, error) {
	if err := r.m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.in.Read(b)
	if r.m.work += int64(n); r.m.work >= lookEach {
		r.m.work = 0
		err = errors.Join(err, r.m.look())
	}
	return n, err
}

// The bytes that a node, a function and a stored stack take, with their part of the hash tables,
// which are at most half empty, and of the slices, which are at most half full.
const (
	builtNodeBytes     = 2 * (2*4 + 2*8 + int(unsafe.Sizeof(edge{})))
	builtFunctionBytes = 2 * int(unsafe.Sizeof(Function{})+unsafe.Sizeof(slot{}))
	builtStackBytes    = 2 * (int(unsafe.Sizeof(storedStack{})) + 3*4)
)
