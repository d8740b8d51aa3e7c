package web

import (
	"context"
	"syscall"
	"time"

	"culprit/measure"
)

// acquireComparison waits until no other comparison runs. The context ends after queryTimeout. The
// caller must call release at the end.
func (s *queries) acquireComparison(
	ctx context.Context,
) (limited context.Context, release func(), err error) {
	slot, err := takeSlot(ctx, s.comparing, nil)
	if err != nil {
		return nil, nil, err
	}
	if slot == nil {
		return nil, nil, busy("another comparison is running", "repeat it in a moment")
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	return ctx, func() {
		cancel()
		<-slot
	}, nil
}

// maxPause is the longest time between two queries of a comparison.
const maxPause = 200 * time.Millisecond

// pacedReader reads for a comparison, which takes hundreds of queries. Each has a slot of its own,
// so that graphs get theirs in between. After each it pauses for the CPU time that the process took
// meanwhile: a comparison takes half a CPU at most.
type pacedReader struct {
	*core
	cpu func() time.Duration // CPU time of the process so far
}

// Ask implements measure.Reader.
func (p *pacedReader) Ask(ctx context.Context, q measure.Query) (*measure.Answer, error) {
	_, release, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	before := p.cpu()
	a, err := p.Machine.Ask(ctx, q)
	release()
	pause := time.NewTimer(min(p.cpu()-before, maxPause))
	defer pause.Stop()
	select {
	case <-pause.C:
		return a, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// processTime returns the CPU time of this process so far; 0: not known. getrusage(2).
func processTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
