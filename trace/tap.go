package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/measure"
)

// A tap receives all that is added to an aggregation, and keeps it until it is taken. Each reader
// of a statistic has one, so that none takes what another wants, and what the script clears or cuts
// away is in its numbers all the same.
type tap struct {
	of    *Aggregate
	rows  map[string]tapped // by the bytes of the key
	words map[string][]string
}

// tapped is what was added for one key.
type tapped struct {
	// a text for each element of the key; where the session has frames, of a stack the number of
	// its frame
	words []string
	data  []int64 // as a format.Row has it
}

// mostWords is how many keys a tap remembers the words of: finding out what a stack is called costs
// more than all else.
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
	if s := t.of.session; s.frames != nil { // ids of stacks don't come again
		w := make([]string, 0, len(t.of.Of.Key.Fields))
		for _, f := range t.of.Of.Key.Fields {
			if _, stack := f.Type.(check.StackType); stack {
				w = append(w, strconv.Itoa(int(s.frameOf(uint32(FieldOf(key, f).Int)))))
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

// tap begins to keep what is added from now on.
func (a *Aggregate) tap() *tap {
	t := &tap{of: a, rows: map[string]tapped{}, words: map[string][]string{}}
	a.taps = append(a.taps, t)
	return t
}

func (a *Aggregate) untap(t *tap) {
	a.taps = slices.DeleteFunc(a.taps, func(o *tap) bool { return o == t })
}

// Gather reads all aggregations that have readers, up to one moment. It fails when a map cannot be
// read.
func (s *Session) Gather() error {
	var read []*Aggregate
	for _, a := range s.aggs {
		if len(a.taps) > 0 || a.counts != nil {
			read = append(read, a)
		}
	}
	s.cut = time.Now()
	if s.frames != nil {
		s.frames.turned = false
	}
	return s.collect(read...)
}

// Label returns an element of a key as a field has it. A stack is its functions from the outermost
// to the innermost, parted by semicolons.
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

// join adds one value to another of the same aggregation.
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

// number returns a value that is one number.
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

// The finest buckets that a distribution may have: those of quantize() are powers of two, those of
// the others are laid into buckets of 1.6 %.
const finest = 6

// fineness returns the base of the measure.Dist whose buckets an aggregation's are, or for those
// that have none of theirs the finest.
func (a *Aggregate) fineness() uint8 {
	g := a.Of.Agg
	switch {
	case a.Func == format.Quantize:
		return 0
	case a.Func == format.Llquantize && g.Steps[0] == 2 && g.Steps[3] >= 2 && g.Steps[3] <= 2<<finest && g.Steps[3]&(g.Steps[3]-1) == 0:
		// of 8 steps up to each power of two, four are beyond the power before it
		return uint8(bits.TrailingZeros64(uint64(g.Steps[3])) - 1)
	}
	return finest
}

// distribution returns a value that is one. Quantize's buckets are those of a measure.Dist, and so
// are those of llquantize with factor 2 and steps that are a power of it; of the others each counts
// at its middle. The sum is that of the middles too: the kernel keeps none. below is how many
// values were below 0, which have no place in it.
func (a *Aggregate) distribution(data []int64) (d measure.Dist, below uint64) {
	d.Base = a.fineness()
	for i, n := range data {
		if n <= 0 { // weights below 0 are nothing that a distribution can have
			continue
		}
		least, greatest, ok := a.Buckets.Bounds(i)
		switch {
		case greatest == math.MaxInt64 && a.Func != format.Quantize: // what is beyond the last step
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

// word makes of an expression a word that can be the name of a field.
func word(text string) string {
	// a member goes by its own name
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
	case out[0] >= '0' && out[0] <= '9' || out == "by" || out == "where" || out == "and" || out == "in":
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
