package flame

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

// newOutside gives a table of so many zeros, a power of two.
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

// widen gives the table twice the room. What is free has the hash 0 and may take any place.
func (o *outside[T]) widen(hash func(*T) uint64) {
	wide := newOutside[T](2 * len(o.all))
	for i := range o.all {
		wide.all[hash(&o.all[i])&uint64(len(wide.all)-1)] = o.all[i]
	}
	o.close()
	*o = wide
}
