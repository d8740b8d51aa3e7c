package facts

import (
	"testing"

	"culprit/heapbound"
)

func TestCPUSet(t *testing.T) {
	for _, tt := range []struct {
		set, cpu string
		want     bool
	}{
		{"0-3,8", "0", true}, {"0-3,8", "3", true}, {"0-3,8", "4", false}, {"0-3,8", "8", true},
		{"5", "5", true}, {"5", "50", false}, {"", "0", false}, {"0-3", "", false},
		{"3-0", "2", false}, {"0-x,2", "2", true}, {"-1", "1", false}, {"0-4294967296", "7", true},
	} {
		t.Run(tt.set+" has "+tt.cpu, func(t *testing.T) {
			if got := CPUSet(tt.set).Has(tt.cpu); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzCPUSet(f *testing.F) {
	f.Add([]byte("0-3,8"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		in, out := CPUSet(b).Of([]string{"0", "1", "70000"})
		if len(in)+len(out) != 3 {
			t.Errorf("%v and %v", in, out)
		}
	})
}
