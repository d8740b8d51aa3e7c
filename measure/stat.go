package measure

import (
	"math"
	"strings"
)

// NaN means "not measured". 0 always is a measured zero.
var NaN = math.NaN() // table: a constant that Go cannot declare as one

// StatID names a statistic: subsystem.object.quantity, as in net.device.bytes.
type StatID string

// Kind says how the values of a statistic behave in time.
type Kind uint8

// The kinds. A Delta is an amount within an interval; answers contain its rate. A Level is a state
// at the end of an interval. A Dists statistic has a distribution of the values that occurred
// within an interval.
const (
	Delta Kind = iota + 1
	Level
	Dists
)

// String returns the word of the kind: delta, level or dist.
func (k Kind) String() string { return word(int(k), "", "delta", "level", "dist") }

// Type says what a field contains.
type Type uint8

// The types: Word is text, Number a decimal integer, Stack a chain of Frames (innermost first).
const (
	Word Type = iota + 1
	Number
	Stack
)

// String returns the word of the type: word, number or stack.
func (t Type) String() string { return word(int(t), "", "word", "number", "stack") }

// Fold says how values of one statistic combine when a query has fewer fields than were measured.
type Fold uint8

// The folds. Sum suits amounts and sizes, Max the worst value, Min the best. Mean suits states that
// don't add up, such as a round-trip time; all rows have the same weight. NaN rows are left out;
// the fold of NaN rows only is NaN.
const (
	Sum Fold = iota
	Max
	Mean
	Min
)

// String returns the word of the fold: sum, max, mean or min.
func (f Fold) String() string { return word(int(f), "sum", "max", "mean", "min") }

// Combine folds v into sofar, the fold of n values, and returns the fold and its number of values.
// NaN counts as no value.
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

// Field is a property that divides or filters a statistic.
type Field struct {
	Name string // lower case, one word: device, direction, pid
	Type Type
	Unit Unit   // of a Number; "" for a name or an identity
	Help string // one line

	// Overlaps means that two values of the field may count the same thing: nested groups, kinds of
	// memory. Rows of several values then don't add up to a whole, so a default breakdown has the
	// field only where the query selects one value.
	Overlaps bool `json:",omitzero"`
}

// Stat describes a statistic: what a source measures, and how it can be broken down.
type Stat struct {
	ID     StatID
	Kind   Kind
	Unit   Unit // of one value: for a Delta, of the amount and not of its rate
	Fold   Fold
	Sparse bool   // a batch may leave out rows whose value is 0: an absent row means 0
	Traced bool   // measured by BPF programs at each event, only while a query needs it
	Signed bool   // a Delta whose amounts may be negative: their sum is not a counter
	Help   string // one line; names the source: "/proc/net/softnet_stat column 3"
	Fields []Field
	Whole  Whole `json:",omitzero"`

	// Program is the D program that measures the statistic; "" when it is a kernel counter. A
	// changed program makes it another statistic, even with the same ID.
	Program string `json:",omitzero"`
}

// NameOf converts text to a word that can be part of a StatID: letters, digits and _. The result is
// "" when text has no letter or digit.
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

// Whole describes a total that is larger than the sum of a statistic's rows. Zero: the rows add up
// to the total, or that is unknown.
type Whole struct {
	Query string `json:"Sentence"` // a query for the total; its answer has one row of the same unit
	Rest  string // a few words for the part of the total that no row contains
}

// Stacks reports for each of the fields whether it contains stacks; nil when none does.
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

// Field returns the named field of s and its index, or -1.
func (s *Stat) Field(name string) (Field, int) {
	for i, f := range s.Fields {
		if f.Name == name {
			return f, i
		}
	}
	return Field{}, -1
}

// AnswerUnit returns the unit of an Answer's values: the unit of the rate for a Delta.
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
