package api

import "testing"

// A time survives the way through the API without rounding.
func TestMillisAreExact(t *testing.T) {
	times := []int64{0, 1, 999_999, 1_000_000, 1_500_000, 1_700_000_000_123_456_789}
	for _, ns := range times {
		text := string(AppendMillis(nil, ns))
		if got, ok := ParseMillis(text); !ok || got != ns {
			t.Errorf("%d ns: written as %q, read as %d, %v", ns, text, got, ok)
		}
	}
}

func TestMillisOfNegativeTimes(t *testing.T) {
	tests := []struct {
		ns   int64
		want string
	}{
		{-1, "-0.000001"},
		{-1_000_001, "-1.000001"},
		{-1_500_000, "-1.5"},
	}
	for _, tt := range tests {
		if got := string(AppendMillis(nil, tt.ns)); got != tt.want {
			t.Errorf("%d ns: %q, want %q", tt.ns, got, tt.want)
		}
	}
}

func TestParseMillisRefuses(t *testing.T) {
	for _, text := range []string{"", "+1", "1e3", "0x10", "1.2.3", "1.x", "9223372036854775807"} {
		if ns, ok := ParseMillis(text); ok {
			t.Errorf("%q: read as %d", text, ns)
		}
	}
}
