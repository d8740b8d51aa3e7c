package sampler

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// A Sampler has inlined functions as frames after it has had time to look for them.
func TestSamplerInlined(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	pid := strconv.Itoa(
		tracetest.Start(t, tracetest.CompileC(t, tracetest.InlinedCalls, "-O2", "-g")),
	)
	s := NewSampler(199)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	before, with := 0.0, 0.0
	q := measure.Query{
		Stat: SampledStacks,
		By:   []string{"process", "pid", "cpu", "kernel", "user"},
		Step: 500 * measure.Millisecond,
	}
	err := s.Run(ctx, []measure.Query{q}, measure.SinkFunc(func(batches []*measure.Batch) error {
		b := batches[0]
		for i := range b.Rows() {
			key := b.Key(i)
			if b.Labels[key[1]] != pid {
				continue
			}
			var names []string // innermost first
			for at := int32(key[4]); at > 0; at = b.Frames[at].Parent {
				names = append(names, b.Frames[at].Symbol)
			}
			switch text := strings.Join(names, " "); {
			case strings.HasPrefix(text, "spin_[i] middle_[i] outer "):
				with += b.Values[i]
			case strings.HasPrefix(text, "outer "):
				before += b.Values[i]
			case strings.Contains(text, "outer "):
				t.Errorf("a stack of %s", text)
			}
		}
		if with >= 20 {
			stop()
		}
		return nil
	}))
	if err != nil || with < 20 {
		t.Errorf("%.0f samples with what was inlined, %.0f without: %v", with, before, err)
	}
}
