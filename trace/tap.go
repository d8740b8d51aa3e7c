package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/measure"
)

// A tap collects all that is added to an aggregation until take is called. Each reader of a
// statistic has its own tap. Rows that the script clears or truncates are still in a tap.
type tap struct {
	of    *Aggregate
	rows  map[string]tapped   // by the bytes of the key
	words map[string][]string // by the bytes of the key
}

// tapped is what was added for one key.
type tapped struct {
	// words are a text for each element of the key. If the session has frames, that of a stack is
	// the number of its frame.
	words []string
	data  []int64 // as in format.AggregationRow
}

// mostWords is how many keys a tap remembers with their words. To look up the names of a stack
// costs more than all other work of a tap.
const mostWords = 1 << 14

func (t *tap) add(key []byte, values [][]byte, bucket int) {
	a := t.of
	row, there := t.rows[string(key)]
	for _, v := range values {
		if !anything(a.Of, v) {
			continue
		}
		if !there {
			there = true
			row = tapped{t.named(key), a.fresh()}
			t.rows[string(key)] = row
		}
		a.merge(row.data, v, bucket)
	}
}

// named returns the words of a key.
func (t *tap) named(key []byte) []string {
	if s := t.of.session; s.stacks.frames != nil { // a stack's ID is used only once
		w := make([]string, 0, len(t.of.Of.Key.Fields))
		for _, f := range t.of.Of.Key.Fields {
			if _, stack := f.Type.(check.StackType); stack {
				w = append(w, strconv.Itoa(int(s.stacks.frameOf(uint32(FieldOf(key, f).Int)))))
			} else {
				w = append(w, Label(f.Type, s.Key(key, f)))
			}
		}
		return w
	}
	if w, ok := t.words[string(key)]; ok {
		return w
	}
	w := []string{}
	for _, f := range t.of.Of.Key.Fields {
		w = append(w, Label(f.Type, t.of.session.Key(key, f)))
	}
	if len(t.words) >= mostWords {
		clear(t.words)
	}
	t.words[string(key)] = w
	return w
}

// take returns what was added since it was last called.
func (t *tap) take() map[string]tapped {
	rows := t.rows
	t.rows = make(map[string]tapped, len(rows))
	return rows
}

// tap adds a tap, which collects what is added from now on.
func (a *Aggregate) tap() *tap {
	t := &tap{of: a, rows: map[string]tapped{}, words: map[string][]string{}}
	a.taps = append(a.taps, t)
	return t
}

func (a *Aggregate) untap(t *tap) {
	a.taps = slices.DeleteFunc(a.taps, func(o *tap) bool { return o == t })
}

// Label returns an element of a key as the value of a field. A stack is its functions from the
// outermost to the innermost, separated by semicolons.
func Label(t check.Type, v format.Value) string {
	switch v.Kind {
	case format.Chars:
		return strings.ToValidUTF8(v.Text, "\ufffd")
	case format.Frames:
		lines := make([]string, len(v.Frames))
		for i, l := range v.Frames {
			lines[len(lines)-1-i] = strings.ReplaceAll(strings.TrimSpace(l), ";", ":")
		}
		return strings.Join(lines, ";")
	case format.Raw:
		return fmt.Sprintf("%x", v.Text)
	case format.Place:
		return cmp.Or(v.Text, fmt.Sprintf("%#x", v.Num))
	}
	if _, ok := t.(*check.Pointer); ok {
		return fmt.Sprintf("%#x", v.Num)
	}
	return fmt.Sprint(plain(v))
}

// join adds the value from to the value to. Both are of this aggregation.
func (a *Aggregate) join(to, from []int64) {
	switch a.Func {
	case format.Min:
		to[0] = min(to[0], from[0])
	case format.Max:
		to[0] = max(to[0], from[0])
	case format.Stddev:
		to[0] += from[0]
		to[1] += from[1]
		low, carry := bits.Add64(uint64(to[2]), uint64(from[2]), 0)
		high, _ := bits.Add64(uint64(to[3]), uint64(from[3]), carry)
		to[2], to[3] = int64(low), int64(high)
	default:
		for i, n := range from {
			to[i] += n
		}
	}
}

// number returns a value of an aggregation that is no distribution.
func (a *Aggregate) number(data []int64) float64 {
	n := float64(data[0])
	switch a.Func {
	case format.Avg:
		return float64(data[1]) / n
	case format.Stddev:
		mean := float64(data[1]) / n
		squares := (float64(uint64(data[3]))*(1<<32)*(1<<32) + float64(uint64(data[2]))) / n
		return math.Sqrt(max(0, squares-mean*mean))
	}
	return n
}

// finest is the base of the finest measure.Dist that an aggregation becomes: its buckets are 1.6 %
// wide.
const finest = 6

// fineness returns the base of the measure.Dist that has the same buckets as the aggregation, or
// finest if there is none.
func (a *Aggregate) fineness() uint8 {
	g := a.Of.Agg
	switch {
	case a.Func == format.Quantize:
		return 0
	case a.Func == format.Llquantize && g.Steps[0] == 2 &&
		g.Steps[3] >= 2 && g.Steps[3] <= 2<<finest && g.Steps[3]&(g.Steps[3]-1) == 0:
		// Of 8 steps up to each power of two, four are above the power before it.
		return uint8(bits.TrailingZeros64(uint64(g.Steps[3])) - 1)
	}
	return finest
}

// distribution returns a value of quantize(), lquantize() or llquantize() as a measure.Dist. The
// buckets of quantize(), and of llquantize() with factor 2 and a power of 2 as steps, are those of
// the Dist; values of other buckets count at the bucket's middle. The sum is computed of middles,
// because the kernel keeps none. below is the number of values below 0, which a Dist cannot have.
func (a *Aggregate) distribution(data []int64) (d measure.Dist, below uint64) {
	d.Base = a.fineness()
	for i, n := range data {
		if n <= 0 { // a Dist has no weights below 0
			continue
		}
		least, greatest, ok := a.Buckets.Bounds(i)
		switch {
		case greatest == math.MaxInt64 && a.Func != format.Quantize: // beyond the last step
			greatest = least
		case greatest < 0:
			ok = false
		case least < 0:
			least = 0
		}
		if !ok {
			below += uint64(n)
			continue
		}
		middle := uint64(least) + (uint64(greatest)-uint64(least))/2
		sum := d.Sum + (float64(least)+float64(greatest))/2*float64(n)
		d.Add(middle, uint64(n))
		d.Sum = sum
	}
	return d, below
}

// word returns a name for the field whose value is the expression text.
func word(text string) string {
	// A member is named without its struct.
	if i := strings.LastIndexAny(text, ">."); i >= 0 && i+1 < len(text) && isName(text[i+1:]) {
		text = text[i+1:]
	}
	out := measure.NameOf(text)
	if len(out) > 32 {
		out = strings.Trim(out[:32], "_")
	}
	switch {
	case out == "":
		return "key"
	case out[0] >= '0' && out[0] <= '9' ||
		out == "by" || out == "where" || out == "and" || out == "in":
		return "key_" + out
	}
	return out
}

func isName(s string) bool {
	for i, c := range s {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
			(i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// distinct returns a name that is not among the others.
func distinct(name string, others []string) string {
	out := name
	for n := 2; slices.Contains(others, out); n++ {
		out = name + strconv.Itoa(n)
	}
	return out
}
