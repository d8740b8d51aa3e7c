package profile

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strings"
)

// A WaitLine is a line of WriteWaits: the number of waits and their total time.
type WaitLine struct {
	Count, Nanos float64
	What         string // the lock or resource, or the kind of wait
	Caller       string
}

// WriteWaits writes lines in the form of lockstat's contention table: Count, share of the time,
// cumulative share, mean in ns, lock or resource, caller. Lines are sorted by time. It writes the
// first limit lines (0: all) and the sum of the others. The error is the writer's.
func WriteWaits(w io.Writer, lines []WaitLine, note string, limit int) error {
	slices.SortStableFunc(lines, func(a, b WaitLine) int {
		return cmp.Or(cmp.Compare(b.Nanos, a.Nanos), cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.What, b.What))
	})
	out := bufio.NewWriter(w)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // Flush returns it
	var count, whole, sum float64
	for _, l := range lines {
		count, whole = count+l.Count, whole+l.Nanos
	}
	mean := func(nanos, count float64) string {
		if count == 0 {
			return "-"
		}
		return amount(float64(int64(nanos/count + 0.5)))
	}
	const what = 22
	const head = "Lock or state"
	write(pad("Count", 9) + " indv cuml" + pad("nsec", 12) + " " + head +
		strings.Repeat(" ", what-len(head)) + " Caller\n" + strings.Repeat("-", 79) + "\n")
	for i, l := range lines {
		if limit > 0 && i == limit {
			rest := 0.0
			for _, l := range lines[i:] {
				rest += l.Count
			}
			write(pad(amount(rest), 9) + pad(percent(whole-sum, whole), 5) + " 100%" +
				pad(
					mean(whole-sum, rest), 12,
				) + " (" + plural(len(lines)-i, "other", "others") + ")\n")
			break
		}
		sum += l.Nanos
		numbers := pad(amount(l.Count), 9) + pad(percent(l.Nanos, whole), 5) +
			pad(percent(sum, whole), 5) + pad(mean(l.Nanos, l.Count), 12)
		blank := strings.Repeat(" ", max(0, what-len(l.What)))
		write(numbers + " " + l.What + blank + " " + clean(shortened(l.Caller, maxName)) + "\n")
	}
	write(strings.Repeat("-", 79) + "\n" + pad(amount(count), 9) + " " + note + "\n")
	return out.Flush()
}
