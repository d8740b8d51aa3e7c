package sampler

import (
	"context"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// A profile distinguishes functions of a stripped program by their start addresses, with the right
// shares.
func TestProfileStripped(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	pid := tracetest.Start(t, tracetest.CompileC(t, tracetest.DeepCalls, "-O2", "-s"))
	p := Profile{Hz: 997, User: true, Threads: ThreadFilter{PIDs: []int{pid}}}
	counts := map[string]int64{}
	var most, second, sum int64
	for deadline := time.Now().Add(time.Minute); sum < 300 && time.Now().Before(deadline); {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		got, err := p.Run(ctx)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		for s := range got.Stacks {
			if len(s.User) > 0 && strings.HasPrefix(s.User[0], "work`") {
				counts[s.User[0]] += s.Count
			}
		}
		sum = 0
		for _, n := range counts {
			sum += n
		}
	}
	for name, n := range counts {
		if !strings.HasPrefix(name, "work`[work+0x") {
			t.Errorf("%d samples in %s", n, name)
		}
		if n > most {
			most, second = n, most
		} else {
			second = max(second, n)
		}
	}
	if share := float64(most) / float64(most+second); sum < 300 || share < 0.55 || share > 0.85 {
		t.Errorf("the function that takes 70%% of the time has %.1f%%: %v", 100*share, counts)
	}
}
