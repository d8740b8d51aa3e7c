package trace

import (
	"fmt"
	"testing"
	"time"

	"culprit/lang/ir"
)

// A timer that is very late fires at most mostBehind times; other firings are reported as lost.
func TestTicksFarBehind(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name     string
		every    time.Duration
		late     time.Duration
		left     uint64
		dueAfter time.Duration // the first that is left, before now
	}{
		{"not due", time.Second, -time.Second, 0, -time.Second},
		{"due now", time.Second, 0, 0, 0},
		{"just enough", time.Millisecond, (mostBehind - 1) * time.Millisecond, 0, (mostBehind - 1) * time.Millisecond},
		{"one too many", time.Millisecond, mostBehind * time.Millisecond, 1, (mostBehind - 1) * time.Millisecond},
		{"an hour", time.Millisecond, time.Hour, 3600*1000 + 1 - mostBehind, (mostBehind - 1) * time.Millisecond},
		{"years", 10 * time.Microsecond, 200 * 365 * 24 * time.Hour, 200*365*24*3600*100000 + 1 - mostBehind, (mostBehind - 1) * 10 * time.Microsecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Session{}
			r := &run{every: tt.every, next: now.Add(-tt.late)}
			r.skip(s, now, mostBehind)
			if s.losses.tooLate != tt.left || now.Sub(r.next) != tt.dueAfter {
				t.Errorf(
					"%d were left out and the next one is due %v ago, want %d and %v", s.losses.tooLate,
					now.Sub(r.next), tt.left, tt.dueAfter,
				)
			}
		})
	}
}

// Firings that were left out are reported once, as missed firings.
func TestTicksLeftOutAreReported(t *testing.T) {
	c := lossCounts{tooLate: 7}
	heard := &dropsHeard{}
	for range 2 {
		if err := c.reportLate(heard); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(heard.all); got != fmt.Sprint([]string{"7 missed firing"}) {
		t.Errorf("reported %v", got)
	}
}

// dropsHeard is a listener that keeps what was lost.
type dropsHeard struct {
	Listener
	all []string
}

func (d *dropsHeard) Drops(kind ir.Drop, _ int, n uint64) error {
	d.all = append(d.all, fmt.Sprint(n, " ", dropWords[kind].what))
	return nil
}
