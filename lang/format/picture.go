package format

import (
	"math"
	"math/bits"
	"strconv"
)

// barLength is the length of the longest bar in characters.
const barLength = 40

// zoomed is the share of the line that the longest bar takes with aggzoom.
const zoomed = 0.95

// scale is the measure of the bars of a picture.
type scale struct {
	sum       uint64  // of all counts, without their sign
	all, most float64 // their sum, and the greatest
	over      bool    // sum overflows
	positive  bool
	negative  bool
}

// add includes a count.
func (c *scale) add(n int64) {
	c.positive = c.positive || n > 0
	c.negative = c.negative || n < 0
	u := magnitude(n)
	sum, carry := bits.Add64(c.sum, u, 0)
	c.over = c.over || carry != 0 || sum > 1<<62
	c.sum = sum
	c.all += float64(u)
	c.most = math.Max(c.most, float64(u))
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// bar returns the number of characters, of length, that a count takes, rounded half up.
func (c *scale) bar(n int64, length uint64, zoom bool) int {
	u := magnitude(n)
	switch {
	case u == 0:
		return 0
	case zoom || c.over:
		total := c.all
		if zoom {
			total = c.most / zoomed
		}
		return min(int(float64(u)*float64(length)/total+0.5), int(length))
	}
	hi, lo := bits.Mul64(u, 2*length)
	lo, carry := bits.Add64(lo, c.sum, 0)
	q, _ := bits.Div64(hi+carry, lo, 2*c.sum)
	return int(q)
}

// distribution appends the picture of a distribution. It has a line per bucket, from the one before
// the first non-empty bucket to the one after the last.
func (s *Style) distribution(dst []byte, b Buckets, counts []int64, normal uint64) []byte {
	first, last := s.span(b, counts)
	var c scale
	for _, n := range counts[first : last+1] {
		c.add(n)
	}
	dst = quantHeader(dst, 16, "value")
	names := b.labels(first, last)
	for i := first; i <= last; i++ {
		if names[i-first] == "" {
			continue
		}
		dst = field{width: 16}.pad(dst, names[i-first])
		dst = append(dst, ' ')
		dst = s.line(dst, counts[i], normal, &c)
	}
	return dst
}

func quantHeader(dst []byte, width int, what string) []byte {
	dst = append(dst, '\n')
	dst = field{width: width}.pad(dst, what)
	return append(dst, "  ------------- Distribution ------------- count    \n"...)
}

// span returns the first and the last bucket of a picture.
func (s *Style) span(b Buckets, counts []int64) (first, last int) {
	first, last = 0, len(counts)-1
	for first <= last && counts[first] == 0 {
		first++
	}
	if first > last { // nothing was counted, or all weights are 0
		switch b.form {
		case linear:
			return 0, min(2, len(counts)-1)
		case logLinear:
			return b.zero(), b.zero() + 2
		}
		return quantZero - 1, quantZero + 1
	}
	for counts[last] == 0 {
		last--
	}
	return max(first-1, 0), min(last+1, len(counts)-1)
}

// labels returns the names of the buckets from first to last. At the ends a bucket without a name
// has that of the next one outwards, so that a picture always shows where the distribution ends.
func (b Buckets) labels(first, last int) []string {
	names := make([]string, last-first+1)
	below := b.form == logLinear && first < b.zero()
	for i := range names {
		names[i] = b.label(first+i, below)
	}
	if b.form == logLinear {
		for i := first - 1; names[0] == "" && i >= 0; i-- {
			names[0] = b.label(i, true)
		}
		for i := last + 1; names[len(names)-1] == "" && i < b.Len(); i++ {
			names[len(names)-1] = b.label(i, true)
		}
	}
	return names
}

// line appends the bar of a count and the count: to the right for positive counts, to the left for
// negative ones, and from the middle when there are both.
func (s *Style) line(dst []byte, n int64, normal uint64, c *scale) []byte {
	switch {
	case !c.negative && c.positive && s.Encoding == "utf8":
		dst = s.blocks(dst, n, c)
	case !c.negative:
		k := c.bar(n, barLength, s.Zoom)
		dst = fill(append(dst, '|'), '@', k)
		dst = fill(dst, ' ', barLength-k)
	case !c.positive:
		k := c.bar(n, barLength, s.Zoom)
		dst = fill(dst, ' ', barLength-k)
		dst = append(fill(dst, '@', k), '|')
	case n <= 0:
		k := c.bar(n, barLength/2, s.Zoom)
		dst = fill(dst, ' ', barLength/2-k)
		dst = append(fill(dst, '@', k), '|')
		dst = fill(dst, ' ', barLength/2)
	default:
		k := c.bar(n, barLength/2, s.Zoom)
		dst = append(fill(dst, ' ', barLength/2), '|')
		dst = fill(dst, '@', k)
		dst = fill(dst, ' ', barLength/2-k)
	}
	dst = append(dst, ' ')
	dst = field{width: 9, left: true}.signed(dst, normalized(n, normal))
	return append(dst, '\n')
}

// normalized divides a value of an aggregation by the argument of normalize(). dtrace divides
// unsigned in its tables, which turns -10 by 2 into 9223372036854775803; here it is always -5.
func normalized(n int64, normal uint64) int64 {
	switch {
	case normal <= 1:
		return n
	case normal > math.MaxInt64:
		return 0
	}
	return n / int64(normal)
}

// blocks appends a bar of eighths of characters (U+2588 to U+258F).
func (s *Style) blocks(dst []byte, n int64, c *scale) []byte {
	total := c.all
	if s.Zoom {
		total = c.most / zoomed
	}
	f := math.Min(float64(magnitude(n))*barLength/total, barLength)
	whole := int(f)
	part := int((f - float64(whole)) * 8)
	dst = append(dst, '|')
	for range whole {
		dst = append(dst, "█"...)
	}
	if part > 0 {
		dst = append(dst, string(rune(0x258f-(part-1)))...)
		whole++
	}
	return fill(dst, ' ', barLength-whole)
}

// packedRange returns the buckets that a packed picture of several rows shows.
func packedRange(b Buckets, rows []AggregationRow) (first, last int) {
	if b.form == linear {
		return 0, b.Len() - 1
	}
	first, last = quantCount, -1
	for _, r := range rows {
		for i, n := range r.Data {
			if n != 0 {
				first, last = min(first, i), max(last, i)
			}
		}
	}
	if last < 0 {
		return quantZero, quantZero + 1
	}
	if first != 0 && first != quantZero {
		first--
	}
	return first, min(last+1, quantCount-1)
}

// digits returns the width of a bound in a packed picture. It counts as illumos does, where 10000
// has four digits.
func digits(n int64) int {
	width, u := 1, magnitude(n)
	if n < 0 {
		width++
	}
	for power := uint64(10); u > power && power < 1e18; power *= 10 {
		width++
	}
	return max(width, 4)
}

// packedHeader appends the line above packed pictures; keys is the width of the keys.
func packedHeader(dst []byte, b Buckets, keys, first, last int) []byte {
	low, high := 7, 8
	if b.form == power {
		low, high = digits(b.quantValue(first)), digits(b.quantValue(last))
	}
	dst = append(dst, '\n')
	word := ""
	if keys > 0 {
		word = "key"
	}
	dst = field{width: keys}.pad(dst, word)
	dst = append(dst, ' ')
	dst = field{width: low}.pad(dst, "min")
	dst = append(dst, " ."...)
	dst = fill(dst, '-', last-first+1)
	dst = append(dst, ". "...)
	dst = field{width: high, left: true}.pad(dst, "max")
	return append(dst, " | count\n"...)
}

// packed appends a distribution with one character per bucket.
func (s *Style) packed(dst []byte, b Buckets, counts []int64, first, last int) []byte {
	var c scale
	var count int64
	for _, n := range counts[first : last+1] {
		c.add(n)
		count += n
	}
	if b.form == power {
		low := b.quantValue(first)
		dst = append(dst, ' ')
		dst = field{width: digits(low)}.signed(dst, low)
	} else {
		dst = field{width: 8}.pad(dst, b.label(0, false))
	}
	dst = append(dst, " :"...)
	for _, n := range counts[first : last+1] {
		dst = s.glyph(dst, n, &c)
	}
	dst = append(dst, ": "...)
	if b.form == power {
		high := b.quantValue(last)
		dst = field{width: digits(high), left: true}.signed(dst, high)
	} else {
		dst = field{width: 8, left: true}.pad(dst, b.label(b.Len()-1, false))
	}
	dst = append(dst, " | "...)
	dst = strconv.AppendInt(dst, count, 10)
	return append(dst, '\n')
}

// glyph appends the character for a count.
func (s *Style) glyph(dst []byte, n int64, c *scale) []byte {
	const above, below = "__xxxxXX", "vvvvVV"
	switch {
	case n == 0:
		return append(dst, ' ')
	case n < 0:
		return append(dst, below[c.bar(n, uint64(len(below)-1), s.Zoom)])
	case s.Encoding == "ascii":
		return append(dst, above[c.bar(n, uint64(len(above)-1), s.Zoom)])
	}
	return append(dst, string(rune(0x2581+c.bar(n, 7, s.Zoom)))...)
}
