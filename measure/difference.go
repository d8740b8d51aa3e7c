package measure

// Difference returns whole minus its parts, for a level computed by subtraction: used = total -
// free. Numbers read one after another may be slightly inconsistent, so a result below 0 by at most
// 1 % of the whole is 0. A lower result, or a negative or NaN input, is NaN. The result is never
// negative and never more than the whole.
func Difference(whole float64, parts ...float64) float64 {
	if !(whole >= 0) {
		return NaN
	}
	rest := whole
	for _, p := range parts {
		if !(p >= 0) {
			return NaN
		}
		rest -= p
	}
	switch {
	case rest >= 0:
		return rest
	case rest >= -whole/100:
		return 0
	}
	return NaN
}
