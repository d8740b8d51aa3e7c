package dataset

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// The most expensive group is suspended when the recording exceeds its budget. It is resumed later,
// and suspended for longer when it exceeds the budget again.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMeters()
		src.stats = []measure.Stat{
			two("big.one.x", measure.Delta),
			two("big.one.y", measure.Delta),
			two("big.one.z", measure.Delta),
			two("small.x", measure.Delta),
		}
		c, a := New(src), newMemory(nil)
		a.catalogue = c
		s, err := NewSet(c, a, []string{"big.one.x", "big.one.y", "big.one.z", "small.x"})
		if err != nil {
			t.Fatal(err)
		}
		s.SetBudget(0.02)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		spend := func(each measure.Span, over time.Duration) {
			for range int(over / time.Second) {
				src.cost.Add(int64(each))
				time.Sleep(time.Second)
			}
		}
		resting := func(want string) {
			t.Helper()
			got := ""
			for _, d := range s.Datasets() {
				if d.State == measure.Suspended {
					got += " " + string(d.Query.Stat)
				}
			}
			if strings.TrimSpace(got) != want {
				t.Errorf("at rest:%s, want %s", got, want)
			}
			if said := fmt.Sprint(s.Health().Problems); strings.Contains(
				said, "more than the 2 % that it may take: big.one",
			) != (want != "") {
				t.Errorf("said: %s", said)
			}
		}
		const all = "big.one.x big.one.y big.one.z"
		spend(4*measure.Millisecond, 3*time.Minute) // 1.6 % in all
		resting("")
		spend(10*measure.Millisecond, 2*time.Minute) // 4 %
		resting(all)
		spend(10*measure.Millisecond, firstPause-3*time.Minute)
		resting(all)
		spend(10*measure.Millisecond, 2*time.Minute) // includes a resume
		resting("")
		spend(10*measure.Millisecond, 2*time.Minute)
		resting(all)
		spend(4*measure.Millisecond, 2*firstPause-3*time.Minute)
		resting(all)
		spend(4*measure.Millisecond, 7*time.Minute)
		resting("")
		spend(10*measure.Millisecond, 3*time.Minute)
		resting(all)
		stop()
		<-done

		// Another run starts with all datasets except those that a user suspended.
		if err := s.Suspend("page", 4); err != nil {
			t.Fatal(err)
		}
		again, err := NewSet(c, a, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range again.Datasets() {
			if (d.State == measure.Suspended) != (d.ID == 4) {
				t.Errorf("after the restart %s is %s", d.Query, d.State)
			}
		}
	})
}
