package show

import (
	"testing"
	"time"

	"culprit/measure"
)

func TestDiagnosisStep(t *testing.T) {
	for span, want := range map[time.Duration]measure.Span{
		3 * time.Second: 1, 10 * time.Second: 1, 5 * time.Minute: 1, 301 * time.Second: 2,
		10 * time.Minute: 2, time.Hour: 12,
	} {
		if got := DiagnosisStep(span); got != want*measure.Second ||
			span/got.AsDuration() > maxIntervals {
			t.Errorf("%v is looked at in intervals of %v, want %d s", span, got.AsDuration(), want)
		}
	}
}
