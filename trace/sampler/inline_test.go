package sampler

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// sampledInTime takes a profile. It repeats it when a note reports that there was no time to read
// debug information, as on a busy machine.
func sampledInTime(ctx context.Context, t *testing.T, p *Profile) *Profiled {
	t.Helper()
	for n := 1; ; n++ {
		got, err := p.Run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n == 3 ||
			!strings.Contains(strings.Join(got.Notes, "\n"), "reading debug information took") {
			return got
		}
	}
}

// Profiles of a program with debug information have inlined functions only with Inline.
func TestProfileInlined(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	pid := tracetest.Start(t, tracetest.CompileC(t, tracetest.InlinedCalls, "-O2", "-g"))
	for _, inline := range []bool{true, false} {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		p := &Profile{
			Hz:      99,
			Threads: ThreadFilter{PIDs: []int{pid}},
			User:    true,
			Inline:  inline,
			For:     measure.Span(2 * time.Second),
		}
		got := sampledInTime(ctx, t, p)
		all, with, any := int64(0), int64(0), int64(0)
		for s := range got.Stacks {
			at := slices.IndexFunc(
				s.User, func(f string) bool { return strings.HasSuffix(f, "`outer") },
			)
			if at < 0 {
				continue
			}
			all += s.Count
			if at == 2 && strings.HasSuffix(s.User[0], "`spin_[i]") &&
				strings.HasSuffix(s.User[1], "`middle_[i]") {
				with += s.Count
			}
			if strings.Contains(strings.Join(s.User, " "), "_[i]") {
				any += s.Count
			}
		}
		switch {
		case all < 10:
			t.Errorf("inline %v: %d samples of outer", inline, all)
		case inline && with*10 < all*9:
			t.Errorf("%d of %d samples are in spin in middle in outer", with, all)
		case !inline && any > 0:
			t.Errorf("%d samples have inlined functions, which nobody asked for", any)
		}
	}
}

// Waits have inlined functions as frames only with Inline.
func TestWaitsInlined(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	pid := tracetest.Start(t, tracetest.CompileC(t, tracetest.InlinedCalls, "-O2", "-g"), "wait")
	for _, inline := range []bool{true, false} {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		p := &Profile{
			Of:      OffCPU,
			Threads: ThreadFilter{PIDs: []int{pid}},
			User:    true,
			Inline:  inline,
			For:     measure.Span(time.Second),
		}
		got := sampledInTime(ctx, t, p)
		all, with, any := int64(0), int64(0), int64(0)
		for range 2 { // stacks may be gone through again
			all, with, any = 0, 0, 0
			for s := range got.Stacks {
				at := slices.IndexFunc(
					s.User, func(f string) bool { return strings.Contains(f, "`rests") },
				)
				if at < 1 {
					continue
				}
				all += s.Count
				if strings.HasSuffix(s.User[at-1], "`nap_[i]") {
					with += s.Count
				}
				if strings.Contains(strings.Join(s.User, " "), "_[i]") {
					any += s.Count
				}
			}
		}
		switch {
		case all < 3:
			t.Errorf("inline %v: %d waits in rests", inline, all)
		case inline && with < all:
			t.Errorf("%d of %d waits are in nap in rests", with, all)
		case !inline && any > 0:
			t.Errorf("%d waits have inlined functions, which nobody asked for", any)
		}
	}
}
