package diagnose

import (
	"fmt"

	"culprit/diagnose/threshold"
)

// lowerUsual lowers a finding by one severity if it comes at this hour on all recorded days, its
// numbers are as on those days, and it was measured that nobody waits. A finding that lasts since
// the day before is not lowered: it may be a fault that nobody has mended.
func lowerUsual(f *Finding) {
	p := f.Past
	if p.Days < fewDays || p.DaysFound < p.Days {
		return
	}
	again := p.LastGood != nil && p.Seen.Sub(p.Since) < day/2
	asUsual := f.Evidence[0].Usual.holds()
	switch {
	case !again:
		if p.Seen.Sub(p.Since) >= day/2 {
			f.Against = append(f.Against, fmt.Sprintf(
				"It is as at this hour on %d of %d recorded days: it lasts.", p.DaysFound, p.Days))
		}
	case !asUsual || !f.Waits.Nobody() ||
		f.Effect.Known() && float64(f.Effect) >= threshold.WaitsLeast:
		f.Against = append(f.Against, fmt.Sprintf(
			"It was there at this hour on all %d recorded days before.", p.Days))
	case f.Severity == High || f.Severity == Medium:
		was := f.Severity
		if f.Severity = Low; was == High {
			f.Severity = Medium
		}
		f.Against = append(f.Against, fmt.Sprintf("Lowered from %s: it comes at this hour on all "+
			"%d recorded days with numbers like these, and nothing waits for it.", was, p.Days))
	}
}

// holds reports whether the number of now is within those of each recorded day.
func (u *Usual) holds() bool {
	return u != nil && len(u.known()) >= fewDays &&
		u.Now >= 0.8*u.least && u.Now <= 1.25*u.most
}
