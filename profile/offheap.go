package profile

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// An offHeap is a table of values without pointers, outside of Go's heap. Its memory returns to the
// kernel when the table grows or is closed, without a garbage collection. The zero value is an
// empty table.
type offHeap[T any] struct {
	all    []T
	memory []byte // nil: mmap failed and all is on the heap
}

// newOffHeap returns a table of n zeros.
func newOffHeap[T any](n int) (o offHeap[T]) {
	memory, err := unix.Mmap(-1, 0, n*int(unsafe.Sizeof(*new(T))), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return offHeap[T]{all: make([]T, n)}
	}
	return offHeap[T]{unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n), memory}
}

// close frees the memory. The table is empty afterwards.
func (o *offHeap[T]) close() {
	if o.memory != nil {
		unix.Munmap(o.memory) //nolint:errcheck // the mapping is ours and complete
	}
	*o = offHeap[T]{}
}

// grow doubles the table. put stores each old element in the new table.
func (o *offHeap[T]) grow(put func(all []T, e *T)) {
	wide := newOffHeap[T](2 * len(o.all))
	for i := range o.all {
		put(wide.all, &o.all[i])
	}
	o.close()
	*o = wide
}
