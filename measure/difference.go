package measure

// Difference returns whole less its parts, for a level that is made by subtraction, as used = total - free. Numbers that were read one
// after the other may be off a little: a result below 0 by at most a hundredth of the whole is 0. One further below, or of a number
// that is not known or negative, is NaN: one of them can't be right. The result is never negative and never more than the whole.
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
