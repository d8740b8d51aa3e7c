package kernel

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAlarm(t *testing.T) {
	for _, without := range []bool{false, true} {
		ctx, cancel := context.WithCancel(context.Background())
		a := NewAlarm(ctx)
		if a.file == nil {
			t.Fatal("no timer of the kernel's: timerfd_create is in every kernel since 2.6.25")
		}
		if without {
			a.Close()
			a.file = nil
		}
		for _, d := range []time.Duration{0, -time.Second, time.Millisecond, 20 * time.Millisecond, time.Millisecond} {
			start := time.Now()
			if err := a.Wait(d); err != nil {
				t.Fatalf("wait %v: %v", d, err)
			}
			if took := time.Since(start); took < d {
				t.Errorf("woke after %v instead of %v", took, d)
			}
		}
		woken := make(chan error)
		go func() { woken <- a.Wait(time.Hour) }()
		cancel()
		if err := <-woken; !errors.Is(err, context.Canceled) {
			t.Errorf("a wait that was cancelled: %v", err)
		}
		if err := a.Wait(time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("a wait after that: %v", err)
		}
		a.Close()
	}
}
