package measure

import (
	"fmt"
	"path"
	"runtime"
	"strings"
)

// Fault is a recovered panic: an error in culprit itself that ended one query and nothing else.
type Fault struct {
	Doing string // the operation: "answering a query"
	Value any    // the value of the panic
	Where string // file and line of the innermost function of culprit; "?" if unknown
}

// Error returns the operation, the panic's value and its position.
func (f *Fault) Error() string {
	return fmt.Sprintf("a fault of culprit itself while %s: %v at %s", f.Doing, f.Value, f.Where)
}

// Recovered returns the Fault for p, the result of recover. Call it before the deferred function
// returns: the stack of the panic is readable until then.
func Recovered(doing string, p any) *Fault {
	if f, ok := p.(*Fault); ok {
		return f // recovered by another goroutine, which passed it on
	}
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicked := false // the functions called before the panic are the ones that recover
	for f, more := frames.Next(); more; f, more = frames.Next() {
		own := !strings.HasPrefix(f.Function, "runtime.")
		if own && panicked {
			return &Fault{doing, p, fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)}
		}
		panicked = panicked || f.Function == "runtime.gopanic"
	}
	return &Fault{doing, p, "?"}
}
