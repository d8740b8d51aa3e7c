package trace

import (
	"testing"
	"time"
)

func TestDrainInterval(t *testing.T) {
	for _, tt := range []struct {
		name       string
		options    map[string]string
		speculates bool
		want       time.Duration
	}{
		{"default", nil, false, drainEach},
		{"switchrate", map[string]string{"switchrate": "20ms"}, false, 20 * time.Millisecond},
		{"too slow", map[string]string{"switchrate": "5s"}, false, time.Second},
		{"too fast", map[string]string{"switchrate": "10us"}, false, time.Millisecond},
		{"speculations", nil, true, cleanEach},
		{"cleanrate", map[string]string{"cleanrate": "50hz"}, true, 20 * time.Millisecond},
		{"cleanrate without speculations", map[string]string{"cleanrate": "50hz"}, false, drainEach},
		{"both", map[string]string{"cleanrate": "50hz", "switchrate": "3ms"}, true,
			3 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := drainInterval(tt.options, tt.speculates); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}
