package measure

import (
	"math"
	"strings"
)

// NaN stands for "not measured". 0 stands only for a measured zero.
var NaN = math.NaN() // table: a constant that Go cannot spell as one

// StatID names a statistic: subsystem.object.quantity, as in net.device.bytes.
type StatID string

// Kind says how a statistic's values behave over time.
type Kind uint8

// The kinds. A Delta is an amount that came to pass within an interval (its answers are rates); a Level is a state at the
// end of the interval; a Dist is a distribution of single values seen within the interval.
const (
	Delta Kind = iota + 1
	Level
	Dists
)

// String gives the word of the kind: delta, level or dist.
func (k Kind) String() string { return word(int(k), "", "delta", "level", "dist") }

// Type says what a field holds.
type Type uint8

// The types: Word is text, Number a decimal integer, Stack a chain of Frames (innermost first).
const (
	Word Type = iota + 1
	Number
	Stack
)

// String gives the word of the type: word, number or stack.
func (t Type) String() string { return word(int(t), "", "word", "number", "stack") }

// Fold says how values of one statistic combine when a query asks for fewer fields than were measured.
type Fold uint8

// The folds. Sum is right for amounts and for sizes; Max for "worst of"; Mean for states that don't add, as a round trip time
// (rows weigh the same); Min for "best of". NaN rows are left out; a fold of nothing but NaN is NaN.
const (
	Sum Fold = iota
	Max
	Mean
	Min
)

// String gives the word of the fold: sum, max, mean or min.
func (f Fold) String() string { return word(int(f), "sum", "max", "mean", "min") }

// Combine folds v into the value so far, which stands for n values already. NaN counts as no value.
func (f Fold) Combine(sofar float64, n int, v float64) (float64, int) {
	switch {
	case v != v:
		return sofar, n
	case n == 0:
		return v, 1
	}
	switch f {
	case Max:
		return max(sofar, v), n + 1
	case Min:
		return min(sofar, v), n + 1
	case Mean:
		return sofar + (v-sofar)/float64(n+1), n + 1
	}
	return sofar + v, n + 1
}

// Field is one way to break a statistic down.
type Field struct {
	Name string // lower case, one word: device, direction, pid
	Type Type
	Unit Unit   // of a Number; "" for a name or an identity
	Help string // one line

	// Overlaps says that what one value counts another may count too: groups within groups, kinds of memory. Rows of several values add up to no
	// whole, so a breakdown has one only where the query asks for one value.
	Overlaps bool `json:",omitzero"`
}

// Stat describes a statistic: what a source can measure, and how it may be broken down.
type Stat struct {
	ID     StatID
	Kind   Kind
	Unit   Unit // of one value: of the amount for a Delta, not of its rate
	Fold   Fold
	Sparse bool   // rows whose value is 0 may be left out of a batch: where the batch was taken, absent reads as 0
	Traced bool   // programs in the kernel measure it, which run at each event: nobody pays for it who does not ask
	Signed bool   // a Delta whose amounts may be negative: their sum is no counter
	Help   string // one line; says the source, as in "/proc/net/softnet_stat column 3"
	Fields []Field
	Whole  Whole `json:",omitzero"`

	// Program is the text of the D program that measures it, as it was given; "" for what the kernel counts by itself. Another program's numbers are
	// those of another statistic, also where the ID is the same.
	Program string `json:",omitzero"`
}

// NameOf makes of a text a word that can be part of a StatID: letters, digits and _; "" where nothing of it can.
func NameOf(text string) string {
	var b []byte
	for _, c := range []byte(strings.ToLower(text)) {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			b = append(b, c)
		case len(b) > 0 && b[len(b)-1] != '_':
			b = append(b, '_')
		}
	}
	return strings.Trim(string(b), "_")
}

// Whole is what the rows of a statistic are parts of, where they do not add up to it. Zero: they do, or it is not known.
type Whole struct {
	Query string `json:"Sentence"` // of one row, of the same unit
	Rest  string // what of it is in no row, in a few words
}

// Stacks says of each field whether it holds stacks; nil where none does.
func (s *Stat) Stacks(by []string) (out []bool) {
	for i, name := range by {
		if f, _ := s.Field(name); f.Type == Stack {
			if out == nil {
				out = make([]bool, len(by))
			}
			out[i] = true
		}
	}
	return out
}

// Field gives the named field of s and its index, or -1.
func (s *Stat) Field(name string) (Field, int) {
	for i, f := range s.Fields {
		if f.Name == name {
			return f, i
		}
	}
	return Field{}, -1
}

// AnswerUnit gives the unit of an Answer's values: the rate's for a Delta.
func (s *Stat) AnswerUnit() Unit {
	if s.Kind == Delta {
		return s.Unit.PerSecond()
	}
	return s.Unit
}

func word(i int, words ...string) string {
	if i < 0 || i >= len(words) {
		return "?"
	}
	return words[i]
}
