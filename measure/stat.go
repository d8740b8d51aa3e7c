package measure

import "math"

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

// Field is one way to break a statistic down.
type Field struct {
	Name string // lower case, one word: device, direction, pid
	Type Type
	Unit Unit   // of a Number; "" for a name or an identity
	Help string // one line
}

// Stat describes a statistic: what a source can measure, and how it may be broken down.
type Stat struct {
	ID     StatID
	Kind   Kind
	Unit   Unit // of one value: of the amount for a Delta, not of its rate
	Fold   Fold
	Sparse bool   // rows whose value is 0 may be left out of a batch: where the batch was taken, absent reads as 0
	Help   string // one line; says the source, as in "/proc/net/softnet_stat column 3"
	Fields []Field
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
