package heat

import (
	"fmt"
	"math"
	"strings"
	"time"

	"culprit/measure"
	"culprit/view"
)

// Text formats columns of a heat map as lines of a terminal: a line per interval, values from left
// to right on a log axis. It is wide enough for every value that it was given, and begins again
// with a header when the axis or the shades change.
//
//	                   10us   100us  1ms    10ms
//	Time        values |                       |   p50    p99    max  each . + * # up to 100
//	14:03:22       318   .*#+        .           62us   11ms   13ms
type Text struct {
	Width  int  // columns of the terminal; at least 60 are used
	Colour bool // shades are coloured by ANSI sequences
	ASCII  bool // shades are . + * #, not blocks

	base       uint8
	first, end int32 // buckets of the axis; both 0: no axis yet
	perColumn  int32 // buckets per character
	most       float64
	titled     bool
}

const (
	blocks     = "░▒▓█"
	ascii      = ".+*#"
	textLeft   = 18 // columns left of the plot
	textRight  = 24 // columns right of the plot
	leastWidth = 60
)

// colours are the colours of Cividis for the four shades, of the 256 of a terminal.
var colours = [...]int{60, 102, 144, 227} // table: constant

// Fit extends the axis and the shades to a distribution: to everything that is known beforehand.
func (t *Text) Fit(d *measure.Dist) {
	if t.end == 0 {
		t.base = d.Base
	}
	if d.Base != t.base {
		other := measure.Dist{Base: t.base}
		other.Merge(*d)
		d = &other
	}
	first, end := used(d)
	if end == 0 {
		return
	}
	first, end = t.widened(first, end)
	if t.end != 0 {
		first, end = min(first, t.first), max(end, t.end)
	}
	if first != t.first || end != t.end {
		t.first, t.end, t.titled = first, end, false
	}
	t.perColumn = max(1, (end-first+t.plot()-1)/t.plot())
	for _, n := range t.characters(d) {
		// Rounded up to a power of ten, so that the shades seldom change.
		if most := math.Pow(10, math.Ceil(math.Log10(float64(n)))); most > t.most {
			t.most, t.titled = most, false
		}
	}
}

// widened returns buckets widened to powers of ten, so that the axis seldom changes.
func (t *Text) widened(first, end int32) (int32, int32) {
	low := uint64(0)
	for v := uint64(1); v <= measure.BucketStart(t.base, first); v *= 10 {
		low = v
		if v > math.MaxUint64/10 {
			break
		}
	}
	high := uint64(1)
	for high < measure.BucketStart(t.base, end) {
		if high > math.MaxUint64/10 {
			return measure.BucketOf(t.base, low), end
		}
		high *= 10
	}
	return measure.BucketOf(t.base, low), max(end, measure.BucketOf(t.base, high))
}

// plot returns the width of the plot in characters.
func (t *Text) plot() int32 { return int32(max(t.Width, leastWidth) - textLeft - textRight) }

// characters returns the events of each character of the plot.
func (t *Text) characters(d *measure.Dist) []uint64 {
	out := make([]uint64, (t.end-t.first+t.perColumn-1)/t.perColumn)
	for i, n := range d.Counts {
		if n > 0 {
			out[(d.First+int32(i)-t.first)/t.perColumn] += n
		}
	}
	return out
}

// Append appends the line of the interval that ended at a time. It has a header if it needs one.
func (t *Text) Append(b []byte, end measure.Time, c *Column, unit measure.Unit) []byte {
	return t.AppendNamed(b, end.AsTime().Local().Format(time.TimeOnly), c, unit)
}

