package heat

import (
	"strconv"
	"strings"

	"culprit/measure"
)

// quantizeWidth is the width of the bars, as in DTrace.
const quantizeWidth = 40

// Quantize formats a distribution as DTrace's quantize(): a line per power of two, each with the
// smallest value of the bucket, a bar for its share, and its number of events. The lines above and
// below those with events show 0. "" without events. Each line ends with a line break.
func Quantize(d measure.Dist) string {
	type bar struct {
		from uint64
		n    uint64
	}
	var bars []bar
	if _, end := used(&d); end == 0 {
		return ""
	}
	powers := measure.Dist{} // base 0: a bucket per power of two
	powers.Merge(d)
	first, end := used(&powers)
	for b := max(0, first-1); b <= end; b++ {
		n := uint64(0)
		if i := b - powers.First; i >= 0 && int(i) < len(powers.Counts) {
			n = powers.Counts[i]
		}
		bars = append(bars, bar{measure.BucketStart(0, b), n})
	}
	total := powers.Count()
	var out strings.Builder
	out.WriteString("           value  ------------- Distribution ------------- count\n")
	for _, b := range bars {
		value := strconv.FormatUint(b.from, 10)
		out.WriteString(strings.Repeat(" ", max(0, 16-len(value))))
		out.WriteString(value)
		out.WriteString(" |")
		filled := int(float64(b.n)/float64(total)*quantizeWidth + 0.5)
		out.WriteString(strings.Repeat("@", filled))
		out.WriteString(strings.Repeat(" ", quantizeWidth-filled))
		out.WriteString(" ")
		out.WriteString(strconv.FormatUint(b.n, 10))
		out.WriteString("\n")
	}
	return out.String()
}
