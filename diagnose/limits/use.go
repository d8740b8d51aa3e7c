package limits

import (
	"culprit/diagnose"
	"culprit/diagnose/threshold"
)

// A use is the use of one limit by one owner over the time range.
type use struct {
	kind  Kind
	owner *diagnose.Row // of the used statistic
	sizes []*diagnose.Row
	table *diagnose.Table

	used, size float64 // latest
	most       float64 // highest share of the limit in a cell
	full, near diagnose.Period
	isFull     bool
	isNear     bool
	urgent     bool    // see errors
	rate       float64 // growth per second, 0 when the use does not grow steadily
	refusals
}

// left returns the seconds until the limit is reached at the present rate.
func (u *use) left() float64 { return (u.size - u.used) / u.rate }

// failing reports whether requests fail because of the limit.
func (u *use) failing() bool {
	return u.requests >= float64(threshold.LimitCells) && u.cells >= threshold.LimitCells &&
		u.most >= threshold.LimitAt
}

// filling reports whether the limit will be reached soon.
func (u *use) filling() bool {
	return u.rate > 0 && !u.isFull && u.used >= threshold.LimitFilling*u.size &&
		u.size >= threshold.LimitLeast && u.left() <= threshold.LimitSoon
}

// sizeAt returns the limit in a cell, NaN when unknown.
func (u *use) sizeAt(c int) float64 {
	sum := 0.0
	for _, r := range u.sizes {
		sum += r.At(c)
	}
	return u.kind.limitOf(sum)
}

// severity returns how bad the use is; "" when there is nothing to report.
func (u *use) severity() diagnose.Severity {
	switch {
	case u.failing() && (u.kind.errors.mild || u.kind.errors.elsewhere && !u.isNear):
		return diagnose.Medium
	case u.failing():
		return diagnose.High
	case u.kind.errors.blocks && u.isFull && u.kind.errors.mild && !u.urgent:
		return diagnose.Medium
	case u.kind.errors.blocks && u.isFull:
		return diagnose.High
	case u.size < threshold.LimitLeast:
		return ""
	case u.isFull && (!u.known || u.refused > 0), u.filling():
		return diagnose.Medium
	case u.isFull, u.isNear:
		return diagnose.Low
	}
	return ""
}

// useOf reads the use of one owner; false when it is unknown, or has no limit.
func useOf(l *diagnose.Look, k Kind, r *diagnose.Row) (*use, bool) {
	u := &use{kind: k, owner: r, table: r.Table, used: r.Last()}
	for _, s := range k.sizes {
		size := k.rowOf(l, s, r)
		if size == nil {
			return nil, false
		}
		u.sizes = append(u.sizes, size)
		u.size += size.Last()
	}
	u.size = k.limitOf(u.size)
	if !(u.size > 0) || !(u.used >= 0) {
		return nil, false
	}
	known := func(c int) bool { return r.At(c) == r.At(c) && u.sizeAt(c) > 0 }
	above := func(share float64) (diagnose.Period, bool) {
		return diagnose.Lasting(u.table, known,
			func(c int) bool { return r.At(c) >= share*u.sizeAt(c) })
	}
	for c := range u.table.Seconds {
		if known(c) {
			u.most = max(u.most, r.At(c)/u.sizeAt(c))
		}
	}
	if u.most < min(threshold.LimitFilling, threshold.LimitAt) {
		return nil, false
	}
	u.full, u.isFull = above(threshold.LimitFull)
	u.near, u.isNear = above(threshold.LimitNear)
	if !u.isNear {
		u.near = diagnose.WholePeriod(u.table)
	}
	if k.rate {
		u.full, u.isFull, u.used = u.near, u.isNear, r.Mean(u.near.Mask)
	} else {
		u.rate = steadyGrowth(u.table, r)
	}
	u.refusals = refusalsOf(l, k, r)
	u.match()
	u.urgent = k.errors.urgent != nil && k.errors.urgent(l, u)
	return u, true
}

// match keeps the seconds with refusals in which the limit was about reached, at their begin or
// end.
func (u *use) match() {
	u.cells = 0
	for c, n := range u.at {
		high := false
		for _, at := range []int{c - 1, c, c + 1} {
			high = high || u.owner.At(at) >= threshold.LimitAt*u.sizeAt(at)
		}
		if n > 0 && high {
			u.cells++
		}
	}
	if u.failing() { // the level may be lower at the moment: a process that could not start
		u.used = max(u.used, u.most*u.size)
	}
}

// steadyGrowth returns the growth of a level per second; 0 when it does not grow in most steps, or
// not in the second half of the time.
func steadyGrowth(t *diagnose.Table, r *diagnose.Row) float64 {
	var values, at []float64
	now := 0.0
	for c, s := range t.Seconds {
		now += s
		if s > 0 && r.At(c) == r.At(c) {
			values, at = append(values, r.At(c)), append(at, now)
		}
	}
	n := len(values)
	if n < 2*threshold.LeastCells {
		return 0
	}
	steps := 0.0
	for i := 1; i < n; i++ {
		if values[i] > values[i-1] {
			steps++
		}
	}
	rate := func(from, to int) float64 {
		return (values[to] - values[from]) / (at[to] - at[from])
	}
	whole := rate(0, n-1)
	if steps < threshold.LimitSteady*float64(n-1) || !(whole > 0) ||
		rate(n/2, n-1) < whole/2 {
		return 0
	}
	return whole
}
