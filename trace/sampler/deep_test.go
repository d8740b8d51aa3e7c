package sampler

import (
	"context"
	"strings"
	"testing"
	"time"

	"culprit/trace/tracetest"
)

// Stacks of a program without frame pointers are complete, through the C library, and the shares
// are right. This holds also when no table was loaded before the first sample.
func TestProfileWithoutFramePointers(t *testing.T) {
	path := tracetest.CompileDeep(t)
	for _, known := range []bool{true, false} {
		pid := tracetest.Start(t, path)
		p := Profile{Hz: 997, User: true}
		if known {
			p.Threads.PIDs = []int{pid}
		}
		var seventy, thirty, whole, before, all int64
		var odd []string
		// On a loaded machine a second can pass before the first sample.
		length := time.Second
		for deadline := time.Now().Add(3 * time.Minute); whole < 300; length += time.Second {
			if time.Now().After(deadline) {
				t.Fatalf("%d whole stacks of %d; others as %q", whole, all, odd)
			}
			ctx, stop := context.WithTimeout(t.Context(), length)
			got, err := p.Run(ctx)
			stop()
			if err != nil {
				t.Fatal(err)
			}
			for s := range got.Stacks {
				if s.PID != pid || len(s.User) == 0 {
					continue
				}
				if strings.HasPrefix(s.User[len(s.User)-1], "[followed by frame pointers") {
					before += s.Count
					continue
				}
				all += s.Count
				// The C library is at work by itself at times, and so is main.
				if !tracetest.HasChain(
					s.User, "sorted", "level1", "level2", "level3", "level4", "level5", "main",
					"__libc_start", "_start",
				) && !(strings.HasSuffix(s.User[0], "`main") &&
					tracetest.HasChain(s.User, "main", "__libc_start", "_start")) {
					odd = s.User
					continue
				}
				whole += s.Count
				function := ""
				if tracetest.HasChain(s.User, "compare", "sorted") {
					_, function, _ = strings.Cut(s.User[0], "`")
				}
				switch function {
				case "seventy":
					seventy += s.Count
				case "thirty":
					thirty += s.Count
				}
			}
		}
		// the process has samples before main
		if float64(whole) < 0.98*float64(all) {
			t.Errorf("%d of %d stacks are whole; others as %q", whole, all, odd)
		}
		if known && before > 0 {
			t.Errorf("%d samples of a process that was named came before its tables", before)
		}
		// more than five standard deviations
		if share := float64(seventy) / float64(seventy+thirty); share < 0.55 || share > 0.85 {
			t.Errorf(
				"the function that takes 70%% of the time has %.1f%% of %d samples", 100*share,
				seventy+thirty,
			)
		}
	}
}
