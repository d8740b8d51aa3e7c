package all

import (
	"errors"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/cpu"
	"culprit/collect/memory"
	"culprit/kernel"
	"culprit/measure"
)

// A run with a start time reads at that time and puts the time of reading into each batch.
func TestRunByTheWallClock(t *testing.T) {
	s := collect.New(collect.Env{}, cpu.Load{})
	step := 50 * measure.Millisecond
	now := measure.Time(time.Now().UnixNano())
	from := now - now%measure.Time(step) + 2*measure.Time(step)
	enough := errors.New("enough")
	last := measure.Time(0)
	n := 0
	err := s.Run(
		t.Context(),
		[]measure.Query{{Stat: s.Stats()[0].ID, Step: step, Over: measure.Interval{Start: from}}},
		measure.SinkFunc(func(b []*measure.Batch) error {
			over := b[0].Over
			if over.Start < from || over.End < from.Add(step) {
				t.Errorf("the interval %v to %v begins before %v", over.Start, over.End, from)
			}
			if at := over.End - over.End%measure.Time(step); at <= last {
				t.Errorf("tick %v follows on %v", at, last)
			} else {
				last = at
			}
			if n++; n == 3 {
				return enough
			}
			return nil
		}),
	)
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

// The costs of the statistics add up to at most the CPU time of the thread.
func TestCostIsMetered(t *testing.T) {
	s := collect.New(collect.Env{}, cpu.CPU{}, memory.Vmstat{})
	var queries []measure.Query
	for _, st := range s.Stats() {
		queries = append(queries, measure.Query{Stat: st.ID, Step: 10 * measure.Millisecond})
	}
	enough := errors.New("enough")
	n := 0
	done := make(chan measure.Span)
	go func() {
		before := kernel.ProcessTime()
		if err := s.Run(t.Context(), queries, measure.SinkFunc(func([]*measure.Batch) error {
			if n++; n == 20 {
				return enough
			}
			return nil
		})); !errors.Is(err, enough) {
			t.Error(err)
		}
		done <- kernel.ProcessTime() - before
	}()
	process := <-done
	var sum measure.Span
	for _, st := range s.Stats() {
		c := s.Cost(st.ID)
		if c <= 0 {
			t.Errorf("%s costs %v", st.ID, c)
		}
		sum += c
	}
	if sum > process || sum < process/20 {
		t.Errorf("the statistics cost %v of the %v that the process took", sum, process)
	}
	if s.Cost("no.such") != 0 {
		t.Error("what is not measured costs")
	}
}
