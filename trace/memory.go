package trace

import (
	"fmt"
	"sync"
)

// A MemoryPool bounds the kernel memory that the maps of several scripts take in sum. It is safe
// for concurrent use.
type MemoryPool struct {
	limit uint64 // bytes

	mu   sync.Mutex
	used uint64
}

// NewMemoryPool returns a pool of limit bytes.
func NewMemoryPool(limit uint64) *MemoryPool { return &MemoryPool{limit: limit} }

// A MemoryPoolError means that a script needs more kernel memory than its pool has left.
type MemoryPoolError struct {
	Wants, Used, Limit uint64 // bytes
}

// Error says how much is in use.
func (e *MemoryPoolError) Error() string {
	return fmt.Sprintf("the script takes %s of kernel memory, and running scripts use %s of %s: "+
		"choose smaller bufsize, aggsize and dynvarsize, or stop another script",
		megabytes(e.Wants), megabytes(e.Used), megabytes(e.Limit))
}

// megabytes formats bytes: 0.3 MB, 512 MB.
func megabytes(bytes uint64) string {
	if mb := float64(bytes) / (1 << 20); mb < 10 {
		return fmt.Sprintf("%.1f MB", mb)
	}
	return fmt.Sprintf("%d MB", bytes>>20)
}

// take reserves bytes. The caller must call release once. The error is a *MemoryPoolError. A nil
// pool has no limit.
func (p *MemoryPool) take(bytes uint64) (release func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if bytes > p.limit || p.used > p.limit-bytes {
		return nil, &MemoryPoolError{Wants: bytes, Used: p.used, Limit: p.limit}
	}
	p.used += bytes
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.used -= bytes
	}), nil
}
