package measure

import (
	"math"
	"testing"
)

func TestPrefix(t *testing.T) {
	tests := []struct {
		name          string
		v, step, edge float64
		most          int
		want          float64
		power         int
	}{
		{"zero", 0, 1000, 999.5, 3, 0, 0},
		{"below the edge", 999.4, 1000, 999.5, 3, 999.4, 0},
		{"at the edge", 999.5, 1000, 999.5, 3, 0.9995, 1},
		{"negative", -999.9999, 1000, 999.5, 3, -0.9999999, 1},
		{"the step itself", 1000, 1000, 999.5, 3, 1, 1},
		{"below the third edge", 999.4e9, 1000, 999.5, 4, 999.4, 3},
		{"at the third edge", 999.5e9, 1000, 999.5, 4, 0.9995, 4},
		{"no larger prefix", 999.5e9, 1000, 999.5, 3, 999.5, 3},
		{"four digits", 999.9, 1000, 999.95, 3, 999.9, 0},
		{"binary, below", 1023.4 * 1024, 1024, 1023.5, 3, 1023.4, 1},
		{"binary, at", 1023.5 * 1024, 1024, 1023.5, 3, 1023.5 / 1024, 2},
		{"infinite", math.Inf(-1), 1000, 999.5, 3, math.Inf(-1), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, power := Prefix(tt.v, tt.step, tt.edge, tt.most)
			if power != tt.power || got != tt.want && math.Abs(got/tt.want-1) > 1e-12 {
				t.Errorf("%v with power %d, want %v with power %d", got, power, tt.want, tt.power)
			}
		})
	}
	if got, power := Prefix(math.NaN(), 1000, 999.5, 3); got == got || power != 0 {
		t.Errorf("NaN is %v with power %d", got, power)
	}
}
