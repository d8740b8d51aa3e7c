package profile

import (
	"context"
	"errors"
	"testing"

	"culprit/measure"
)

// silent is a reader that knows the statistics and has no data.
type silent struct{ measure.Reader }

func (silent) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	return &measure.Answer{Query: q, Kind: measure.Delta, Unit: measure.Samples,
		Start: q.Over.Start, Step: q.Over.Span(), Elapsed: []measure.Span{0}}, nil
}

// TestNothingRecorded checks that a time without samples has its own error.
func TestNothingRecorded(t *testing.T) {
	_, err := AskRecorded(t.Context(), silent{}, Part{Over: measure.Interval{Start: 1e9, End: 3e9}})
	if !errors.Is(err, measure.ErrUnclear) || err == nil || errors.Is(err, measure.ErrDenied) {
		t.Errorf("%v", err)
	}
}
