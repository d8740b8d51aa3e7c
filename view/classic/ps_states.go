package classic

import (
	"slices"
	"strconv"
	"strings"

	"culprit/measure"
)

// stateLine returns the number of processes and of those in each state, from process.count: "312
// processes: 2 running, 290 sleeping, 1 in D, 0 zombies, 19 idle". States other than the first four
// are shown if a process is in them. It returns "" if the answer has no rows.
func stateLine(a *measure.Answer) string {
	counts := map[string]float64{}
	total, field := 0.0, a.FieldIndex("state")
	for i, s := range a.Series {
		if v := s.Values[0]; field >= 0 && v == v {
			counts[a.Label(i, field)] += v
			total += v
		}
	}
	if total == 0 {
		return ""
	}
	var parts []string
	rest := total
	for i, state := range []struct{ letters, word string }{
		{"R", "running"}, {"S", "sleeping"}, {"D", "in D"}, {"Z", "zombies"},
		{"Tt", "stopped"}, {"I", "idle"},
	} {
		n := 0.0
		for _, letter := range state.letters {
			n += counts[string(letter)]
		}
		rest -= n
		if i < 4 || n > 0 {
			parts = append(parts, stateCount(n)+" "+state.word)
		}
	}
	if rest >= 0.05 { // parked or dying
		parts = append(parts, stateCount(rest)+" other")
	}
	return stateCount(total) + " processes: " + strings.Join(parts, ", ")
}

// stateCount formats a count. Averages have one decimal.
func stateCount(n float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
}

// stateOrder returns what puts processes in D before those in Z, and both before all others, if it
// is added to their psOrder.
func stateOrder(state string) float64 {
	switch state {
	case "D":
		return 2 * stateFirst
	case "Z":
		return stateFirst
	}
	return measure.NaN
}

// stateFirst is more than the largest difference between two results of psOrder.
const stateFirst = 4 * unknownPenalty

// longestLast orders the series of an average so that the state in which a process was longest is
// the last of its series, which Pivot.Join keeps. An answer of one moment is returned as it is.
func longestLast(a *measure.Answer) *measure.Answer {
	if !slices.ContainsFunc(a.Series, func(s measure.Series) bool { return s.Values[0] != 1 }) {
		return a
	}
	sorted := *a
	sorted.SetColumn(nil, 0)
	sorted.Series = slices.Clone(a.Series)
	slices.SortStableFunc(sorted.Series, func(x, y measure.Series) int {
		switch {
		case x.Values[0] < y.Values[0]:
			return -1
		case x.Values[0] > y.Values[0]:
			return 1
		}
		return 0
	})
	return &sorted
}
