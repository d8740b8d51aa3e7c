package measure

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// Fault is a panic that was recovered: an error of culprit itself, which ended one query and nothing else.
type Fault struct {
	Doing string // what was being done: "answering a query"
	What  any    // the value of the panic
	Where string // file and line of the innermost function of culprit; "?" if unknown
}

// Error returns what was done, what happened and where.
func (f *Fault) Error() string {
	return fmt.Sprintf("a fault of culprit itself while %s: %v at %s", f.Doing, f.What, f.Where)
}

// Recovered returns the fault that recover reported as p. It must be called by the deferred function, which
// is where the stack of the panic can still be read.
func Recovered(doing string, p any) *Fault {
	if f, ok := p.(*Fault); ok {
		return f // recovered by another goroutine, which passed it on
	}
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for f, more := frames.Next(); more; f, more = frames.Next() {
		if !strings.HasPrefix(f.Function, "runtime.") {
			return &Fault{doing, p, fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)}
		}
	}
	return &Fault{doing, p, "?"}
}