// AppendNamed appends a line as Append, with a name of at most eight characters for its time.
func (t *Text) AppendNamed(b []byte, name string, c *Column, unit measure.Unit) []byte {
	t.Fit(&c.Dist)
	d := &c.Dist
	if d.Base != t.base && t.end != 0 {
		other := measure.Dist{Base: t.base}
		other.Merge(*d)
		d = &other
	}
	if !t.titled && t.end != 0 {
		b = t.header(b, unit)
	}
	if c.Elapsed == 0 {
		return fmt.Appendf(b, "%-8s        -  not measured\n", name)
	}
	b = fmt.Appendf(b, "%-8s %8d ", name, d.Count())
	if t.end == 0 {
		return append(b, '\n')
	}
	for _, n := range t.characters(d) {
		b = t.shade(b, n)
	}
	pad := int(t.plot()) - int((t.end-t.first+t.perColumn-1)/t.perColumn)
	b = append(b, strings.Repeat(" ", pad)...)
	l := c.Lines()
	for _, v := range []float64{l.P50, l.P99, l.Max} {
		b = fmt.Appendf(b, "%8s", Format(v, unit))
	}
	return append(b, '\n')
}

// shade appends one character: of four by the log of the number of events.
func (t *Text) shade(b []byte, n uint64) []byte {
	if n == 0 {
		return append(b, ' ')
	}
	level := 3
	if t.most > 1 {
		level = min(3, int(4*math.Log(float64(n))/math.Log(t.most)))
	}
	c := string([]rune(blocks)[level])
	if t.ASCII {
		c = ascii[level : level+1]
	}
	if t.Colour {
		return fmt.Appendf(b, "\x1b[38;5;%dm%s\x1b[0m", colours[level], c)
	}
	return append(b, c...)
}

// header appends the axis and the names of the columns.
func (t *Text) header(b []byte, unit measure.Unit) []byte {
	t.titled = true
	width := int(t.plot())
	axis := []byte(strings.Repeat(" ", width+8))
	free := 0 // first column that no label uses
	for _, v := range decades(unit) {
		bucket := measure.BucketOf(t.base, v)
		if bucket < t.first || bucket >= t.end {
			continue
		}
		at := int((bucket - t.first) / t.perColumn)
		text := "|" + trimmed.Replace(Format(float64(v), unit))
		if at < free || at+len(text) > len(axis) {
			continue
		}
		copy(axis[at:], text)
		free = at + len(text) + 1
	}
	shades := blocks
	if t.ASCII {
		shades = ascii
	}
	b = fmt.Appendf(b, "%*s%s\n", textLeft, "", strings.TrimRight(string(axis), " "))
	legend := fmt.Sprintf("%s to %.0f events", shades, t.most)
	if len([]rune(legend)) > width {
		legend = ""
	}
	pad := strings.Repeat(" ", width-len([]rune(legend)))
	return fmt.Appendf(b, "%-8s %8s %s%s%8s%8s%8s\n", "Time", "values", legend, pad,
		"p50", "p99", "max")
}

// trimmed removes the digits of a round number: 1us, not 1.00us.
var trimmed = strings.NewReplacer(".00", "", ".0", "") // table: constant

// decades returns the values that an axis marks: powers of ten, of bytes every tenth power of two.
func decades(unit measure.Unit) []uint64 {
	by := uint64(10)
	if unit == measure.Bytes {
		by = 1 << 10
	}
	out := []uint64{0, 1}
	for v := by; v < 1<<63/by; v *= by {
		out = append(out, v)
	}
	return out
}

// Format formats a value in its unit in at most seven characters: 1.25ms, 23.4M, 318; "-" for NaN.
func Format(v float64, unit measure.Unit) string {
	switch {
	case v != v:
		return "-"
	case unit == measure.Nanoseconds && v >= 999.5*3600e9:
		return fmt.Sprintf("%.0fd", v/(24*3600e9))
	case unit == measure.Nanoseconds && v >= 3599.5e9:
		return fmt.Sprintf("%.3gh", v/3600e9)
	case unit == measure.Nanoseconds:
		return view.FormatNanos(v)
	case unit == measure.Bytes:
		return view.FormatBytes(v)
	case v >= 1e6:
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.6g", math.Round(v*100)/100)
}
