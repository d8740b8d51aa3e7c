package format

import "slices"

// greatest returns the n rows that compare highest, in any order; all of them when n is 0.
func greatest[R any](rows []R, n int, compare func(x, y R) int) []R {
	if n <= 0 || len(rows) <= n {
		return rows
	}
	slices.SortStableFunc(rows, func(x, y R) int { return compare(y, x) })
	return rows[:n]
}
