package dataset

import (
	"context"
	"testing"

	"culprit/measure"
)

// slowEnd is a source that takes long to release its resources: its run ends when the test says so.
type slowEnd struct {
	*script
	context chan context.Context // of its run
	over    chan struct{}        // closed when its run has ended
}

func (s *slowEnd) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	defer close(s.over)
	s.context <- ctx
	return s.script.Run(ctx, queries, sink)
}

// Record returns with the last tick, and the source ends when the caller's context does.
func TestRecordReturnsWithTheLastTick(t *testing.T) {
	s := &slowEnd{
		script:  network(),
		context: make(chan context.Context, 1),
		over:    make(chan struct{}),
	}
	c := New(s)
	q, err := c.Parse("net.device.bytes by device")
	if err != nil {
		t.Fatal(err)
	}
	q.Step = measure.Second
	ctx, stop := context.WithCancel(t.Context())
	w, err := c.Record(ctx, []measure.Query{q}, len(s.ticks), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(w.Ticks()); got != len(s.ticks) {
		t.Errorf("%d ticks, want %d", got, len(s.ticks))
	}
	if (<-s.context).Err() == nil {
		t.Error("the source was not stopped")
	}
	select {
	case <-s.over:
		t.Error("the source has let go of everything before the answer was there")
	default:
	}
	stop()
	<-s.over
}
