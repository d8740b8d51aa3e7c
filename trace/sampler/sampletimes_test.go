package sampler

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/measure"
	"culprit/trace/tracetest"
)

//go:noinline
func spinFirst(end time.Time) (n int) {
	for !time.Now().After(end) {
		n++
	}
	return n
}

//go:noinline
func spinSecond(end time.Time) (n int) {
	for !time.Now().After(end) {
		n--
	}
	return n
}

// TestProfileTimes: each sample of a thread has the time of it, so what ran first is before what
// ran afterwards. The amounts are those of a profile without times.
func TestProfileTimes(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	const phase = 400 * time.Millisecond
	done := make(chan struct{})
	p := Profile{
		Hz: 499, Times: true, User: true, Threads: ThreadFilter{PIDs: []int{os.Getpid()}},
		For: measure.Span(5 * phase / 2),
		hooks: profileHooks{begun: func() {
			go func() {
				defer close(done)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				middle := time.Now().Add(phase)
				spinFirst(middle)
				spinSecond(middle.Add(phase))
			}()
		}},
	}
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-done
	var first, second []SampleTime
	for s := range got.Stacks {
		if int64(len(s.Times)) != s.Count {
			t.Errorf("%d samples have %d times: %v", s.Count, len(s.Times), s.User)
		}
		for i, at := range s.Times {
			if i > 0 && at.At < s.Times[i-1].At || at.TID <= 0 {
				t.Fatalf("times %v of %v", s.Times, s.User)
			}
		}
		frames := strings.Join(s.User, " ")
		switch {
		case strings.Contains(frames, "spinFirst"):
			first = append(first, s.Times...)
		case strings.Contains(frames, "spinSecond"):
			second = append(second, s.Times...)
		}
	}
	if len(first) < 5 || len(second) < 5 || got.Untimed != 0 {
		t.Fatalf("%d and %d samples, %d without a time", len(first), len(second), got.Untimed)
	}
	span := func(all []SampleTime) (from, to measure.Span) {
		from = all[0].At
		for _, s := range all {
			from, to = min(from, s.At), max(to, s.At)
			if s.TID != first[0].TID {
				t.Errorf("threads %d and %d", s.TID, first[0].TID)
			}
		}
		return from, to
	}
	_, end := span(first)
	if begin, _ := span(second); begin < end {
		t.Errorf("the second function began %v before the end of the first", end-begin)
	}
}

// TestTimesAreBounded: samples beyond the limit are counted, without a time.
func TestTimesAreBounded(t *testing.T) {
	s := samples{profile: &Profile{Times: true}}
	for range mostTimes + 3 {
		s.timed(rowTime{}, 1)
	}
	s.timed(rowTime{}, 4)
	if len(s.times) != mostTimes || s.untimed != 7 {
		t.Errorf("%d times, %d samples without", len(s.times), s.untimed)
	}
}
