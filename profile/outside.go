package profile

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Outside is a table of things without pointers in memory of its own, not on the heap: what a reader needs until its input has ended goes back to the kernel then and when the table
// grows, without a collection. The zero value is an empty table.
type outside[T any] struct {
	all    []T
	memory []byte // nil: the kernel gave none, and all is on the heap
}

// newOutside gives a table of so many zeros.
func newOutside[T any](n int) (o outside[T]) {
	memory, err := unix.Mmap(-1, 0, n*int(unsafe.Sizeof(*new(T))), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return outside[T]{all: make([]T, n)}
	}
	return outside[T]{unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n), memory}
}

// close gives the memory back. Nobody may look at the table afterwards.
func (o *outside[T]) close() {
	if o.memory != nil {
		unix.Munmap(o.memory) //nolint:errcheck // it is ours, and whole
	}
	*o = outside[T]{}
}

// widen gives the table twice the room, into which what there is is put.
func (o *outside[T]) widen(put func(all []T, e *T)) {
	wide := newOutside[T](2 * len(o.all))
	for i := range o.all {
		put(wide.all, &o.all[i])
	}
	o.close()
	*o = wide
}
