package kernel

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"culprit/measure"
)

func TestInstantSince(t *testing.T) {
	tests := []struct {
		name           string
		earlier, later Instant
		want           measure.Interval
	}{
		{"steady", Instant{1000, 50}, Instant{1010, 60}, measure.Interval{Start: 1000, End: 1010}},
		{"clock set forward", Instant{1000, 50}, Instant{5010, 60},
			measure.Interval{Start: 5000, End: 5010}},
		{"clock set back", Instant{1000, 50}, Instant{310, 60},
			measure.Interval{Start: 300, End: 310}},
	}
	for _, test := range tests {
		if got := test.later.Since(test.earlier); got != test.want || got.Span() != 10 {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestClocksAgreeWithOthers(t *testing.T) {
	before := time.Now()
	a := Now()
	after := time.Now()
	if a.Wall.AsTime().Before(before.Round(0)) || a.Wall.AsTime().After(after.Round(0)) {
		t.Errorf("%v is not between %v and %v", a.Wall, before, after)
	}
	if b := Now(); b.Mono < a.Mono || a.Mono <= 0 {
		t.Errorf("%d, then %d", a.Mono, b.Mono)
	}
	up1 := Uptime()
	b, err := os.ReadFile("/proc/uptime")
	up2 := Uptime()
	if err != nil {
		t.Fatal(err)
	}
	var s float64
	if _, err := fmt.Sscan(string(b), &s); err != nil {
		t.Fatal(err)
	}
	// /proc/uptime has hundredths of a second.
	if s < up1.Seconds()-0.011 || s > up2.Seconds() {
		t.Errorf("%v is not in %v..%v", s, up1.Seconds(), up2.Seconds())
	}
	if up1 < a.Mono {
		t.Errorf("uptime %v is less than the monotonic clock %v", up1, a.Mono)
	}
	if boot := BootTime(); boot >= a.Wall || boot.Add(Uptime()).Sub(Now().Wall) > measure.Second {
		t.Errorf("boot at %v, now %v", boot, a.Wall)
	}
}

func TestTicksAndPages(t *testing.T) {
	if hz := TicksPerSecond(); hz != 100 && runtime.GOARCH != "alpha" {
		t.Errorf("USER_HZ %d", hz)
	}
	if PageSize() != os.Getpagesize() {
		t.Error(PageSize())
	}
}

func BenchmarkNow(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Now()
	}
}
