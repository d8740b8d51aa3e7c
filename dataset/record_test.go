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

// On a busy machine each tick takes two steps: the recording takes no longer for that.
func TestRecordOfSlowTicks(t *testing.T) {
	for _, tt := range []struct {
		steps, ticks int
	}{{1, 1}, {2, 2}, {3, 3}, {5, 5}, {7, 5}, {9, 5}, {11, 6}, {12, 6}} {
		s := network()
		for len(s.ticks) < tt.steps {
			s.ticks = append(s.ticks, s.ticks[0])
		}
		c := New(s)
		q, err := c.Parse("net.device.bytes by device")
		if err != nil {
			t.Fatal(err)
		}
		q.Step = measure.Second
		ctx, stop := context.WithCancel(t.Context())
		w, err := c.Record(ctx, []measure.Query{q}, tt.steps, nil)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if got := len(w.Ticks()); got != tt.ticks {
			t.Errorf("%d steps: %d ticks, want %d", tt.steps, got, tt.ticks)
		}
	}
}
