package profile

import (
	"bufio"
	"cmp"
	"io"
	"slices"
	"strings"
)

// A WaitLine is a line of WriteWaits: how often something waited, and how long in all.
type WaitLine struct {
	Count, Nanos float64
	What         string // what it waited for, or how
	Caller       string
}

// WriteWaits writes lines as lockstat prints contention: Count, the share of the time, the shares so far, the mean in ns, what was waited
// for, and who did. What took longest comes first; of the others than the first most (0: all) there is the sum.
func WriteWaits(w io.Writer, lines []WaitLine, note string, most int) error {
	slices.SortStableFunc(lines, func(a, b WaitLine) int {
		return cmp.Or(cmp.Compare(b.Nanos, a.Nanos), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Caller, b.Caller), cmp.Compare(a.What, b.What))
	})
	out := bufio.NewWriter(w)
	write := func(s string) { out.WriteString(s) } //nolint:errcheck // told when it is flushed
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
	write(pad("Count", 9) + " indv cuml" + pad("nsec", 12) + " " + "Lock or state" + strings.Repeat(" ", what-len("Lock or state")) + " Caller\n" + strings.Repeat("-", 79) + "\n")
	for i, l := range lines {
		if most > 0 && i == most {
			rest := 0.0
			for _, l := range lines[i:] {
				rest += l.Count
			}
			write(pad(amount(rest), 9) + pad(percent(whole-sum, whole), 5) + " 100%" + pad(mean(whole-sum, rest), 12) + " (" + plural(len(lines)-i, "other", "others") + ")\n")
			break
		}
		sum += l.Nanos
		write(pad(amount(l.Count), 9) + pad(percent(l.Nanos, whole), 5) + pad(percent(sum, whole), 5) + pad(mean(l.Nanos, l.Count), 12) +
			" " + l.What + strings.Repeat(" ", max(0, what-len(l.What))) + " " + clean(shortened(l.Caller, mostName)) + "\n")
	}
	write(strings.Repeat("-", 79) + "\n" + pad(amount(count), 9) + " " + note + "\n")
	return out.Flush()
}
