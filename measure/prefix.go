package measure

import "math"

// Prefix returns v divided by the smallest power of step, at most the given one, with which its
// size is below edge, and that power. edge is the smallest size that the caller would print as a
// number of the next prefix, because it rounds: 999.5 with three digits, so that 999.6 MB/s is
// printed as 1 GB/s and never as 1000 MB/s. NaN and infinities have the power 0.
func Prefix(v, step, edge float64, most int) (scaled float64, power int) {
	if v-v != 0 {
		return v, 0
	}
	divisor := 1.0
	for math.Abs(v/divisor) >= edge && power < most {
		divisor *= step // one rounding in all: 999.5e9 / 1e9, not three divisions
		power++
	}
	return v / divisor, power
}
